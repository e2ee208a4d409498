package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

const wholeAddress, out2in = nat_types.NAT_IS_ADDR_ONLY, nat_types.NAT_IS_OUT2IN_ONLY

// addStatic adds a mapping with one local address, or an identity.
func (s *natState) addStatic(m *natMapping) api.VPPApiError {
	if !s.on || m.flags&(nat_types.NAT_IS_TWICE_NAT|nat_types.NAT_IS_SELF_TWICE_NAT) != 0 && m.flags&wholeAddress != 0 {
		return api.UNSUPPORTED
	}
	if m.flags&wholeAddress != 0 {
		m.port, m.lport, m.proto = 0, 0, 0
	}
	vrf := nat44_ed.Nat44LbAddrPort{VrfID: m.vrf}
	if now := s.find(m.addr, m.port, m.proto); now != nil {
		if !now.identity || slices.Contains(now.locals, vrf) {
			return api.VALUE_EXIST
		}
		now.locals = append(now.locals, vrf)
		return 0
	}
	if m.identity {
		m.locals = []nat44_ed.Nat44LbAddrPort{vrf}
	} else if m.flags&out2in == 0 && slices.ContainsFunc(s.mappings, func(o *natMapping) bool {
		return !o.identity && o.flags&out2in == 0 && o.local == m.local && o.lport == m.lport && o.proto == m.proto && o.vrf == m.vrf
	}) {
		return api.VALUE_EXIST
	}
	s.mappings = append(s.mappings, m)
	return 0
}

func (s *natState) delStatic(m *natMapping) api.VPPApiError {
	if !s.on {
		return api.UNSUPPORTED
	}
	if m.flags&wholeAddress != 0 {
		m.port, m.proto = 0, 0
	}
	now := s.find(m.addr, m.port, m.proto)
	if now == nil {
		return api.NO_SUCH_ENTRY
	}
	if m.identity {
		vrf := nat44_ed.Nat44LbAddrPort{VrfID: m.vrf}
		if !slices.Contains(now.locals, vrf) {
			return api.NO_SUCH_ENTRY
		}
		now.locals = slices.DeleteFunc(now.locals, func(l nat44_ed.Nat44LbAddrPort) bool { return l == vrf })
	}
	if !m.identity || len(now.locals) == 0 {
		s.remove(now)
	}
	return 0
}

func handleNATMappings() {
	// The driver makes no mappings for an interface's address.
	on(func(c *call, req *nat44_ed.Nat44AddDelStaticMappingV2, _ *nat44_ed.Nat44AddDelStaticMappingV2Reply) api.VPPApiError {
		m := &natMapping{
			addr: req.ExternalIPAddress, port: req.ExternalPort, proto: req.Protocol, flags: req.Flags, tag: req.Tag,
			local: req.LocalIPAddress, lport: req.LocalPort, vrf: req.VrfID,
		}
		if req.IsAdd {
			return c.nat.addStatic(m)
		}
		return c.nat.delStatic(m)
	})
	on(func(c *call, req *nat44_ed.Nat44AddDelIdentityMapping, _ *nat44_ed.Nat44AddDelIdentityMappingReply) api.VPPApiError {
		m := &natMapping{addr: req.IPAddress, port: req.Port, proto: req.Protocol, flags: req.Flags, tag: req.Tag, vrf: req.VrfID, identity: true}
		if req.IsAdd {
			return c.nat.addStatic(m)
		}
		return c.nat.delStatic(m)
	})
	onDump(func(c *call, _ *nat44_ed.Nat44StaticMappingDump, send func(*nat44_ed.Nat44StaticMappingDetails)) {
		for _, m := range c.nat.mappings {
			if !m.identity && !m.balanced {
				send(&nat44_ed.Nat44StaticMappingDetails{
					Flags: m.flags, LocalIPAddress: m.local, LocalPort: m.lport, ExternalIPAddress: m.addr, ExternalPort: m.port, Protocol: m.proto,
					ExternalSwIfIndex: noIndex, VrfID: m.vrf, Tag: m.tag,
				})
			}
		}
	})
	onDump(func(c *call, _ *nat44_ed.Nat44IdentityMappingDump, send func(*nat44_ed.Nat44IdentityMappingDetails)) {
		for _, m := range c.nat.mappings {
			for _, l := range m.locals {
				if m.identity {
					send(&nat44_ed.Nat44IdentityMappingDetails{
						Flags: m.flags & wholeAddress, IPAddress: m.addr, Port: m.port, Protocol: m.proto, SwIfIndex: noIndex, VrfID: l.VrfID, Tag: m.tag,
					})
				}
			}
		}
	})
	handleNATBalanced()
}

func handleNATBalanced() {
	on(func(c *call, req *nat44_ed.Nat44AddDelLbStaticMapping, _ *nat44_ed.Nat44AddDelLbStaticMappingReply) api.VPPApiError {
		now := c.nat.find(req.ExternalAddr, req.ExternalPort, req.Protocol)
		allocated := slices.ContainsFunc(c.nat.addrs, func(a nat44_ed.Nat44AddressDetails) bool { return a.IPAddress == req.ExternalAddr })
		switch {
		case !c.nat.on:
			return api.UNSUPPORTED
		case !req.IsAdd && now == nil:
			return api.NO_SUCH_ENTRY
		case !req.IsAdd && !now.balanced:
			return api.INVALID_VALUE
		case !req.IsAdd:
			c.nat.remove(now)
			return 0
		case now != nil:
			return api.VALUE_EXIST
		case len(req.Locals) < 2:
			return api.INVALID_VALUE
		case req.Flags&out2in == 0 && !allocated:
			return api.NO_SUCH_ENTRY
		}
		c.nat.mappings = append(c.nat.mappings, &natMapping{
			addr: req.ExternalAddr, port: req.ExternalPort, proto: req.Protocol, flags: req.Flags, tag: req.Tag,
			locals: req.Locals, balanced: true,
		})
		return 0
	})
	on(func(c *call, req *nat44_ed.Nat44LbStaticMappingAddDelLocal, _ *nat44_ed.Nat44LbStaticMappingAddDelLocalReply) api.VPPApiError {
		m := c.nat.find(req.ExternalAddr, req.ExternalPort, req.Protocol)
		if !c.nat.on {
			return api.UNSUPPORTED
		}
		if m == nil {
			return api.NO_SUCH_ENTRY
		}
		at := slices.IndexFunc(m.locals, func(l nat44_ed.Nat44LbAddrPort) bool {
			return l.Addr == req.Local.Addr && l.Port == req.Local.Port && l.VrfID == req.Local.VrfID
		})
		switch {
		case !m.balanced:
			return api.INVALID_VALUE
		case req.IsAdd && at >= 0:
			return api.VALUE_EXIST
		case req.IsAdd:
			m.locals = append(m.locals, req.Local)
		case at < 0:
			return api.NO_SUCH_ENTRY
		case len(m.locals) < 3:
			return api.UNSPECIFIED
		default:
			m.locals = slices.Delete(m.locals, at, at+1)
		}
		return 0
	})
	onDump(func(c *call, _ *nat44_ed.Nat44LbStaticMappingDump, send func(*nat44_ed.Nat44LbStaticMappingDetails)) {
		for _, m := range c.nat.mappings {
			if m.balanced {
				send(&nat44_ed.Nat44LbStaticMappingDetails{ // without the affinity
					ExternalAddr: m.addr, ExternalPort: m.port, Protocol: m.proto, Flags: m.flags, Tag: m.tag,
					LocalNum: uint32(len(m.locals)), Locals: m.locals,
				})
			}
		}
	})
}
