package ipnet

import (
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// An interface of the vswitch is connected with a namespace of the host in one of two
// ways:
//
//	TAP         vswitch ── TAP ── far end, moved to the namespace
//	AF_PACKET   vswitch ── socket ── host end ══ VETH ══ far end in the namespace

// attachment names what connects the vswitch with a namespace.
type attachment struct {
	vpp, linux string // logical names of the two ends
	// hostEnd is the logical name of the VETH interface that AF_PACKET reads, and
	// hostDevice its device in the agent's namespace; "" for a TAP.
	hostEnd, hostDevice string
}

// useTAPs tells which of the two ways is taken: that of the configuration, else what
// the vswitch can do.
func (n *IPNet) useTAPs() bool {
	if configured := n.config.Interfaces().UseTAPInterfaces; configured != nil {
		return *configured
	}
	return n.caps.TAPs
}

// podAttachment is that of a pod's main interface.
func (n *IPNet) podAttachment(containerID string) attachment {
	if n.useTAPs() {
		return attachment{vpp: trim("vpp-tap-" + containerID), linux: trim("linux-tap-" + containerID)}
	}
	return attachment{
		vpp: trim("afpacketveth2-" + containerID), linux: trim("veth1-" + containerID),
		hostEnd: trim("veth2-" + containerID), hostDevice: vethDevice(containerID),
	}
}

// hostAttachment is that of the host itself.
func (n *IPNet) hostAttachment() attachment {
	if n.useTAPs() {
		return attachment{vpp: "tap-vpp2", linux: "tap-vpp1"}
	}
	return attachment{vpp: "afpacket-vpp2", linux: "veth-vpp1", hostEnd: "veth-vpp2", hostDevice: "vpp2"}
}

// attach configures both ends, which are complete but for how they are connected.
func (n *IPNet) attach(config values, a attachment, inVPP *vpp_interfaces.Interface, inLinux *linux_interfaces.Interface) {
	inVPP.Name, inLinux.Name = a.vpp, a.linux
	config.add(inVPP, inLinux)
	if a.hostEnd == "" {
		inVPP.Type, inVPP.Link = vpp_interfaces.Interface_TAP, n.tapLink(inLinux)
		inLinux.Type = linux_interfaces.Interface_TAP_TO_VPP
		inLinux.Link = &linux_interfaces.Interface_Tap{Tap: &linux_interfaces.TapLink{VppTapIfName: a.vpp}}
		return
	}
	inVPP.Type = vpp_interfaces.Interface_AF_PACKET
	inVPP.Link = &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: a.hostDevice, LinuxInterface: a.hostEnd}}
	inLinux.Type, inLinux.Link = linux_interfaces.Interface_VETH, n.vethLink(a.hostEnd)
	config.add(&linux_interfaces.Interface{
		Name: a.hostEnd, Type: linux_interfaces.Interface_VETH, Enabled: true,
		HostIfName: a.hostDevice, Mtu: inLinux.GetMtu(), Link: n.vethLink(a.linux),
	})
}

// tapLink applies the configuration of TAP interfaces to one whose other end is in the namespace of a Linux interface,
// the agent's if it has none. In another one, a vswitch in the node's own network stack gives that end its name at once:
// to rename a device, the kernel keeps others waiting until nobody uses the old name.
func (n *IPNet) tapLink(inLinux *linux_interfaces.Interface) *vpp_interfaces.Interface_Tap {
	c := n.config.Interfaces()
	tap := &vpp_interfaces.TapLink{Version: uint32(c.TAPInterfaceVersion), EnableGso: c.EnableGSO, HostNamespace: inLinux.GetNamespace()}
	if n.caps.HostStackShared && inLinux.GetNamespace() != nil {
		tap.HostIfName = inLinux.GetHostIfName()
	}
	if c.TAPInterfaceVersion == 2 {
		tap.RxRingSize, tap.TxRingSize = uint32(c.TAPv2RxRingSize), uint32(c.TAPv2TxRingSize)
	}
	return &vpp_interfaces.Interface_Tap{Tap: tap}
}

// vethLink joins a VETH interface with its peer. Checksums must not be left to the one
// who receives: AF_PACKET passes on what it reads.
func (n *IPNet) vethLink(peer string) *linux_interfaces.Interface_Veth {
	veth := &linux_interfaces.VethLink{PeerIfName: peer}
	if n.config.Interfaces().TCPChecksumOffloadDisabled {
		veth.RxChecksumOffloading = linux_interfaces.VethLink_CHKSM_OFFLOAD_DISABLED
		veth.TxChecksumOffloading = linux_interfaces.VethLink_CHKSM_OFFLOAD_DISABLED
	}
	return &linux_interfaces.Interface_Veth{Veth: veth}
}
