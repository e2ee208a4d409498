package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/punt"
)

// puntState holds redirections and punt sockets.
type puntState struct {
	redirects []ip.PuntRedirectV2
	sockets   []punt.PuntSocketDetails
	unknown   map[punt.Punt]bool // packets to unused ports
}

// puntReasons lists some of VPP's reasons, by number less one.
var puntReasons = []string{"ipsec4-spi-o-udp-0", "ipsec4-no-such-tunnel", "ipsec6-no-such-tunnel", "ipsec6-spi-o-udp-0"}

func handlePunts() {
	on(func(c *call, req *ip.AddDelIPPuntRedirectV2, _ *ip.AddDelIPPuntRedirectV2Reply) api.VPPApiError {
		r := req.Punt
		if r.RxSwIfIndex == 0 {
			r.RxSwIfIndex = noIndex // the one for all others
		}
		for _, p := range r.Paths {
			if !c.hasInterface(index(p.SwIfIndex)) {
				return api.NO_MATCHING_INTERFACE
			}
		}
		s := &c.punt
		s.redirects = slices.DeleteFunc(s.redirects, func(o ip.PuntRedirectV2) bool { return o.RxSwIfIndex == r.RxSwIfIndex && o.Af == r.Af })
		if req.IsAdd {
			s.redirects = append(s.redirects, r)
		}
		return 0
	})
	onDump(func(c *call, req *ip.IPPuntRedirectV2Dump, send func(*ip.IPPuntRedirectV2Details)) {
		for _, r := range c.punt.redirects {
			if r.Af == req.Af && (req.SwIfIndex == noIndex || req.SwIfIndex == r.RxSwIfIndex) {
				send(&ip.IPPuntRedirectV2Details{Punt: r})
			}
		}
	})
	on(func(c *call, req *punt.SetPunt, _ *punt.SetPuntReply) api.VPPApiError {
		if l4 := req.Punt.Punt.GetL4(); req.Punt.Type != punt.PUNT_API_TYPE_L4 || l4.Port != ^uint16(0) && l4.Protocol != ip_types.IP_API_PROTO_UDP {
			return api.UNSPECIFIED
		}
		if c.punt.unknown == nil {
			c.punt.unknown = map[punt.Punt]bool{}
		}
		c.punt.unknown[req.Punt] = req.IsAdd
		return 0
	})

	same := func(p punt.Punt) func(punt.PuntSocketDetails) bool {
		return func(s punt.PuntSocketDetails) bool { return s.Punt == p }
	}
	on(func(c *call, req *punt.PuntSocketRegister, _ *punt.PuntSocketRegisterReply) api.VPPApiError {
		if req.Punt.Type == punt.PUNT_API_TYPE_L4 && req.Punt.Punt.GetL4().Protocol != ip_types.IP_API_PROTO_UDP {
			return api.UNSPECIFIED
		}
		if req.Punt.Type == punt.PUNT_API_TYPE_EXCEPTION && int(req.Punt.Punt.GetException().ID) > len(puntReasons) {
			c.server.t.Errorf("vpptest: reason %d is not there: VPP would not answer", req.Punt.Punt.GetException().ID)
			return api.UNSPECIFIED
		}
		c.punt.sockets = slices.DeleteFunc(c.punt.sockets, same(req.Punt))
		c.punt.sockets = append(c.punt.sockets, punt.PuntSocketDetails{Punt: req.Punt, Pathname: req.Pathname})
		return 0
	})
	on(func(c *call, req *punt.PuntSocketDeregister, _ *punt.PuntSocketDeregisterReply) api.VPPApiError {
		c.punt.sockets = slices.DeleteFunc(c.punt.sockets, same(req.Punt))
		return 0
	})
	onDump(func(c *call, req *punt.PuntSocketDump, send func(*punt.PuntSocketDetails)) {
		for _, s := range c.punt.sockets {
			if s.Punt.Type == req.Type {
				send(&s)
			}
		}
	})
	onDump(func(_ *call, req *punt.PuntReasonDump, send func(*punt.PuntReasonDetails)) {
		for i, name := range puntReasons {
			if req.Reason.Name == "" || req.Reason.Name == name {
				send(&punt.PuntReasonDetails{Reason: punt.PuntReason{ID: uint32(i + 1), Name: name}})
			}
		}
	})
}
