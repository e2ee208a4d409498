package interfaces

import (
	"cmp"
	"maps"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// interfaceDescriptor handles config/vpp/v2/interfaces/{name}. It creates the interface itself; its
// assignments are derived values:
//
//	interface ─┬─ address/{source}/{addr}   needs vrf/…
//	           ├─ vrf/…                     needs the VRF table, or the lender's vrf/…
//	           ├─ has-IP-address            needs any address, and vrf/… of all versions
//	           ├─ dhcp-client/{name}        needs vrf/…; its lease is obtained, and derives an address
//	           ├─ unnumbered/{name}         needs the lender's has-IP-address, and vrf/…
//	           ├─ vpp/bond/{name}/interface/{if}/   needs the interface
//	           └─ ip6nd/{name}, rx-modes, rx-placement/…
//
// The state of its link is an obtained value: link-state/UP or link-state/DOWN.
func interfaceDescriptor(port vswitch.Interfaces, alloc *netalloc.Resolver, ms microservices) kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta] {
	interfaces := allocatedInterfaces(alloc, ms)
	return kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta]{
		Name:     vswitch.InterfaceDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
		NB:       true,
		KeyLabel: func(key string) string { return key[len(models.VPPInterface.KeyPrefix()):] },
		Validate: func(_ string, iface *vpp_interfaces.Interface) error { return validateInterface(iface) },
		Equivalent: func(_ string, old, new *vpp_interfaces.Interface) bool {
			return equivalentInterfaces(old, new)
		},
		Create: interfaces.Create(port.Create),
		Update: interfaces.Update(port.Update),
		Delete: interfaces.Delete(port.Delete),
		UpdateWithRecreate: func(_ string, old, new *vpp_interfaces.Interface, _ descriptor.NoMeta) bool {
			return needsNewInterface(old, new)
		},
		Retrieve:      interfaces.Retrieve(port.List),
		RetrieveKeys:  interfaces.Retrieve(port.Find),
		RetrieveAfter: []string{netalloc.Descriptor, models.MicroserviceDescriptor},
		DerivedValues: func(_ string, iface *vpp_interfaces.Interface) []kvscheduler.KeyValue {
			return derivedOfInterface(iface)
		},
		Dependencies: func(_ string, iface *vpp_interfaces.Interface) []kvscheduler.Dependency {
			deps := dependenciesOfInterface(iface)
			if iface.GetSourceGuarded() {
				deps = append(deps, kvscheduler.Dependency{Label: "source-guard", Key: models.SourceGuard.KeyPrefix() + iface.GetName()})
			}
			return deps
		},
	}
}

func dependenciesOfInterface(iface *vpp_interfaces.Interface) []kvscheduler.Dependency {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		return microserviceDependencies(iface)
	case vpp_interfaces.Interface_AF_PACKET:
		key := models.LinuxHostNameKey(iface.GetAfpacket().GetHostIfName())
		if name := iface.GetAfpacket().GetLinuxInterface(); name != "" {
			key = models.LinuxInterfaceKey(name)
		}
		return []kvscheduler.Dependency{{Label: "afpacket-host-interface-exists", Key: key}}
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		link := iface.GetVxlan()
		return dependenciesOfTunnel("vxlan", descriptor.IsIPv6(link.GetSrcAddress()), link.GetMulticast(), map[string]uint32{
			"vrf-table-for-vxlan-exists": iface.GetVrf(), "vrf-table-for-vxlan-gpe-exists": link.GetGpe().GetDecapVrfId(),
		})
	case vpp_interfaces.Interface_GTPU_TUNNEL:
		link := iface.GetGtpu()
		return dependenciesOfTunnel("gtpu", descriptor.IsIPv6(link.GetSrcAddr()), link.GetMulticast(), map[string]uint32{
			"vrf-table-for-gtpu-exists": link.GetEncapVrfId(),
		})
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		return dependenciesOfTunnel("ipip", descriptor.IsIPv6(iface.GetIpip().GetSrcAddr()), "", map[string]uint32{
			"vrf-table-for-ipip-exists": iface.GetVrf(),
		})
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return dependenciesOfTunnel("gre", descriptor.IsIPv6(iface.GetGre().GetSrcAddr()), "", map[string]uint32{
			"vrf-table-for-gre-exists": iface.GetGre().GetOuterFibId(),
		})
	case vpp_interfaces.Interface_SUB_INTERFACE:
		return []kvscheduler.Dependency{{Label: "parent-interface-exists", Key: models.VPPInterfaceKey(iface.GetSub().GetParentName())}}
	}
	return nil
}

// dependenciesOfTunnel returns the interface with an address that joins a multicast group, and VRFs
// other than 0, by label.
func dependenciesOfTunnel(kind string, ipv6 bool, multicast string, vrfs map[string]uint32) (deps []kvscheduler.Dependency) {
	if multicast != "" {
		deps = append(deps, kvscheduler.Dependency{
			Label: kind + "-multicast-interface-exists",
			AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceAddressPrefix(multicast)}},
		})
	}
	for _, label := range slices.Sorted(maps.Keys(vrfs)) {
		if vrfs[label] != 0 {
			deps = append(deps, kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrfs[label], ipv6)})
		}
	}
	return deps
}

// isTunnelInVRF reports whether the type sends packets in the interface's VRF, which then cannot
// change.
func isTunnelInVRF(iface *vpp_interfaces.Interface) bool {
	switch iface.GetType() {
	case vpp_interfaces.Interface_VXLAN_TUNNEL, vpp_interfaces.Interface_GTPU_TUNNEL, vpp_interfaces.Interface_IPIP_TUNNEL:
		return true
	}
	return false
}

func derivedOfInterface(iface *vpp_interfaces.Interface) (derived []kvscheduler.KeyValue) {
	name := iface.GetName()
	versions := versionsOf(iface)
	for _, addr := range addressesOf(iface) {
		derived = append(derived, kvscheduler.KeyValue{
			Key: models.VPPInterfaceAddressKey(name, addr.source, addr.text), Value: descriptor.Empty(),
		})
	}
	if iface.GetSetDhcpClient() {
		derived = append(derived, kvscheduler.KeyValue{Key: models.DHCPClientKey(name), Value: descriptor.Empty()})
	}
	hasAddress := len(derived) > 0
	if !hasAddress && isTunnelInVRF(iface) {
		ipv6 := descriptor.IsIPv6(cmp.Or(iface.GetVxlan().GetSrcAddress(), iface.GetGtpu().GetSrcAddr(), iface.GetIpip().GetSrcAddr()))
		versions = vswitch.IPVersions{V4: !ipv6, V6: ipv6}
	}

	lender := iface.GetUnnumbered().GetInterfaceWithIp()
	switch {
	case lender != "":
		derived = append(derived,
			kvscheduler.KeyValue{Key: models.VPPInterfaceInheritedVRFKey(name, lender), Value: descriptor.Empty()},
			kvscheduler.KeyValue{Key: models.UnnumberedInterfaceKey(name), Value: iface.GetUnnumbered()})
	default:
		// One key per IP version, so that losing all addresses of one does not affect the other.
		for _, v := range versions.Each() {
			derived = append(derived, kvscheduler.KeyValue{
				Key: models.VPPInterfaceVRFKey(name, iface.GetVrf(), v.String()), Value: descriptor.Empty(),
			})
		}
	}
	if hasAddress {
		derived = append(derived, kvscheduler.KeyValue{Key: models.VPPInterfaceHasAddressKey(name), Value: addressing(iface)})
	}
	return append(derived, optionsOfInterface(iface)...)
}

// addressing returns the addressing part of an interface.
func addressing(iface *vpp_interfaces.Interface) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: iface.GetName(), Vrf: iface.GetVrf(), IpAddresses: iface.GetIpAddresses(),
		SetDhcpClient: iface.GetSetDhcpClient(), Unnumbered: iface.GetUnnumbered(),
	}
}

// ownAddress is an address as named in its interface's keys. A reference may be of either IP
// version.
type ownAddress struct {
	source, text string
	versions     vswitch.IPVersions
}

// addressesOf returns the distinct addresses of a valid interface in canonical form.
func addressesOf(iface *vpp_interfaces.Interface) (addrs []ownAddress) {
	seen := map[ownAddress]bool{}
	for _, text := range iface.GetIpAddresses() {
		source, addr, ok := netalloc.AddressKeyText(text, iface.GetName())
		ref := source == models.AddrAllocRef
		own := ownAddress{source, addr, vswitch.IPVersions{V4: ref || !descriptor.IsIPv6Network(addr), V6: ref || descriptor.IsIPv6Network(addr)}}
		if ok && !seen[own] {
			seen[own] = true
			addrs = append(addrs, own)
		}
	}
	return addrs
}
