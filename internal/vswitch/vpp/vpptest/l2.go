package vpptest

import (
	"maps"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/l2"
)

// l2State holds the bridge domains by number, and the modes of interfaces outside layer 3.
type l2State struct {
	bridges map[uint32]*bridge
	modes   map[index]l2Mode
	fib     map[fibKey]l2.L2FibTableDetails
}

type bridge struct {
	l2.BridgeDomainDetails // without ports
	arp                    map[l2.BdIPMac]bool
}

// l2Mode: a port of a bridge domain, or cross-connected.
type l2Mode struct {
	bd   uint32
	shg  uint8
	kind l2.L2PortType
	tx   index
}

type fibKey struct {
	bd  uint32
	mac ethernet_types.MacAddress
}

func newL2State() l2State {
	return l2State{map[uint32]*bridge{}, map[index]l2Mode{}, map[fibKey]l2.L2FibTableDetails{}}
}

// ports returns the ports of a bridge domain in order.
func (s *l2State) ports(bd uint32) (ports []index) {
	for _, i := range slices.Sorted(maps.Keys(s.modes)) {
		if s.modes[i].bd == bd {
			ports = append(ports, i)
		}
	}
	return ports
}

// setL3 moves an interface to layer 3.
func (s *l2State) setL3(i index) {
	m, ok := s.modes[i]
	delete(s.modes, i)
	if !ok || m.bd == 0 {
		return
	}
	for key, e := range s.fib {
		if key.bd == m.bd && e.SwIfIndex == i && (!e.StaticMac || m.kind == l2.L2_API_PORT_TYPE_BVI && e.BviMac) {
			delete(s.fib, key)
		}
	}
	if b := s.bridges[m.bd]; b.BviSwIfIndex == i {
		b.BviSwIfIndex = noIndex
	}
}

func handleL2() {
	on(func(c *call, req *l2.BridgeDomainAddDelV2, reply *l2.BridgeDomainAddDelV2Reply) api.VPPApiError {
		reply.BdID = req.BdID
		b := c.l2.bridges[req.BdID]
		if !req.IsAdd {
			switch {
			case req.BdID == 0:
				return api.BD_NOT_MODIFIABLE
			case b == nil:
				return api.NO_SUCH_ENTRY
			case len(c.l2.ports(req.BdID)) > 0:
				return api.BD_IN_USE
			}
			delete(c.l2.bridges, req.BdID)
			maps.DeleteFunc(c.l2.fib, func(key fibKey, e l2.L2FibTableDetails) bool { return key.bd == req.BdID && !e.StaticMac })
			return 0
		}
		if b != nil {
			return api.BD_ALREADY_EXISTS
		}
		id := req.BdID
		for n := uint32(1); id == ^uint32(0); n++ {
			if c.l2.bridges[n] == nil {
				id = n
			}
		}
		reply.BdID = id
		c.l2.bridges[id] = &bridge{arp: map[l2.BdIPMac]bool{}, BridgeDomainDetails: l2.BridgeDomainDetails{
			BdID: id, Flood: req.Flood, UuFlood: req.UuFlood, Forward: req.Forward, Learn: req.Learn, ArpTerm: req.ArpTerm,
			ArpUfwd: req.ArpUfwd, MacAge: req.MacAge, BdTag: req.BdTag, BviSwIfIndex: noIndex, UuFwdSwIfIndex: noIndex,
		}}
		return 0
	})
	onDump(func(c *call, req *l2.BridgeDomainDump, send func(*l2.BridgeDomainDetails)) {
		for _, id := range slices.Sorted(maps.Keys(c.l2.bridges)) {
			if req.SwIfIndex != noIndex || req.BdID != ^uint32(0) && req.BdID != id {
				continue
			}
			d := c.l2.bridges[id].BridgeDomainDetails
			for _, i := range c.l2.ports(id) {
				d.SwIfDetails = append(d.SwIfDetails, l2.BridgeDomainSwIf{SwIfIndex: i, Shg: c.l2.modes[i].shg})
			}
			send(&d)
		}
	})
	on(func(c *call, req *l2.BridgeFlags, reply *l2.BridgeFlagsReply) api.VPPApiError {
		b := c.l2.bridges[req.BdID]
		if b == nil {
			return api.NO_SUCH_ENTRY
		}
		for flag, field := range map[l2.BdFlags]*bool{
			l2.BRIDGE_API_FLAG_LEARN: &b.Learn, l2.BRIDGE_API_FLAG_FWD: &b.Forward, l2.BRIDGE_API_FLAG_FLOOD: &b.Flood,
			l2.BRIDGE_API_FLAG_UU_FLOOD: &b.UuFlood, l2.BRIDGE_API_FLAG_ARP_TERM: &b.ArpTerm, l2.BRIDGE_API_FLAG_ARP_UFWD: &b.ArpUfwd,
		} {
			if req.Flags&flag != 0 {
				*field = req.IsSet
			}
		}
		return 0
	})
	on(func(c *call, req *l2.BridgeDomainSetMacAge, _ *l2.BridgeDomainSetMacAgeReply) api.VPPApiError {
		b := c.l2.bridges[req.BdID]
		if b == nil {
			return api.NO_SUCH_ENTRY
		}
		b.MacAge = req.MacAge
		return 0
	})
	on(func(c *call, req *l2.BdIPMacAddDel, _ *l2.BdIPMacAddDelReply) api.VPPApiError {
		b := c.l2.bridges[req.Entry.BdID]
		switch {
		case req.Entry.BdID == 0:
			return api.BD_NOT_MODIFIABLE
		case b == nil:
			return api.NO_SUCH_ENTRY
		case req.IsAdd:
			maps.DeleteFunc(b.arp, func(e l2.BdIPMac, _ bool) bool { return e.IP == req.Entry.IP })
			b.arp[req.Entry] = true
			return 0
		case !b.arp[req.Entry]:
			return api.UNSPECIFIED
		}
		delete(b.arp, req.Entry)
		return 0
	})
	onDump(func(c *call, req *l2.BdIPMacDump, send func(*l2.BdIPMacDetails)) {
		for id, b := range c.l2.bridges {
			if req.BdID == id || req.BdID == ^uint32(0) {
				for e := range b.arp {
					send(&l2.BdIPMacDetails{Entry: e})
				}
			}
		}
	})
	initPorts()
	initFIB()
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) { c.l2.setL3(i) })
}

func initPorts() {
	on(func(c *call, req *l2.SwInterfaceSetL2Bridge, _ *l2.SwInterfaceSetL2BridgeReply) api.VPPApiError {
		i := c.ifs.iface(req.RxSwIfIndex)
		switch {
		case i == nil:
			return api.INVALID_SW_IF_INDEX
		case !req.Enable:
			c.l2.setL3(i.SwIfIndex)
			return 0
		}
		b := c.l2.bridges[req.BdID]
		if b == nil { // VPP creates it; the driver never requests that
			return api.NO_SUCH_ENTRY
		}
		c.l2.setL3(i.SwIfIndex)
		if req.PortType == l2.L2_API_PORT_TYPE_BVI {
			if b.BviSwIfIndex != noIndex {
				return api.BD_ALREADY_HAS_BVI
			}
			if (i.L2Address == ethernet_types.MacAddress{}) {
				return c.ends("a BVI has no hardware address for the L2 FIB")
			}
			b.BviSwIfIndex = i.SwIfIndex
			c.l2.fib[fibKey{req.BdID, i.L2Address}] = l2.L2FibTableDetails{SwIfIndex: i.SwIfIndex, StaticMac: true, BviMac: true}
		}
		c.l2.modes[i.SwIfIndex] = l2Mode{bd: req.BdID, shg: req.Shg, kind: req.PortType}
		return 0
	})
	on(func(c *call, req *l2.SwInterfaceSetL2Xconnect, _ *l2.SwInterfaceSetL2XconnectReply) api.VPPApiError {
		switch {
		case c.ifs.iface(req.RxSwIfIndex) == nil:
			return api.INVALID_SW_IF_INDEX
		case req.Enable && c.ifs.iface(req.TxSwIfIndex) == nil:
			return api.INVALID_SW_IF_INDEX_2
		}
		c.l2.setL3(req.RxSwIfIndex)
		if req.Enable {
			c.l2.modes[req.RxSwIfIndex] = l2Mode{tx: req.TxSwIfIndex}
		}
		return 0
	})
	onDump(func(c *call, _ *l2.L2XconnectDump, send func(*l2.L2XconnectDetails)) {
		for _, i := range slices.Sorted(maps.Keys(c.l2.modes)) {
			if m := c.l2.modes[i]; m.bd == 0 {
				send(&l2.L2XconnectDetails{RxSwIfIndex: i, TxSwIfIndex: m.tx})
			}
		}
	})
}

func initFIB() {
	on(func(c *call, req *l2.L2fibAddDel, _ *l2.L2fibAddDelReply) api.VPPApiError {
		if c.l2.bridges[req.BdID] == nil {
			return api.NO_SUCH_ENTRY
		}
		key := fibKey{req.BdID, req.Mac}
		have, exists := c.l2.fib[key]
		switch {
		case !req.IsAdd && (!exists || req.SwIfIndex != 0 && req.SwIfIndex != have.SwIfIndex):
			return api.NO_SUCH_ENTRY
		case !req.IsAdd:
			delete(c.l2.fib, key)
		case req.FilterMac:
			c.l2.fib[key] = l2.L2FibTableDetails{SwIfIndex: noIndex, StaticMac: true, FilterMac: true}
		case c.ifs.iface(req.SwIfIndex) == nil || c.l2.modes[req.SwIfIndex].bd == 0:
			return api.INVALID_SW_IF_INDEX
		default:
			c.l2.fib[key] = l2.L2FibTableDetails{SwIfIndex: req.SwIfIndex, StaticMac: req.StaticMac, BviMac: req.BviMac}
		}
		return 0
	})
	onDump(func(c *call, req *l2.L2FibTableDump, send func(*l2.L2FibTableDetails)) {
		for key, e := range c.l2.fib {
			switch {
			case c.l2.bridges[key.bd] == nil && req.BdID == ^uint32(0):
				e.BdID = ^uint32(0)
			case req.BdID != ^uint32(0) && req.BdID != key.bd || c.l2.bridges[key.bd] == nil:
				continue
			default:
				e.BdID = key.bd
			}
			e.Mac = key.mac
			send(&e)
		}
	})
}
