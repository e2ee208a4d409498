package interfaces

import (
	"encoding/base64"
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

// Checks of type-specific parameters that apply to every vswitch, whether it supports the type or
// not.

func validateRxModes(iface *vpp_interfaces.Interface) error {
	queues, defaults := map[uint32]bool{}, 0
	for _, m := range iface.GetRxModes() {
		switch {
		case m.GetMode() == vpp_interfaces.Interface_RxMode_UNKNOWN:
			return descriptor.Invalid("rx_modes.mode", "queue %d has no mode: set POLLING, INTERRUPT, ADAPTIVE or DEFAULT", m.GetQueue())
		case iface.GetType() == vpp_interfaces.Interface_DPDK && m.GetMode() != vpp_interfaces.Interface_RxMode_POLLING:
			return descriptor.Invalid("rx_modes.mode", "interfaces of type DPDK are polled: set POLLING")
		case m.GetDefaultMode() && defaults > 0:
			return descriptor.Invalid("rx_modes.default_mode", "several default modes: keep one")
		case !m.GetDefaultMode() && queues[m.GetQueue()]:
			return descriptor.Invalid("rx_modes.queue", "queue %d has several modes: keep one", m.GetQueue())
		case m.GetDefaultMode():
			defaults++
		default:
			queues[m.GetQueue()] = true
		}
	}
	return nil
}

func validateGRE(link *vpp_interfaces.GreLink) error {
	if link.GetTunnelType() == vpp_interfaces.GreLink_UNKNOWN {
		return descriptor.Invalid("gre.tunnel_type", "a GRE tunnel needs its type: L3, TEB or ERSPAN")
	}
	return validTunnelAddrs("gre", "src_addr", "dst_addr", link.GetSrcAddr(), link.GetDstAddr())
}

func validateGTPU(link *vpp_interfaces.GtpuLink) error {
	if err := validTunnelAddrs("gtpu", "src_addr", "dst_addr", link.GetSrcAddr(), link.GetDstAddr()); err != nil {
		return err
	}
	return validMulticast("gtpu", link.GetDstAddr(), link.GetMulticast())
}

func validateIPIP(link *vpp_interfaces.IPIPLink) error {
	if link.GetTunnelMode() == vpp_interfaces.IPIPLink_POINT_TO_MULTIPOINT {
		return descriptor.ValidAddr("ipip.src_addr", link.GetSrcAddr())
	}
	return validTunnelAddrs("ipip", "src_addr", "dst_addr", link.GetSrcAddr(), link.GetDstAddr())
}

func validTunnelAddrs(link, srcField, dstField, src, dst string) error {
	if err := descriptor.FirstError(descriptor.ValidAddr(link+"."+srcField, src), descriptor.ValidAddr(link+"."+dstField, dst)); err != nil {
		return err
	}
	switch {
	case descriptor.IsIPv6(src) != descriptor.IsIPv6(dst):
		return descriptor.Invalid(link+"."+dstField, "source %s and destination %s are of different IP versions", src, dst)
	case descriptor.SameAddrText(src, dst):
		return descriptor.Invalid(link+"."+dstField, "source and destination are the same address %s", src)
	}
	return nil
}

// validMulticast requires the interface that reaches the group of a multicast tunnel.
func validMulticast(link, dst, iface string) error {
	addr, err := netip.ParseAddr(dst)
	group := err == nil && addr.IsMulticast()
	switch {
	case group && iface == "":
		return descriptor.Invalid(link+".multicast", "destination %s is a multicast group: name the interface that it is reached by", dst)
	case !group && iface != "":
		return descriptor.Invalid(link+".multicast", "destination %s is no multicast group: leave multicast out", dst)
	}
	return nil
}

func validateWireGuard(link *vpp_interfaces.WireguardLink) error {
	if key, err := base64.StdEncoding.DecodeString(link.GetPrivateKey()); err != nil || len(key) != 32 {
		return descriptor.Invalid("wireguard.private_key", "this is no private key: give 32 bytes in base64, as `wg genkey` prints them")
	}
	if link.GetPort() == 0 || link.GetPort() > 65535 {
		return descriptor.Invalid("wireguard.port", "%d is no UDP port: use 1 to 65535", link.GetPort())
	}
	return descriptor.ValidAddr("wireguard.src_addr", link.GetSrcAddr())
}

func validateRDMA(link *vpp_interfaces.RDMALink) error {
	if link.GetHostIfName() == "" {
		return descriptor.Invalid("rdma.host_if_name", "an RDMA interface needs the device of the host that it uses")
	}
	if link.GetRxqNum() > 65535 {
		return descriptor.Invalid("rdma.rxq_num", "%d queues are too many: use at most 65535", link.GetRxqNum())
	}
	for field, size := range map[string]uint32{"rdma.rxq_size": link.GetRxqSize(), "rdma.txq_size": link.GetTxqSize()} {
		if size > 65535 || size&(size-1) != 0 {
			return descriptor.Invalid(field, "%d is no size of a queue: use a power of two up to 32768, or 0 for the default", size)
		}
	}
	return nil
}

func validateBond(iface *vpp_interfaces.Interface) error {
	if iface.GetBond().GetMode() == vpp_interfaces.BondLink_UNKNOWN {
		return descriptor.Invalid("bond.mode", "a bond needs its mode, for example LACP or ACTIVE_BACKUP")
	}
	members := map[string]bool{}
	for _, m := range iface.GetBond().GetBondedInterfaces() {
		switch {
		case m.GetName() == "" || m.GetName() == iface.GetName():
			return descriptor.Invalid("bond.bonded_interfaces", "%q cannot be a member of bond %q: name another interface", m.GetName(), iface.GetName())
		case members[m.GetName()]:
			return descriptor.Invalid("bond.bonded_interfaces", "interface %q is a member twice", m.GetName())
		}
		members[m.GetName()] = true
	}
	return nil
}
