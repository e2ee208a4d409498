package vpptest

import (
	"maps"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/arp"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/l3xc"
	"go.fd.io/govpp/binapi/span"
)

// l3Features are proxy ARP, L3 cross-connects and mirrored interfaces.
type l3Features struct {
	proxyRanges []arp.ProxyArp
	proxyOn     map[index]bool
	l3xc        map[l3xcID][]fib_types.FibPath
	spans       map[spanID]span.SpanState
}

type l3xcID struct {
	on   index
	ipv6 bool
}

type spanID struct {
	from, to index
	isL2     bool
}

func newL3Features() l3Features {
	return l3Features{proxyOn: map[index]bool{}, l3xc: map[l3xcID][]fib_types.FibPath{}, spans: map[spanID]span.SpanState{}}
}

func handleL3Features() {
	on(func(c *call, req *arp.ProxyArpAddDel, _ *arp.ProxyArpAddDelReply) api.VPPApiError {
		if c.tables[tableID{req.Proxy.TableID, false}] == nil {
			return api.NO_SUCH_FIB
		}
		at := slices.Index(c.l3.proxyRanges, req.Proxy)
		switch {
		case req.IsAdd && at < 0:
			c.l3.proxyRanges = append(c.l3.proxyRanges, req.Proxy)
		case !req.IsAdd && at < 0:
			return api.NO_SUCH_ENTRY
		case !req.IsAdd:
			c.l3.proxyRanges = slices.Delete(c.l3.proxyRanges, at, at+1)
		}
		return 0
	})
	onDump(func(c *call, _ *arp.ProxyArpDump, send func(*arp.ProxyArpDetails)) {
		for _, r := range c.l3.proxyRanges {
			send(&arp.ProxyArpDetails{Proxy: r})
		}
	})
	on(func(c *call, req *arp.ProxyArpIntfcEnableDisable, _ *arp.ProxyArpIntfcEnableDisableReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		c.l3.proxyOn[req.SwIfIndex] = req.Enable
		return 0
	})
	onDump(func(c *call, _ *arp.ProxyArpIntfcDump, send func(*arp.ProxyArpIntfcDetails)) {
		for _, i := range slices.Sorted(maps.Keys(c.l3.proxyOn)) {
			if c.l3.proxyOn[i] {
				send(&arp.ProxyArpIntfcDetails{SwIfIndex: uint32(i)})
			}
		}
	})
	on(func(c *call, req *l3xc.L3xcUpdate, _ *l3xc.L3xcUpdateReply) api.VPPApiError {
		if c.ifs.iface(req.L3xc.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		if len(req.L3xc.Paths) == 0 {
			return api.INVALID_VALUE
		}
		var paths []fib_types.FibPath
		for _, p := range req.L3xc.Paths {
			p, code := c.normalPath(p, req.L3xc.IsIP6)
			if code != 0 {
				return code
			}
			paths = append(paths, p)
		}
		c.l3.l3xc[l3xcID{req.L3xc.SwIfIndex, req.L3xc.IsIP6}] = paths
		return 0
	})
	on(func(c *call, req *l3xc.L3xcDel, _ *l3xc.L3xcDelReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		id := l3xcID{req.SwIfIndex, req.IsIP6}
		if c.l3.l3xc[id] == nil {
			return api.INVALID_VALUE
		}
		delete(c.l3.l3xc, id)
		return 0
	})
	onDump(func(c *call, req *l3xc.L3xcDump, send func(*l3xc.L3xcDetails)) {
		for id, paths := range c.l3.l3xc {
			if req.SwIfIndex == noIndex || req.SwIfIndex == id.on {
				// VPP does not set is_ip6.
				send(&l3xc.L3xcDetails{L3xc: l3xc.L3xc{SwIfIndex: id.on, Paths: paths}})
			}
		}
	})
	on(func(c *call, req *span.SwInterfaceSpanEnableDisable, _ *span.SwInterfaceSpanEnableDisableReply) api.VPPApiError {
		switch {
		case req.State > span.SPAN_STATE_API_RX_TX:
			return api.UNIMPLEMENTED
		case req.SwIfIndexFrom == req.SwIfIndexTo || req.SwIfIndexFrom == noIndex || req.SwIfIndexTo == noIndex && req.State > 0:
			return api.INVALID_INTERFACE
		}
		id := spanID{req.SwIfIndexFrom, req.SwIfIndexTo, req.IsL2}
		c.l3.spans[id] = req.State
		if req.State == span.SPAN_STATE_API_DISABLED {
			delete(c.l3.spans, id)
		}
		return 0
	})
	onDump(func(c *call, req *span.SwInterfaceSpanDump, send func(*span.SwInterfaceSpanDetails)) {
		for id, state := range c.l3.spans {
			if id.isL2 == req.IsL2 {
				send(&span.SwInterfaceSpanDetails{SwIfIndexFrom: id.from, SwIfIndexTo: id.to, State: state, IsL2: id.isL2})
			}
		}
	})
}
