package vpptest

import (
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/ethernet_types"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

type index = interface_types.InterfaceIndex

const noIndex = ^index(0)

// ifState is the interfaces of a VPP.
type ifState struct {
	list []*swInterface // by index; nil: free
	free []index        // the last one is given first
	last uint32         // for MAC addresses
	// instances in use, by name prefix.
	instances map[string]map[uint32]bool
	sockets   map[uint32]*memifSocket
}

// swInterface is an interface, whatever its kind.
type swInterface struct {
	interfaces.SwInterfaceDetails
	addrs     []netip.Prefix // in the order of addition
	tables    [2]uint32      // IPv4, IPv6
	ipv6      int            // how often IPv6 was enabled, including once per address
	linkLocal netip.Addr
	borrows   index // noIndex: is not unnumbered
	instance  uint32
	prefix    string // of its name
	kind      any    // fields of its kind
	member    *membership
	features  []string // that were enabled by their names
	dhcp      *dhcp.DHCPClientDetails
	rxModes   map[uint32]interface_types.RxMode // of queues, if they were set
}

const adminUp, linkUp = interface_types.IF_STATUS_API_FLAG_ADMIN_UP, interface_types.IF_STATUS_API_FLAG_LINK_UP

func newIfState() ifState {
	s := ifState{instances: map[string]map[uint32]bool{}, sockets: map[uint32]*memifSocket{0: {file: runtimeDir + "/memif.sock"}}}
	s.add(&swInterface{prefix: "local", SwInterfaceDetails: interfaces.SwInterfaceDetails{InterfaceName: "local0", InterfaceDevType: "local"}})
	return s
}

// interfaceDeleted holds callbacks before an interface is deleted, for other areas.
var interfaceDeleted []func(c *call, i index)

// interfaceDown holds callbacks when an interface is set down.
var interfaceDown []func(c *call, i index)

// tableExists reports whether an IP table exists; nil: all do.
var tableExists func(c *call, id uint32, v6 bool) bool

// add assigns an interface an index and defaults.
func (s *ifState) add(i *swInterface) *swInterface {
	i.borrows = noIndex
	if i.Mtu == nil {
		i.Mtu = []uint32{9000, 0, 0, 0}
	}
	if n := len(s.free); n > 0 {
		i.SwIfIndex, s.free = s.free[n-1], s.free[:n-1]
		s.list[i.SwIfIndex] = i
	} else {
		i.SwIfIndex = index(len(s.list))
		s.list = append(s.list, i)
	}
	if i.Type == interface_types.IF_API_TYPE_HARDWARE {
		i.SupSwIfIndex = uint32(i.SwIfIndex)
		i.LinkMtu = 9000
	}
	return i
}

// iface returns an interface; nil if none.
func (s *ifState) iface(i index) *swInterface {
	if int(i) >= len(s.list) {
		return nil
	}
	return s.list[i]
}

// instanceOf returns a free number for a name, or wanted if it is not ^0.
func (s *ifState) instanceOf(prefix string, wanted uint32) (n uint32, ok bool) {
	used := s.instances[prefix]
	if used == nil {
		used = map[uint32]bool{}
		s.instances[prefix] = used
	}
	if n = wanted; wanted == ^uint32(0) {
		for n = 0; used[n]; n++ {
		}
	}
	if used[n] {
		return 0, false
	}
	used[n] = true
	return n, true
}

// randomMAC returns a MAC like VPP invents.
func (s *ifState) randomMAC() ethernet_types.MacAddress {
	s.last++
	return ethernet_types.MacAddress{2, 0xfe, byte(s.last >> 24), byte(s.last >> 16), byte(s.last >> 8), byte(s.last)}
}

// all calls fn for each interface, by index.
func (s *ifState) all(fn func(*swInterface)) {
	for _, i := range s.list {
		if i != nil {
			fn(i)
		}
	}
}

// dumpKind calls send for the interfaces of a kind; with one, only for that if it is of the kind.
func dumpKind[K any](c *call, one index, send func(*swInterface, K)) {
	c.ifs.all(func(i *swInterface) {
		if k, ok := i.kind.(K); ok && (one == noIndex || one == i.SwIfIndex) {
			send(i, k)
		}
	})
}

// addInterface adds an interface and sends its event.
func (c *call) addInterface(i *swInterface) *swInterface {
	c.ifs.add(i)
	c.event(i, false)
	return i
}

// deleteInterface removes an interface and everything on it.
func (c *call) deleteInterface(i *swInterface) {
	c.ifs.all(func(sub *swInterface) {
		if sub != i && index(sub.SupSwIfIndex) == i.SwIfIndex {
			c.deleteInterface(sub)
		}
	})
	for _, forget := range interfaceDeleted {
		forget(c, i.SwIfIndex)
	}
	delete(c.ifs.instances[i.prefix], i.instance)
	c.ifs.list[i.SwIfIndex] = nil
	c.ifs.free = append(c.ifs.free, i.SwIfIndex)
	i.Flags = 0
	c.event(i, true)
}

func (c *call) event(i *swInterface, deleted bool) {
	c.notify(&interfaces.SwInterfaceEvent{SwIfIndex: i.SwIfIndex, Flags: i.Flags, Deleted: deleted})
}

// onInterface registers the handler of a request about the interface with the index from at.
func onInterface[R, P any, Req interface {
	*R
	api.Message
}, Rep interface {
	*P
	api.Message
}](at func(Req) index, handle func(c *call, i *swInterface, req Req, reply Rep) api.VPPApiError) {
	on(func(c *call, req Req, reply Rep) api.VPPApiError {
		i := c.ifs.iface(at(req))
		if i == nil {
			return api.INVALID_SW_IF_INDEX
		}
		return handle(c, i, req, reply)
	})
}

// deleteKind handles the deletion of an interface of a kind.
func deleteKind[K any, Req, Rep api.Message](c *call, i *swInterface, _ Req, _ Rep) api.VPPApiError {
	if _, ok := i.kind.(K); !ok {
		return api.INVALID_SW_IF_INDEX
	}
	c.deleteInterface(i)
	return 0
}

func handleInterfaces() {
	onDump(func(c *call, req *interfaces.SwInterfaceDump, send func(*interfaces.SwInterfaceDetails)) {
		one := req.SwIfIndex != noIndex && req.SwIfIndex != 0
		c.ifs.all(func(i *swInterface) {
			if !one || i.SwIfIndex == req.SwIfIndex {
				send(&i.SwInterfaceDetails)
			}
		})
	})
	onInterface(func(r *interfaces.SwInterfaceTagAddDel) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceTagAddDel, _ *interfaces.SwInterfaceTagAddDelReply) api.VPPApiError {
			if req.IsAdd && req.Tag == "" {
				return api.INVALID_VALUE
			}
			if i.Tag = req.Tag; !req.IsAdd {
				i.Tag = ""
			}
			return 0
		})
	onInterface(func(r *interfaces.SwInterfaceSetFlags) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetFlags, _ *interfaces.SwInterfaceSetFlagsReply) api.VPPApiError {
			if was := i.Flags; req.Flags&adminUp != was&adminUp {
				i.Flags = was&^(adminUp|linkUp) | req.Flags&adminUp
				if i.isBroken() {
					return -1 // and up it stays
				}
				if i.Flags&adminUp != 0 {
					i.Flags |= linkUp
				} else {
					for _, forget := range interfaceDown {
						forget(c, i.SwIfIndex)
					}
				}
				c.event(i, false)
			}
			return 0
		})
	onInterface(func(r *interfaces.SwInterfaceSetMtu) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetMtu, _ *interfaces.SwInterfaceSetMtuReply) api.VPPApiError {
			i.Mtu = slices.Clone(req.Mtu)
			return 0
		})
	onInterface(func(r *interfaces.HwInterfaceSetMtu) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.HwInterfaceSetMtu, _ *interfaces.HwInterfaceSetMtuReply) api.VPPApiError {
			switch {
			case i.Type != interface_types.IF_API_TYPE_HARDWARE:
				return api.INVALID_VALUE
			case i.L2Address == ethernet_types.MacAddress{}:
				return api.FEATURE_DISABLED
			case i.InterfaceDevType == "Loopback":
				return api.UNSUPPORTED
			}
			i.LinkMtu, i.Mtu = req.Mtu, []uint32{uint32(req.Mtu), 0, 0, 0}
			return 0
		})
	onInterface(func(r *interfaces.SwInterfaceSetMacAddress) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetMacAddress, _ *interfaces.SwInterfaceSetMacAddressReply) api.VPPApiError {
			if (i.L2Address == ethernet_types.MacAddress{}) {
				return api.UNIMPLEMENTED
			}
			i.L2Address = req.MacAddress
			return 0
		})
	register(&interfaces.SwInterfaceEvent{})
	on(func(c *call, req *interfaces.WantInterfaceEvents, _ *interfaces.WantInterfaceEventsReply) api.VPPApiError {
		c.want(&interfaces.SwInterfaceEvent{}, req.EnableDisable != 0)
		return 0
	})

	on(func(c *call, req *interfaces.CreateLoopback, reply *interfaces.CreateLoopbackReply) api.VPPApiError {
		i, code := c.addLoopback(req.MacAddress, ^uint32(0))
		reply.SwIfIndex = i
		return code
	})
	on(func(c *call, req *interfaces.CreateLoopbackInstance, reply *interfaces.CreateLoopbackInstanceReply) api.VPPApiError {
		wanted := ^uint32(0)
		if req.IsSpecified {
			wanted = req.UserInstance
		}
		i, code := c.addLoopback(req.MacAddress, wanted)
		reply.SwIfIndex = i
		return code
	})
	onInterface(func(r *interfaces.DeleteLoopback) index { return r.SwIfIndex },
		func(c *call, i *swInterface, _ *interfaces.DeleteLoopback, _ *interfaces.DeleteLoopbackReply) api.VPPApiError {
			if i.InterfaceDevType != "Loopback" {
				return api.INVALID_SW_IF_INDEX
			}
			c.deleteInterface(i)
			return 0
		})
}

func (c *call) addLoopback(mac ethernet_types.MacAddress, wanted uint32) (index, api.VPPApiError) {
	n, ok := c.ifs.instanceOf("loop", wanted)
	if !ok {
		return noIndex, api.INVALID_REGISTRATION
	}
	if (mac == ethernet_types.MacAddress{}) {
		mac = ethernet_types.MacAddress{0xde, 0xad, 0, 0, 0, byte(n)}
	}
	i := c.addInterface(&swInterface{prefix: "loop", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name("loop", n), InterfaceDevType: "Loopback", L2Address: mac,
	}})
	return i.SwIfIndex, 0
}
