package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/gre"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ipip"
	"go.fd.io/govpp/binapi/l2"
	"go.fd.io/govpp/binapi/wireguard"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

type (
	greIf  struct{ gre.GreTunnel }
	ipipIf struct{ ipip.IpipTunnel }
	wgIf   struct{ wireguard.WireguardInterface }
)

func (c *call) addDelGRE(add bool, t gre.GreTunnel) (index, api.VPPApiError) {
	src, dst := addrOf(t.Src), addrOf(t.Dst)
	switch {
	case src.Is6() != dst.Is6():
		return noIndex, api.INVALID_PROTOCOL
	case src == dst:
		return noIndex, api.SAME_SRC_DST
	case tableExists != nil && !tableExists(c, t.OuterTableID, src.Is6()):
		return noIndex, api.NO_SUCH_FIB
	case t.SessionID > 1023:
		return noIndex, api.INVALID_SESSION_ID
	}
	var found *swInterface
	c.ifs.all(func(i *swInterface) {
		g, ok := i.kind.(greIf)
		if ok && addrOf(g.Src) == src && addrOf(g.Dst) == dst && g.OuterTableID == t.OuterTableID && g.Type == t.Type && g.Mode == t.Mode && g.SessionID == t.SessionID {
			found = i
		}
	})
	if !add {
		if found == nil {
			return noIndex, api.NO_SUCH_ENTRY
		}
		c.deleteInterface(found)
		return found.SwIfIndex, 0
	}
	if found != nil {
		return noIndex, api.IF_ALREADY_EXISTS
	}
	n, ok := c.ifs.instanceOf("gre", t.Instance)
	if !ok {
		return noIndex, api.INSTANCE_IN_USE
	}
	mac := ethernet_types.MacAddress{}
	if t.Type != gre.GRE_API_TUNNEL_TYPE_L3 {
		mac = ethernet_types.MacAddress{0xd0, 0x0b, 0xee, 0xd0, byte(n >> 8), byte(n)}
	}
	i := c.addInterface(&swInterface{prefix: "gre", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name("gre", n), InterfaceDevType: "GRE tunnel device", L2Address: mac,
	}})
	t.Instance, t.SwIfIndex = n, i.SwIfIndex
	if t.Type != gre.GRE_API_TUNNEL_TYPE_ERSPAN {
		t.SessionID = 0
	}
	i.kind = greIf{t}
	return i.SwIfIndex, 0
}

func (c *call) addIPIP(t ipip.IpipTunnel) (index, api.VPPApiError) {
	src, dst := addrOf(t.Src), addrOf(t.Dst)
	switch {
	case src.Is6() != dst.Is6():
		return noIndex, api.INVALID_PROTOCOL
	case src == dst:
		return noIndex, api.SAME_SRC_DST
	case tableExists != nil && !tableExists(c, t.TableID, src.Is6()):
		return noIndex, api.NO_SUCH_FIB
	case t.Mode != 0 && !dst.IsUnspecified():
		return noIndex, api.INVALID_DST_ADDRESS
	}
	found := noIndex
	c.ifs.all(func(i *swInterface) {
		if o, ok := i.kind.(ipipIf); ok && o.Src == t.Src && o.Dst == t.Dst && o.TableID == t.TableID && o.Mode == t.Mode {
			found = i.SwIfIndex
		}
	})
	if found != noIndex {
		return found, api.IF_ALREADY_EXISTS
	}
	n, ok := c.ifs.instanceOf("ipip", t.Instance)
	if !ok {
		return noIndex, api.INSTANCE_IN_USE
	}
	i := c.addInterface(&swInterface{prefix: "ipip", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name("ipip", n), InterfaceDevType: "IPIP tunnel device",
	}})
	t.Instance, t.SwIfIndex = n, i.SwIfIndex
	i.kind = ipipIf{t}
	return i.SwIfIndex, 0
}

// addSub makes a sub-interface with a number that is free.
func (c *call) addSub(parent *swInterface, d interfaces.SwInterfaceDetails) (_ index, code api.VPPApiError) {
	c.ifs.all(func(o *swInterface) {
		if o.Type == interface_types.IF_API_TYPE_SUB && o.SupSwIfIndex == uint32(parent.SwIfIndex) && o.SubID == d.SubID {
			code = api.VLAN_ALREADY_EXISTS
		}
	})
	if code != 0 {
		return noIndex, code
	}
	d.InterfaceName, d.InterfaceDevType, d.Type = name(parent.InterfaceName+".", d.SubID), parent.InterfaceDevType, interface_types.IF_API_TYPE_SUB
	d.SupSwIfIndex, d.Mtu, d.LinkMtu, d.Flags = uint32(parent.SwIfIndex), []uint32{0, 0, 0, 0}, parent.LinkMtu, parent.Flags&linkUp
	sub := c.addInterface(&swInterface{prefix: parent.InterfaceName + ".", instance: d.SubID, SwInterfaceDetails: d})
	return sub.SwIfIndex, 0
}

func handleTunnels() {
	on(func(c *call, req *gre.GreTunnelAddDel, reply *gre.GreTunnelAddDelReply) (code api.VPPApiError) {
		reply.SwIfIndex, code = c.addDelGRE(req.IsAdd, req.Tunnel)
		return code
	})
	onDump(func(c *call, req *gre.GreTunnelDump, send func(*gre.GreTunnelDetails)) {
		dumpKind(c, req.SwIfIndex, func(_ *swInterface, t greIf) {
			t.Src, t.Dst = uncleared(t.Src), uncleared(t.Dst)
			send(&gre.GreTunnelDetails{Tunnel: t.GreTunnel})
		})
	})
	on(func(c *call, req *ipip.IpipAddTunnel, reply *ipip.IpipAddTunnelReply) (code api.VPPApiError) {
		reply.SwIfIndex, code = c.addIPIP(req.Tunnel)
		return code
	})
	on(func(c *call, req *ipip.IpipDelTunnel, _ *ipip.IpipDelTunnelReply) api.VPPApiError {
		i := c.ifs.iface(req.SwIfIndex)
		if i == nil {
			return api.NO_SUCH_ENTRY
		}
		if _, ok := i.kind.(ipipIf); !ok {
			return api.NO_SUCH_ENTRY
		}
		c.deleteInterface(i)
		return 0
	})
	onDump(func(c *call, req *ipip.IpipTunnelDump, send func(*ipip.IpipTunnelDetails)) {
		dumpKind(c, req.SwIfIndex, func(_ *swInterface, t ipipIf) {
			send(&ipip.IpipTunnelDetails{Tunnel: t.IpipTunnel})
		})
	})

	on(func(c *call, req *wireguard.WireguardInterfaceCreate, reply *wireguard.WireguardInterfaceCreateReply) api.VPPApiError {
		reply.SwIfIndex = noIndex
		n, ok := c.ifs.instanceOf("wg", req.Interface.UserInstance)
		key, err := wgtypes.NewKey(req.Interface.PrivateKey)
		if !ok || err != nil {
			return api.INVALID_REGISTRATION
		}
		i := c.addInterface(&swInterface{prefix: "wg", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
			InterfaceName: name("wg", n), InterfaceDevType: "Wireguard Tunnel",
		}})
		w := req.Interface
		public := key.PublicKey()
		w.UserInstance, w.SwIfIndex, w.PublicKey = n, i.SwIfIndex, public[:]
		i.kind = wgIf{w}
		reply.SwIfIndex = i.SwIfIndex
		return 0
	})
	onInterface(func(r *wireguard.WireguardInterfaceDelete) index { return r.SwIfIndex }, deleteKind[wgIf, *wireguard.WireguardInterfaceDelete, *wireguard.WireguardInterfaceDeleteReply])
	onDump(func(c *call, req *wireguard.WireguardInterfaceDump, send func(*wireguard.WireguardInterfaceDetails)) {
		dumpKind(c, req.SwIfIndex, func(_ *swInterface, w wgIf) {
			if !req.ShowPrivateKey {
				w.PrivateKey = make([]byte, 32)
			}
			send(&wireguard.WireguardInterfaceDetails{Interface: w.WireguardInterface})
		})
	})
	onInterface(func(r *interfaces.CreateVlanSubif) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.CreateVlanSubif, reply *interfaces.CreateVlanSubifReply) (code api.VPPApiError) {
			reply.SwIfIndex = noIndex
			if req.VlanID == 0 || req.VlanID > 4095 {
				return api.INVALID_VLAN
			}
			reply.SwIfIndex, code = c.addSub(c.ifs.iface(index(i.SupSwIfIndex)), interfaces.SwInterfaceDetails{
				SubID: req.VlanID, SubNumberOfTags: 1, SubOuterVlanID: uint16(req.VlanID),
			})
			return code
		})
	onInterface(func(r *interfaces.CreateSubif) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.CreateSubif, reply *interfaces.CreateSubifReply) (code api.VPPApiError) {
			d := interfaces.SwInterfaceDetails{
				SubID: req.SubID, SubIfFlags: req.SubIfFlags, SubOuterVlanID: req.OuterVlanID, SubInnerVlanID: req.InnerVlanID,
			}
			switch {
			case req.SubIfFlags&interface_types.SUB_IF_API_FLAG_TWO_TAGS != 0:
				d.SubNumberOfTags = 2
			case req.SubIfFlags&interface_types.SUB_IF_API_FLAG_ONE_TAG != 0:
				d.SubNumberOfTags = 1
			}
			reply.SwIfIndex, code = c.addSub(i, d)
			return code
		})
	onInterface(func(r *interfaces.DeleteSubif) index { return r.SwIfIndex },
		func(c *call, i *swInterface, _ *interfaces.DeleteSubif, _ *interfaces.DeleteSubifReply) api.VPPApiError {
			if i.Type != interface_types.IF_API_TYPE_SUB {
				return api.INVALID_SUB_SW_IF_INDEX
			}
			c.deleteInterface(i)
			return 0
		})
	onInterface(func(r *l2.L2InterfaceVlanTagRewrite) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *l2.L2InterfaceVlanTagRewrite, _ *l2.L2InterfaceVlanTagRewriteReply) api.VPPApiError {
			need := map[uint32]uint8{3: 1, 5: 1, 6: 1, 4: 2, 7: 2, 8: 2}[req.VtrOp]
			switch {
			case req.VtrOp > 8:
				return api.INVALID_VALUE
			case i.SubNumberOfTags < need:
				return api.INVALID_VLAN_TAG_COUNT
			}
			i.VtrOp = req.VtrOp
			if slices.Contains([]uint32{1, 2, 5, 6, 7, 8}, req.VtrOp) {
				i.VtrPushDot1q, i.VtrTag1 = req.PushDot1q, req.Tag1
			}
			if slices.Contains([]uint32{2, 6, 8}, req.VtrOp) {
				i.VtrTag2 = req.Tag2
			}
			return 0
		})
}
