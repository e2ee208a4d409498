package ipnet

import (
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// The vswitch has two ways to connect an interface to a network namespace:
//
//	TAP         vswitch ── TAP ── far end, moved to the namespace
//	AF_PACKET   vswitch ── socket ── host end ══ VETH ══ far end in the namespace

type attachment struct {
	vpp, linux string
	// hostEnd and hostDevice are the logical name and the device, in the agent's namespace, of the
	// VETH end that AF_PACKET reads. They are "" for a TAP.
	hostEnd, hostDevice string
}

// useTAPs returns the configured choice, by default the capability of the vswitch.
func (n *IPNet) useTAPs() bool {
	if configured := n.config.Interfaces().UseTAPInterfaces; configured != nil {
		return *configured
	}
	return n.caps.TAPs
}

func (n *IPNet) podAttachment(containerID string) attachment {
	if n.useTAPs() {
		return attachment{vpp: trim("vpp-tap-" + containerID), linux: trim("linux-tap-" + containerID)}
	}
	return attachment{
		vpp: trim("afpacketveth2-" + containerID), linux: trim("veth1-" + containerID),
		hostEnd: trim("veth2-" + containerID), hostDevice: vethDevice(containerID),
	}
}

func (n *IPNet) hostAttachment() attachment {
	if n.useTAPs() {
		return attachment{vpp: "tap-vpp2", linux: "tap-vpp1"}
	}
	return attachment{vpp: "afpacket-vpp2", linux: "veth-vpp1", hostEnd: "veth-vpp2", hostDevice: "vpp2"}
}

// attach connects the ends and adds them to config. All other fields must be set.
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

// tapLink sets the TAP configuration of a vswitch interface whose far end belongs in a Linux
// interface's namespace (the agent's if it has none). For another namespace, a vswitch that shares
// the host's stack sets the final device name at creation, because renaming a device stalls the
// kernel until the old name is unused.
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

// vethLink connects a VETH interface to its peer. The receiver must not complete checksums, because
// AF_PACKET forwards packets as it reads them.
func (n *IPNet) vethLink(peer string) *linux_interfaces.Interface_Veth {
	veth := &linux_interfaces.VethLink{PeerIfName: peer}
	if n.config.Interfaces().TCPChecksumOffloadDisabled {
		veth.RxChecksumOffloading = linux_interfaces.VethLink_CHKSM_OFFLOAD_DISABLED
		veth.TxChecksumOffloading = linux_interfaces.VethLink_CHKSM_OFFLOAD_DISABLED
	}
	return &linux_interfaces.Interface_Veth{Veth: veth}
}
