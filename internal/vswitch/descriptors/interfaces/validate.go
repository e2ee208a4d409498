package interfaces

import (
	"net"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/models"
)

func validateInterface(iface *vpp_interfaces.Interface) error {
	if err := descriptor.ValidName("name", iface.GetName()); err != nil {
		return err
	}
	if err := netalloc.ValidateAddresses(iface.GetIpAddresses(), iface.GetName()); err != nil {
		return descriptor.Invalid("ip_addresses", "%w", err)
	}
	for _, addr := range iface.GetIpAddresses() {
		if netalloc.IsRef(addr) {
			continue
		}
		if err := descriptor.ValidPrefix("ip_addresses", addr); err != nil {
			return err
		}
	}
	if lender := iface.GetUnnumbered(); lender != nil {
		switch {
		case iface.GetSetDhcpClient():
			return descriptor.Invalid("set_dhcp_client", "an unnumbered interface has no address of its own: remove set_dhcp_client or unnumbered")
		case len(iface.GetIpAddresses()) > 0:
			return descriptor.Invalid("ip_addresses", "an unnumbered interface has no addresses of its own: remove them or unnumbered")
		case lender.GetInterfaceWithIp() == "":
			return descriptor.Invalid("unnumbered", "an unnumbered interface needs the name of the interface with the address (interface_with_ip)")
		case lender.GetInterfaceWithIp() == iface.GetName():
			return descriptor.Invalid("unnumbered", "an unnumbered interface cannot use its own address")
		}
	}
	if mac := iface.GetPhysAddress(); mac != "" {
		if err := descriptor.ValidMAC("phys_address", mac); err != nil {
			return err
		}
		if hw, _ := net.ParseMAC(mac); hw[0]&1 != 0 {
			return descriptor.Invalid("phys_address", "%s is a multicast address, which no interface can have: the first byte must be even", mac)
		}
	}
	if iface.GetMtu() > 9216 {
		return descriptor.Invalid("mtu", "MTU %d is out of range: use 0 (default) to 9216", iface.GetMtu())
	}
	if err := validateRx(iface); err != nil {
		return err
	}
	return validateLink(iface)
}

func validateRx(iface *vpp_interfaces.Interface) error {
	if err := validateRxModes(iface); err != nil {
		return err
	}
	queues := map[uint32]bool{}
	for _, p := range iface.GetRxPlacements() {
		if queues[p.GetQueue()] {
			return descriptor.Invalid("rx_placements", "queue %d is placed twice", p.GetQueue())
		}
		queues[p.GetQueue()] = true
	}
	return nil
}

// linkType returns the interface type that a kind of link belongs to.
func linkType(iface *vpp_interfaces.Interface) (field string, types []vpp_interfaces.Interface_Type) {
	type t = vpp_interfaces.Interface_Type
	switch iface.GetLink().(type) {
	case *vpp_interfaces.Interface_Sub:
		return "sub", []t{vpp_interfaces.Interface_SUB_INTERFACE}
	case *vpp_interfaces.Interface_Memif:
		return "memif", []t{vpp_interfaces.Interface_MEMIF}
	case *vpp_interfaces.Interface_Afpacket:
		return "afpacket", []t{vpp_interfaces.Interface_AF_PACKET}
	case *vpp_interfaces.Interface_Tap:
		return "tap", []t{vpp_interfaces.Interface_TAP}
	case *vpp_interfaces.Interface_Vxlan:
		return "vxlan", []t{vpp_interfaces.Interface_VXLAN_TUNNEL}
	case *vpp_interfaces.Interface_Ipsec:
		return "ipsec", []t{vpp_interfaces.Interface_IPSEC_TUNNEL}
	case *vpp_interfaces.Interface_VmxNet3:
		return "vmx_net3", []t{vpp_interfaces.Interface_VMXNET3_INTERFACE}
	case *vpp_interfaces.Interface_Bond:
		return "bond", []t{vpp_interfaces.Interface_BOND_INTERFACE}
	case *vpp_interfaces.Interface_Gre:
		return "gre", []t{vpp_interfaces.Interface_GRE_TUNNEL}
	case *vpp_interfaces.Interface_Gtpu:
		return "gtpu", []t{vpp_interfaces.Interface_GTPU_TUNNEL}
	case *vpp_interfaces.Interface_Ipip:
		return "ipip", []t{vpp_interfaces.Interface_IPIP_TUNNEL}
	case *vpp_interfaces.Interface_Wireguard:
		return "wireguard", []t{vpp_interfaces.Interface_WIREGUARD_TUNNEL}
	case *vpp_interfaces.Interface_Rdma:
		return "rdma", []t{vpp_interfaces.Interface_RDMA}
	}
	return "", []t{
		vpp_interfaces.Interface_SOFTWARE_LOOPBACK, vpp_interfaces.Interface_DPDK,
		vpp_interfaces.Interface_TAP, vpp_interfaces.Interface_IPSEC_TUNNEL,
	}
}

func validateLink(iface *vpp_interfaces.Interface) error {
	typ := iface.GetType()
	if typ == vpp_interfaces.Interface_UNDEFINED_TYPE {
		return descriptor.Invalid("type", "the interface has no type: set it, for example to TAP or SOFTWARE_LOOPBACK")
	}
	field, types := linkType(iface)
	fits := false
	for _, t := range types {
		fits = fits || t == typ
	}
	switch {
	case !fits && field == "":
		return descriptor.Invalid("link", "an interface of type %v needs its type-specific parameters", typ)
	case !fits:
		return descriptor.Invalid("link", "an interface of type %v cannot have the parameters %q: they are for %v", typ, field, types[0])
	}
	switch typ {
	case vpp_interfaces.Interface_TAP:
		if iface.GetTap().GetVersion() == 1 {
			return descriptor.Invalid("tap.version", "TAP version 1 is obsolete: set 2 or leave it out")
		}
		if err := models.ValidateNetNS(iface.GetTap().GetHostNamespace()); err != nil {
			return descriptor.Invalid("tap.host_namespace", "%w", err)
		}
		if name := iface.GetTap().GetToMicroservice(); name != "" && iface.GetTap().GetHostNamespace().GetType() != linux_namespace.NetNamespace_UNDEFINED {
			return descriptor.Invalid("tap.to_microservice", "the far end cannot be in microservice %q and in tap.host_namespace: leave one of them out", name)
		}
	case vpp_interfaces.Interface_AF_PACKET:
		if iface.GetAfpacket().GetHostIfName() == "" && iface.GetAfpacket().GetLinuxInterface() == "" {
			return descriptor.Invalid("afpacket", "an AF_PACKET interface needs host_if_name or linux_interface")
		}
	case vpp_interfaces.Interface_SUB_INTERFACE:
		if iface.GetSub().GetParentName() == "" {
			return descriptor.Invalid("sub.parent_name", "a sub-interface needs its parent")
		}
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return validateTunnel(iface.GetVxlan())
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return validateGRE(iface.GetGre())
	case vpp_interfaces.Interface_GTPU_TUNNEL:
		return validateGTPU(iface.GetGtpu())
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		return validateIPIP(iface.GetIpip())
	case vpp_interfaces.Interface_WIREGUARD_TUNNEL:
		return validateWireGuard(iface.GetWireguard())
	case vpp_interfaces.Interface_RDMA:
		return validateRDMA(iface.GetRdma())
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return validateBond(iface)
	}
	return nil
}

func validateTunnel(link *vpp_interfaces.VxlanLink) error {
	if err := validTunnelAddrs("vxlan", "src_address", "dst_address", link.GetSrcAddress(), link.GetDstAddress()); err != nil {
		return err
	}
	switch {
	case link.GetVni() >= 1<<24:
		return descriptor.Invalid("vxlan.vni", "VNI %d is out of range: use 0 to %d", link.GetVni(), 1<<24-1)
	case link.GetGpe() != nil && link.GetGpe().GetProtocol() == vpp_interfaces.VxlanLink_Gpe_UNKNOWN:
		return descriptor.Invalid("vxlan.gpe.protocol", "a VXLAN-GPE tunnel needs the protocol that it carries")
	}
	return validMulticast("vxlan", link.GetDstAddress(), link.GetMulticast())
}
