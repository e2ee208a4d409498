package vpptest

import (
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/af_packet"
	"go.fd.io/govpp/binapi/ethernet_types"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/tapv2"
	"go.fd.io/govpp/binapi/vxlan"
)

// AddDevice adds a device to VPP's network namespace, such as the end of a veth. It survives
// restarts of VPP.
func (s *Server) AddDevice(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[name] = true
}

type (
	afPacket struct{ device string }
	dpdkNIC  struct{ broken bool }
	tap      struct{ tapv2.SwInterfaceTapV2Details }
	vxlanIf  struct{ vxlan.VxlanTunnelV2Details }
)

func handleDevices() {
	on(func(c *call, req *af_packet.AfPacketCreateV3, reply *af_packet.AfPacketCreateV3Reply) (code api.VPPApiError) {
		reply.SwIfIndex = noIndex
		c.ifs.all(func(i *swInterface) {
			if a, ok := i.kind.(afPacket); ok && a.device == req.HostIfName {
				reply.SwIfIndex, code = i.SwIfIndex, api.IF_ALREADY_EXISTS
			}
		})
		if code != 0 {
			return code
		}
		if !c.server.devices[req.HostIfName] {
			return api.INVALID_INTERFACE
		}
		mac := req.HwAddr
		if req.UseRandomHwAddr {
			mac = c.ifs.randomMAC()
		}
		i := c.addInterface(&swInterface{prefix: "host-" + req.HostIfName, kind: afPacket{req.HostIfName}, SwInterfaceDetails: interfaces.SwInterfaceDetails{
			InterfaceName: "host-" + req.HostIfName, InterfaceDevType: "af-packet", L2Address: mac, Flags: linkUp,
		}})
		reply.SwIfIndex = i.SwIfIndex
		return 0
	})
	on(func(c *call, req *af_packet.AfPacketDelete, _ *af_packet.AfPacketDeleteReply) api.VPPApiError {
		code := api.VPPApiError(api.SYSCALL_ERROR_1)
		c.ifs.all(func(i *swInterface) {
			if a, ok := i.kind.(afPacket); ok && a.device == req.HostIfName {
				c.deleteInterface(i)
				code = 0
			}
		})
		return code
	})
	onDump(func(c *call, _ *af_packet.AfPacketDump, send func(*af_packet.AfPacketDetails)) {
		dumpKind(c, noIndex, func(i *swInterface, a afPacket) {
			send(&af_packet.AfPacketDetails{SwIfIndex: i.SwIfIndex, HostIfName: a.device})
		})
	})

	on(func(c *call, req *tapv2.TapCreateV3, reply *tapv2.TapCreateV3Reply) api.VPPApiError {
		reply.SwIfIndex = noIndex
		for _, size := range []uint16{req.RxRingSz, req.TxRingSz} {
			if size&(size-1) != 0 || size > 1<<15 {
				return api.INIT_FAILED
			}
		}
		busy := false
		c.ifs.all(func(i *swInterface) {
			t, ok := i.kind.(tap)
			busy = busy || ok && t.HostIfName == req.HostIfName && t.HostNamespace == req.HostNamespace
		})
		if busy {
			return api.SYSCALL_ERROR_3 // TUNSETIFF: the device is busy
		}
		n, ok := c.ifs.instanceOf("tap", req.ID)
		if !ok {
			return api.INVALID_INTERFACE
		}
		d := tapv2.SwInterfaceTapV2Details{
			ID: n, TxRingSz: req.TxRingSz, RxRingSz: req.RxRingSz, HostMtuSize: req.HostMtuSize, HostMacAddr: req.HostMacAddr,
			TapFlags: req.TapFlags, DevName: name("tap", n), HostIfName: req.HostIfName, HostNamespace: req.HostNamespace,
		}
		mac := req.MacAddress
		if req.UseRandomMac {
			mac = c.ifs.randomMAC()
		}
		if req.TapFlags&tapv2.TAP_API_FLAG_TUN != 0 {
			mac = ethernet_types.MacAddress{}
			d.DevName = name("tun", n)
		}
		i := c.addInterface(&swInterface{prefix: "tap", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
			InterfaceName: d.DevName, InterfaceDevType: "virtio", L2Address: mac, Flags: linkUp, Tag: strings.TrimRight(req.Tag, "\x00"),
		}})
		d.SwIfIndex = uint32(i.SwIfIndex)
		i.kind = tap{d}
		reply.SwIfIndex = i.SwIfIndex
		return 0
	})
	onInterface(func(r *tapv2.TapDeleteV2) index { return r.SwIfIndex }, deleteKind[tap, *tapv2.TapDeleteV2, *tapv2.TapDeleteV2Reply])
	onDump(func(c *call, req *tapv2.SwInterfaceTapV2Dump, send func(*tapv2.SwInterfaceTapV2Details)) {
		dumpKind(c, req.SwIfIndex, func(_ *swInterface, t tap) {
			send(&t.SwInterfaceTapV2Details)
		})
	})

	on(func(c *call, req *vxlan.VxlanAddDelTunnelV3, reply *vxlan.VxlanAddDelTunnelV3Reply) api.VPPApiError {
		i, code := c.addDelVXLAN(req)
		reply.SwIfIndex = i
		return code
	})
	onDump(func(c *call, req *vxlan.VxlanTunnelV2Dump, send func(*vxlan.VxlanTunnelV2Details)) {
		dumpKind(c, req.SwIfIndex, func(_ *swInterface, t vxlanIf) {
			t.SrcAddress, t.DstAddress = uncleared(t.SrcAddress), uncleared(t.DstAddress)
			send(&t.VxlanTunnelV2Details)
		})
	})
}

const vxlanPort = 4789

func (c *call) addDelVXLAN(req *vxlan.VxlanAddDelTunnelV3) (index, api.VPPApiError) {
	src, dst := addrOf(req.SrcAddress), addrOf(req.DstAddress)
	switch {
	case tableExists != nil && !tableExists(c, req.EncapVrfID, src.Is6()):
		return noIndex, api.NO_SUCH_FIB
	case src.Is6() != dst.Is6():
		return noIndex, api.INVALID_VALUE
	case src == dst:
		return noIndex, api.SAME_SRC_DST
	case dst.IsMulticast() && c.ifs.iface(req.McastSwIfIndex) == nil:
		return noIndex, api.INVALID_SW_IF_INDEX
	}
	var found *swInterface
	c.ifs.all(func(i *swInterface) {
		t, ok := i.kind.(vxlanIf)
		// The source of IPv6 and multicast tunnels does not identify them.
		if ok && t.Vni == req.Vni && t.EncapVrfID == req.EncapVrfID && addrOf(t.DstAddress) == dst &&
			(addrOf(t.SrcAddress) == src || dst.Is6() || dst.IsMulticast()) {
			found = i
		}
	})
	if !req.IsAdd {
		if found == nil {
			return noIndex, api.NO_SUCH_ENTRY
		}
		c.deleteInterface(found)
		return found.SwIfIndex, 0
	}
	if found != nil {
		return noIndex, api.TUNNEL_EXIST
	}
	n, ok := c.ifs.instanceOf("vxlan_tunnel", req.Instance)
	if !ok {
		return noIndex, api.INSTANCE_IN_USE
	}
	i := c.addInterface(&swInterface{prefix: "vxlan_tunnel", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name("vxlan_tunnel", n), InterfaceDevType: "VXLAN", L2Address: c.ifs.randomMAC(), Flags: adminUp | linkUp,
	}})
	d := vxlan.VxlanTunnelV2Details{
		SwIfIndex: i.SwIfIndex, Instance: n, SrcAddress: req.SrcAddress, DstAddress: req.DstAddress, SrcPort: vxlanPort, DstPort: vxlanPort,
		McastSwIfIndex: req.McastSwIfIndex, EncapVrfID: req.EncapVrfID, DecapNextIndex: req.DecapNextIndex, Vni: req.Vni,
	}
	if req.SrcPort != 0 {
		d.SrcPort, d.DstPort = req.SrcPort, req.DstPort
	}
	i.kind = vxlanIf{d}
	return i.SwIfIndex, 0
}
