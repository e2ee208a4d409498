package vpptest

import (
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// natState is the plugin nat44-ed.
type natState struct {
	on, forwarding bool
	timeouts       nat_types.NatTimeouts
	sides          map[index]nat_types.NatConfigFlags
	output         pool[index]
	addrs, twice   []nat44_ed.Nat44AddressDetails
	mappings       []*natMapping
	vrfs           []nat44_ed.Nat44EdVrfTablesDetails
	reassembly     ip.IPReassemblyGetReply
}

// natMapping is a mapping of one of three kinds; identities have a VRF per local.
type natMapping struct {
	addr     ip_types.IP4Address
	port     uint16
	proto    uint8
	flags    nat_types.NatConfigFlags
	tag      string
	identity bool
	local    ip_types.IP4Address
	lport    uint16
	vrf      uint32
	locals   []nat44_ed.Nat44LbAddrPort // load-balanced; VRFs of an identity
	balanced bool
}

const defaultSessions = 63 * 1024

func newNATState() natState {
	return natState{
		sides:      map[index]nat_types.NatConfigFlags{},
		timeouts:   nat_types.NatTimeouts{UDP: 300, TCPEstablished: 7440, TCPTransitory: 240, ICMP: 60},
		reassembly: ip.IPReassemblyGetReply{TimeoutMs: 100, MaxReassemblies: 1024, MaxReassemblyLength: 3, ExpireWalkIntervalMs: 10000},
	}
}

func (s *natState) hasOutput(i index) bool {
	found := false
	s.output.each(func(_ uint32, o index) { found = found || o == i })
	return found
}

func (s *natState) removeOutput(i index) {
	s.output.each(func(id uint32, o index) {
		if o == i {
			s.output.remove(id)
		}
	})
}

func (s *natState) find(addr ip_types.IP4Address, port uint16, proto uint8) *natMapping {
	for _, m := range s.mappings {
		if m.addr == addr && m.port == port && m.proto == proto {
			return m
		}
	}
	return nil
}

func (s *natState) remove(m *natMapping) {
	s.mappings = slices.DeleteFunc(s.mappings, func(o *natMapping) bool { return o == m })
}

func handleNAT() {
	on(func(c *call, req *ip.IPReassemblySet, _ *ip.IPReassemblySetReply) api.VPPApiError {
		if req.Type != ip.IP_REASS_TYPE_SHALLOW_VIRTUAL || req.IsIP6 {
			return api.UNIMPLEMENTED // here, not in VPP
		}
		c.nat.reassembly = ip.IPReassemblyGetReply{
			TimeoutMs: req.TimeoutMs, MaxReassemblies: req.MaxReassemblies, MaxReassemblyLength: req.MaxReassemblyLength, ExpireWalkIntervalMs: req.ExpireWalkIntervalMs,
		}
		return 0
	})
	on(func(c *call, _ *ip.IPReassemblyGet, reply *ip.IPReassemblyGetReply) api.VPPApiError {
		*reply = c.nat.reassembly
		return 0
	})
	on(func(c *call, req *nat44_ed.Nat44EdPluginEnableDisable, _ *nat44_ed.Nat44EdPluginEnableDisableReply) api.VPPApiError {
		switch {
		case req.Enable && c.nat.on:
			return api.FEATURE_ALREADY_ENABLED
		case !req.Enable && !c.nat.on:
			return api.FEATURE_ALREADY_DISABLED
		}
		reassembly := c.nat.reassembly
		c.nat = newNATState()
		c.nat.on, c.nat.reassembly = req.Enable, reassembly
		return 0
	})
	on(func(c *call, _ *nat44_ed.Nat44ShowRunningConfig, reply *nat44_ed.Nat44ShowRunningConfigReply) api.VPPApiError {
		if c.nat.on {
			reply.Sessions = defaultSessions
		}
		reply.Timeouts = c.nat.timeouts
		reply.ForwardingEnabled, reply.Flags = c.nat.forwarding, nat44_ed.NAT44_IS_ENDPOINT_DEPENDENT
		return 0
	})
	on(func(c *call, req *nat44_ed.NatSetTimeouts, _ *nat44_ed.NatSetTimeoutsReply) api.VPPApiError {
		c.nat.timeouts = nat_types.NatTimeouts{UDP: req.UDP, TCPEstablished: req.TCPEstablished, TCPTransitory: req.TCPTransitory, ICMP: req.ICMP}
		return 0
	})
	on(func(c *call, req *nat44_ed.Nat44ForwardingEnableDisable, _ *nat44_ed.Nat44ForwardingEnableDisableReply) api.VPPApiError {
		c.nat.forwarding = req.Enable
		return 0
	})
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		delete(c.nat.sides, i)
		c.nat.removeOutput(i)
	})
	handleNATInterfaces()
	handleNATAddresses()
	handleNATVRFs()
	handleNATMappings()
	handleNATSessions()
}

// Without packets, no sessions exist.
func handleNATSessions() {
	onDump(func(*call, *nat44_ed.Nat44UserDump, func(*nat44_ed.Nat44UserDetails)) {})
	onDump(func(*call, *nat44_ed.Nat44UserSessionV3Dump, func(*nat44_ed.Nat44UserSessionV3Details)) {})
	on(func(*call, *nat44_ed.Nat44DelSession, *nat44_ed.Nat44DelSessionReply) api.VPPApiError {
		return api.NO_SUCH_ENTRY
	})
}

func handleNATInterfaces() {
	on(func(c *call, req *nat44_ed.Nat44InterfaceAddDelFeature, _ *nat44_ed.Nat44InterfaceAddDelFeatureReply) api.VPPApiError {
		side := nat_types.NAT_IS_OUTSIDE
		if req.Flags&nat_types.NAT_IS_INSIDE != 0 {
			side = nat_types.NAT_IS_INSIDE
		}
		now, exists := c.nat.sides[req.SwIfIndex]
		switch {
		case c.ifs.iface(req.SwIfIndex) == nil:
			return api.INVALID_SW_IF_INDEX
		case !c.nat.on:
			return api.UNSUPPORTED
		case req.IsAdd && c.nat.hasOutput(req.SwIfIndex):
			return api.VALUE_EXIST
		case req.IsAdd:
			c.nat.sides[req.SwIfIndex] = now | side
		case !exists:
			return api.NO_SUCH_ENTRY
		default:
			if c.nat.sides[req.SwIfIndex] = now &^ side; now&^side == 0 {
				delete(c.nat.sides, req.SwIfIndex)
			}
		}
		return 0
	})
	onDump(func(c *call, _ *nat44_ed.Nat44InterfaceDump, send func(*nat44_ed.Nat44InterfaceDetails)) {
		for i, flags := range c.nat.sides {
			send(&nat44_ed.Nat44InterfaceDetails{SwIfIndex: i, Flags: flags})
		}
	})
	on(func(c *call, req *nat44_ed.Nat44EdAddDelOutputInterface, _ *nat44_ed.Nat44EdAddDelOutputInterfaceReply) api.VPPApiError {
		_, sides := c.nat.sides[req.SwIfIndex]
		output := c.nat.hasOutput(req.SwIfIndex)
		switch {
		case c.ifs.iface(req.SwIfIndex) == nil:
			return api.INVALID_SW_IF_INDEX
		case !c.nat.on:
			return api.UNSUPPORTED
		case req.IsAdd && (sides || output):
			return api.VALUE_EXIST
		case req.IsAdd:
			c.nat.output.add(req.SwIfIndex)
		case !output:
			return api.NO_SUCH_ENTRY
		default:
			c.nat.removeOutput(req.SwIfIndex)
		}
		return 0
	})
	onGet(func(c *call, _ *nat44_ed.Nat44EdOutputInterfaceGet, send func(*nat44_ed.Nat44EdOutputInterfaceDetails), _ *nat44_ed.Nat44EdOutputInterfaceGetReply) api.VPPApiError {
		c.nat.output.each(func(_ uint32, i index) { send(&nat44_ed.Nat44EdOutputInterfaceDetails{SwIfIndex: i}) })
		return 0
	})
}

func handleNATAddresses() {
	on(func(c *call, req *nat44_ed.Nat44AddDelAddressRange, _ *nat44_ed.Nat44AddDelAddressRangeReply) api.VPPApiError {
		list := &c.nat.addrs
		if req.Flags&nat_types.NAT_IS_TWICE_NAT != 0 {
			list = &c.nat.twice
		}
		last := netip.AddrFrom4(req.LastIPAddress)
		for a := netip.AddrFrom4(req.FirstIPAddress); a.Compare(last) <= 0; a = a.Next() {
			at := slices.IndexFunc(*list, func(d nat44_ed.Nat44AddressDetails) bool { return netip.AddrFrom4(d.IPAddress) == a })
			switch {
			case req.IsAdd && !c.nat.on:
				return api.UNSUPPORTED
			case req.IsAdd && at >= 0:
				return api.VALUE_EXIST
			case req.IsAdd:
				*list = append(*list, nat44_ed.Nat44AddressDetails{IPAddress: a.As4(), VrfID: req.VrfID, Flags: req.Flags & nat_types.NAT_IS_TWICE_NAT})
			case at < 0:
				return api.NO_SUCH_ENTRY
			default:
				*list = slices.Delete(*list, at, at+1)
			}
		}
		return 0
	})
	onDump(func(c *call, _ *nat44_ed.Nat44AddressDump, send func(*nat44_ed.Nat44AddressDetails)) {
		for _, d := range append(slices.Clone(c.nat.addrs), c.nat.twice...) {
			send(&d)
		}
	})
}

func handleNATVRFs() {
	table := func(c *call, id uint32) int {
		return slices.IndexFunc(c.nat.vrfs, func(t nat44_ed.Nat44EdVrfTablesDetails) bool { return t.TableVrfID == id })
	}
	on(func(c *call, req *nat44_ed.Nat44EdAddDelVrfTable, _ *nat44_ed.Nat44EdAddDelVrfTableReply) api.VPPApiError {
		at := table(c, req.TableVrfID)
		switch {
		case req.IsAdd && at >= 0:
			return api.VALUE_EXIST
		case req.IsAdd:
			c.nat.vrfs = append(c.nat.vrfs, nat44_ed.Nat44EdVrfTablesDetails{TableVrfID: req.TableVrfID})
		case at < 0:
			return api.NO_SUCH_ENTRY
		default:
			c.nat.vrfs = slices.Delete(c.nat.vrfs, at, at+1)
		}
		return 0
	})
	on(func(c *call, req *nat44_ed.Nat44EdAddDelVrfRoute, _ *nat44_ed.Nat44EdAddDelVrfRouteReply) api.VPPApiError {
		at := table(c, req.TableVrfID)
		if at < 0 {
			return api.NO_SUCH_ENTRY
		}
		t := &c.nat.vrfs[at]
		switch has := slices.Contains(t.VrfIds, req.VrfID); {
		case req.IsAdd && has:
			return api.VALUE_EXIST
		case req.IsAdd:
			t.VrfIds = append(t.VrfIds, req.VrfID)
		case !has:
			return api.NO_SUCH_ENTRY
		default: // the list keeps its length and ends with random memory
			t.VrfIds = append(slices.DeleteFunc(t.VrfIds, func(id uint32) bool { return id == req.VrfID }), 0xdead)
		}
		return 0
	})
	// VPP answers with the details of the request's first version.
	onDump(func(c *call, _ *nat44_ed.Nat44EdVrfTablesV2Dump, send func(*nat44_ed.Nat44EdVrfTablesDetails)) {
		for _, t := range c.nat.vrfs {
			send(&t)
		}
	})
}
