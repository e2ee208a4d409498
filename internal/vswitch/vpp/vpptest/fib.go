package vpptest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

// fibSourceNames lists VPP's sources by number. Lower numbers are stronger, except that cnat is the
// strongest.
var fibSourceNames = []string{
	"invalid", "special", "classify", "proxy", "interface", "SR", "BIER", "6RD", "API", "CLI", "LISP", "MAP", "DHCP", "IPv6-proxy-nd",
	"IPv6-nd", "adjacency", "mpls", "attached_export", "recursive-resolution", "urpf-exempt", "default-route", "interpose",
	"cnat",
}

// FIB sources.
const (
	SourceSpecial   = 1
	SourceInterface = 4
	SourceAPI       = 8
	SourceCLI       = 9
	sourceAdjacency = 15
	sourceNextHop   = 18
	sourceDefault   = 20
	sourceCNAT      = 22
)

// ipState holds VRF tables and neighbours.
type ipState struct {
	tables     map[tableID]*ipTable
	neighbours map[neighbourID]ip_neighbor.IPNeighbor
}

func newIPState() ipState {
	return ipState{newIPTables(), map[neighbourID]ip_neighbor.IPNeighbor{}}
}

// commandsAbout maps prefixes of CLI commands that take an argument to handlers.
var commandsAbout = map[string]func(c *call, args string) string{}

type tableID struct {
	id   uint32
	ipv6 bool
}

// ipTable is a VRF table of one IP version.
type ipTable struct {
	name     string
	locked   bool // created through the API
	flowHash ip.IPFlowHashConfigV2
	entries  map[netip.Prefix]map[uint8][]fib_types.FibPath // by source
}

const defaultFlowHash ip.IPFlowHashConfigV2 = 0x9f

func newIPTables() map[tableID]*ipTable {
	tables := map[tableID]*ipTable{}
	for _, ipv6 := range []bool{false, true} {
		newIPTable(tables, tableID{0, ipv6}, "")
	}
	return tables
}

func newIPTable(tables map[tableID]*ipTable, id tableID, name string) *ipTable {
	version, special := "ipv4", []string{"0.0.0.0/32", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"}
	if id.ipv6 {
		version, special = "ipv6", []string{"fe80::/10"}
	}
	if name == "" {
		name = fmt.Sprintf("%s-VRF:%d", version, id.id)
	}
	t := &ipTable{name: name, flowHash: defaultFlowHash, entries: map[netip.Prefix]map[uint8][]fib_types.FibPath{}}
	for _, text := range special {
		t.put(netip.MustParsePrefix(text), SourceSpecial, drop(id.ipv6))
	}
	t.put(everything(id.ipv6), sourceDefault, drop(id.ipv6))
	tables[id] = t
	return t
}

func everything(ipv6 bool) netip.Prefix {
	if ipv6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func drop(ipv6 bool) []fib_types.FibPath {
	p := fib_types.FibPath{Type: fib_types.FIB_API_PATH_TYPE_DROP, SwIfIndex: ^uint32(0), Weight: 1}
	if ipv6 {
		p.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	return []fib_types.FibPath{p}
}

// put sets a source's entry; no paths: removes it.
func (t *ipTable) put(dst netip.Prefix, source uint8, paths []fib_types.FibPath) {
	if t.entries[dst] == nil {
		t.entries[dst] = map[uint8][]fib_types.FibPath{}
	}
	t.entries[dst][source] = paths
	if len(paths) == 0 {
		delete(t.entries[dst], source)
	}
	if len(t.entries[dst]) == 0 {
		delete(t.entries, dst)
	}
}

// best returns the strongest source's entry of a destination; source 0: none.
func (c *call) best(id tableID, dst netip.Prefix) (source uint8, paths []fib_types.FibPath) {
	said := maps.Clone(c.tables[id].entries[dst])
	if said == nil {
		said = map[uint8][]fib_types.FibPath{}
	}
	c.sayInterfaces(id, dst, said)
	if dst.IsSingleIP() && c.isNextHop(id, dst.Addr()) {
		said[sourceNextHop] = drop(id.ipv6)
	}
	if id == (tableID{0, dst.Addr().Is6()}) && dst.IsSingleIP() && c.cnat.translates(dst.Addr()) {
		for _, s := range slices.Sorted(maps.Keys(said)) { // cnat leaves the paths
			return sourceCNAT, said[s]
		}
		return sourceCNAT, drop(id.ipv6)
	}
	for _, s := range slices.Sorted(maps.Keys(said)) {
		return s, said[s]
	}
	return 0, nil
}

// sayInterfaces adds VPP's own entries for addresses and neighbours.
func (c *call) sayInterfaces(id tableID, dst netip.Prefix, said map[uint8][]fib_types.FibPath) {
	c.ifs.all(func(i *swInterface) {
		table := i.tables[0]
		if id.ipv6 {
			table = i.tables[1]
		}
		if table != id.id {
			return
		}
		for _, a := range i.addrs {
			if a.Masked() == dst || a.Addr() == dst.Addr() && dst.IsSingleIP() {
				said[SourceInterface] = []fib_types.FibPath{{SwIfIndex: uint32(i.SwIfIndex), Weight: 1}}
			}
			if _, known := c.neighbours[neighbourID{i.SwIfIndex, dst.Addr()}]; known && dst.IsSingleIP() && a.Contains(dst.Addr()) {
				said[sourceAdjacency] = []fib_types.FibPath{{SwIfIndex: uint32(i.SwIfIndex), Weight: 1}}
			}
		}
	})
}

// isNextHop reports whether a route's next hop is resolved at an address of a table.
func (c *call) isNextHop(id tableID, addr netip.Addr) bool {
	for of, t := range c.tables {
		if of.ipv6 != id.ipv6 {
			continue
		}
		for _, said := range t.entries {
			for _, paths := range said {
				if slices.ContainsFunc(paths, func(p fib_types.FibPath) bool { return nextHop(p) == addr && p.TableID == id.id }) {
					return true
				}
			}
		}
	}
	return false
}

// nextHop returns the address that resolves a path; invalid if none.
func nextHop(p fib_types.FibPath) netip.Addr {
	if p.Type != fib_types.FIB_API_PATH_TYPE_NORMAL || p.SwIfIndex != ^uint32(0) {
		return netip.Addr{}
	}
	gw := netip.AddrFrom4(p.Nh.Address.GetIP4())
	if p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 {
		gw = netip.AddrFrom16(p.Nh.Address.GetIP6())
	}
	if gw.IsUnspecified() {
		return netip.Addr{}
	}
	return gw
}

// longest returns the longest prefix of a table that contains one.
func (c *call) longest(id tableID, dst netip.Prefix) netip.Prefix {
	for bits := dst.Bits(); bits > 0; bits-- {
		p := netip.PrefixFrom(dst.Addr(), bits).Masked()
		if source, _ := c.best(id, p); source != 0 {
			return p
		}
	}
	return everything(id.ipv6)
}

// requireHeld fails the test if a route has lost a path whose next hop is reached only through it:
// VPP 25.10 then uses freed memory.
func (c *call) requireHeld(id tableID, dst netip.Prefix, before, after []fib_types.FibPath) {
	for _, p := range before {
		gw := nextHop(p)
		if !gw.IsValid() || p.TableID != id.id || slices.ContainsFunc(after, func(a fib_types.FibPath) bool { return sameFIBPath(a, p) }) {
			continue
		}
		host := netip.PrefixFrom(gw, gw.BitLen())
		if source, _ := c.best(id, host); source != 0 && source != sourceNextHop || dst == host {
			continue
		}
		if c.longest(id, netip.PrefixFrom(gw, gw.BitLen()-1).Masked()) == dst {
			c.server.t.Errorf("vpptest: route %v loses its path to %v, which it covers itself", dst, gw)
		}
	}
}

func prefix(p ip_types.Prefix) netip.Prefix { return netip.PrefixFrom(addr(p.Address), int(p.Len)) }

func addr(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	return netip.AddrFrom4(a.Un.GetIP4())
}

func apiPrefix(p netip.Prefix) ip_types.Prefix {
	if p.Addr().Is6() {
		return ip_types.Prefix{Len: uint8(p.Bits()), Address: ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: ip_types.AddressUnionIP6(p.Addr().As16())}}
	}
	return ip_types.Prefix{Len: uint8(p.Bits()), Address: ip_types.Address{Un: ip_types.AddressUnionIP4(p.Addr().As4())}}
}

// sameFIBPath ignores weights and preferences.
func sameFIBPath(a, b fib_types.FibPath) bool {
	a.Weight, a.Preference, a.RpfID = b.Weight, b.Preference, b.RpfID
	return a == b
}

// normalPath returns a path in VPP's form.
func (c *call) normalPath(p fib_types.FibPath, ipv6 bool) (fib_types.FibPath, api.VPPApiError) {
	p.Weight = max(p.Weight, 1)
	p.RpfID = ^uint32(0)
	switch {
	case p.Type == fib_types.FIB_API_PATH_TYPE_DROP:
		p.SwIfIndex, p.TableID = ^uint32(0), 0
	case p.Type != fib_types.FIB_API_PATH_TYPE_NORMAL:
	case p.SwIfIndex == ^uint32(0):
		if c.tables[tableID{p.TableID, p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6}] == nil {
			return p, api.NO_SUCH_FIB
		}
	case c.ifs.iface(index(p.SwIfIndex)) == nil:
		return p, api.NO_MATCHING_INTERFACE
	default:
		p.TableID = 0
	}
	return p, 0
}

func handleFIB() {
	onDump(func(_ *call, _ *fib.FibSourceDump, send func(*fib.FibSourceDetails)) {
		for id, name := range fibSourceNames {
			send(&fib.FibSourceDetails{Src: fib.FibSource{ID: uint8(id), Priority: uint8(id), Name: name}})
		}
	})
	on(func(c *call, req *ip.IPTableAddDelV2, _ *ip.IPTableAddDelV2Reply) api.VPPApiError {
		id := tableID{req.Table.TableID, req.Table.IsIP6}
		t := c.tables[id]
		switch {
		case id.id == 0:
		case req.IsAdd && t == nil:
			newIPTable(c.tables, id, strings.TrimRight(req.Table.Name, "\x00")).locked = true
		case t != nil:
			t.locked = req.IsAdd
		}
		c.freeTables()
		return 0
	})
	onDump(func(c *call, _ *ip.IPTableDump, send func(*ip.IPTableDetails)) {
		c.freeTables()
		ids := slices.SortedFunc(maps.Keys(c.tables), func(a, b tableID) int {
			if a.ipv6 != b.ipv6 {
				return map[bool]int{false: -1, true: 1}[a.ipv6]
			}
			return cmp.Compare(a.id, b.id)
		})
		for _, id := range ids {
			send(&ip.IPTableDetails{Table: ip.IPTable{TableID: id.id, IsIP6: id.ipv6, Name: c.tables[id].name}})
		}
	})
	on(func(c *call, req *ip.SetIPFlowHashV3, _ *ip.SetIPFlowHashV3Reply) api.VPPApiError {
		t := c.tables[tableID{req.TableID, req.Af == ip_types.ADDRESS_IP6}]
		if t == nil {
			return api.NO_SUCH_FIB
		}
		t.flowHash = req.FlowHashConfig
		return 0
	})
	for _, version := range []string{"ip", "ip6"} {
		commandsAbout["show "+version+" fib table "] = func(c *call, args string) string {
			var id tableID
			_, _ = fmt.Sscan(args, &id.id)
			id.ipv6 = version == "ip6"
			t := c.tables[id]
			if t == nil {
				return ""
			}
			words := ""
			for i, word := range []string{"src", "dst", "sport", "dport", "proto", "reverse", "symmetric", "flowlabel"} {
				if t.flowHash&(1<<i) != 0 {
					words += word + " "
				}
			}
			return fmt.Sprintf("%s, fib_index:1, flow hash:[%s] epoch:0 flags:none locks:[API:1, ]\n", t.name, words)
		}
	}
	on(func(c *call, req *ip.IPRouteAddDelV2, reply *ip.IPRouteAddDelV2Reply) (code api.VPPApiError) {
		c.adjacent(func() { code = addDelRoute(c, req, reply) })
		return code
	})
	on(func(c *call, req *ip.IPRouteLookupV2, reply *ip.IPRouteLookupV2Reply) api.VPPApiError {
		dst := prefix(req.Prefix).Masked()
		id := tableID{req.TableID, dst.Addr().Is6()}
		if c.tables[id] == nil {
			return api.NO_SUCH_FIB
		}
		if req.Exact == 0 {
			dst = c.longest(id, dst)
		}
		source, paths := c.best(id, dst)
		if source == 0 {
			return api.NO_SUCH_ENTRY
		}
		reply.Route = ip.IPRouteV2{TableID: id.id, Prefix: apiPrefix(dst), Src: source, Paths: paths}
		return 0
	})
	onDump(func(c *call, req *ip.IPRouteV2Dump, send func(*ip.IPRouteV2Details)) {
		id := tableID{req.Table.TableID, req.Table.IsIP6}
		t := c.tables[id]
		if t == nil {
			return
		}
		for dst := range t.entries {
			source, paths := c.best(id, dst)
			if req.Src == 0 || source == req.Src {
				send(&ip.IPRouteV2Details{Route: ip.IPRouteV2{TableID: id.id, Prefix: apiPrefix(dst), Src: source, Paths: paths}})
			}
		}
	})
	tableExists = func(c *call, id uint32, v6 bool) bool { return c.tables[tableID{id, v6}] != nil }
}

// freeTables removes unused tables.
func (c *call) freeTables() {
	used := map[tableID]bool{}
	c.ifs.all(func(i *swInterface) { used[tableID{i.tables[0], false}], used[tableID{i.tables[1], true}] = true, true })
	for id, t := range c.tables {
		routes := false
		for _, said := range t.entries {
			routes = routes || said[SourceAPI] != nil || said[SourceCLI] != nil
		}
		if id.id != 0 && !t.locked && !routes && !used[id] {
			delete(c.tables, id)
		}
	}
}

func addDelRoute(c *call, req *ip.IPRouteAddDelV2, _ *ip.IPRouteAddDelV2Reply) api.VPPApiError {
	dst := prefix(req.Route.Prefix).Masked()
	id := tableID{req.Route.TableID, dst.Addr().Is6()}
	t := c.tables[id]
	if t == nil {
		return api.NO_SUCH_FIB
	}
	source := req.Route.Src
	if source == 0 {
		source = SourceAPI
	}
	var paths []fib_types.FibPath
	for _, p := range req.Route.Paths {
		p, code := c.normalPath(p, id.ipv6)
		if code != 0 {
			return code
		}
		paths = append(paths, p)
	}
	have := slices.Clone(t.entries[dst][source])
	switch {
	case (req.IsMultipath || req.IsAdd) && len(paths) == 0:
		return -52 // no paths specified in route
	case !req.IsAdd && !req.IsMultipath:
		paths = nil
	case req.IsAdd && req.IsMultipath:
		for _, p := range paths {
			if !slices.ContainsFunc(have, func(h fib_types.FibPath) bool { return sameFIBPath(h, p) }) {
				have = append(have, p)
			}
		}
		paths = have
	case req.IsMultipath:
		paths = slices.DeleteFunc(slices.Clone(have), func(h fib_types.FibPath) bool {
			return slices.ContainsFunc(paths, func(p fib_types.FibPath) bool { return sameFIBPath(h, p) })
		})
	}
	c.requireHeld(id, dst, have, paths)
	t.put(dst, source, paths)
	return 0
}
