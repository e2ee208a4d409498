package own

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

func interfacesOfFeature(v proto.Message) []string {
	if names := vswitch.InterfacesOfFeature(v); names != nil {
		return names
	}
	if proxy, ok := v.(*vpp_l3.ProxyARP); ok {
		var names []string
		for _, i := range proxy.GetInterfaces() {
			names = append(names, i.GetName())
		}
		return names
	}
	return interfacesOfSegment(v)
}

// ExternalInterfaces returns the interfaces with addresses that the value uses.
func ExternalInterfaces(v *vpp_nat.DNat44) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, m := range v.GetStMappings() {
		add(m.GetExternalInterface())
	}
	for _, m := range v.GetIdMappings() {
		add(m.GetInterface())
	}
	return names
}

func interfacesOfSegment(v proto.Message) []string {
	s, ok := v.(*vpp_srv6.LocalSID)
	if !ok {
		return nil
	}
	if name := s.GetEndFunctionDx2().GetOutgoingInterface(); name != "" {
		return []string{name}
	}
	if iface, _ := NeighbourOfSID(s); iface != "" {
		return []string{iface}
	}
	return nil
}

// NeighbourOfSID returns the neighbour of a cross-connecting SID; "" for other functions.
func NeighbourOfSID(s *vpp_srv6.LocalSID) (iface string, nextHop netip.Addr) {
	var text string
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_EndFunctionX:
		iface, text = f.EndFunctionX.GetOutgoingInterface(), f.EndFunctionX.GetNextHop()
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		iface, text = f.EndFunctionDx4.GetOutgoingInterface(), f.EndFunctionDx4.GetNextHop()
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		iface, text = f.EndFunctionDx6.GetOutgoingInterface(), f.EndFunctionDx6.GetNextHop()
	}
	nextHop, _ = netip.ParseAddr(text)
	return iface, nextHop
}

// AddressTexts returns the requested addresses of a value.
func AddressTexts(iface *vpp_interfaces.Interface) map[netip.Prefix]bool {
	wanted := map[netip.Prefix]bool{}
	for _, text := range iface.GetIpAddresses() {
		if addr, err := netip.ParsePrefix(text); err == nil {
			wanted[addr] = true
		}
	}
	return wanted
}

func interfacesOf(v proto.Message) []string {
	if names := interfacesOfFeature(v); names != nil {
		return names
	}
	switch v := v.(type) {
	case *vpp_interfaces.Interface:
		names := []string{v.GetName()}
		for _, other := range []string{v.GetUnnumbered().GetInterfaceWithIp(), v.GetSub().GetParentName(), v.GetVxlan().GetMulticast()} {
			if other != "" {
				names = append(names, other)
			}
		}
		for _, member := range v.GetBond().GetBondedInterfaces() {
			names = append(names, member.GetName())
		}
		return names
	case *vpp_l2.BridgeDomain:
		names := make([]string, len(v.GetInterfaces()))
		for i, iface := range v.GetInterfaces() {
			names[i] = iface.GetName()
		}
		return names
	case *vpp_wireguard.Peer:
		return []string{v.GetWgIfName()}
	case *vpp_l2.FIBEntry:
		return []string{v.GetOutgoingInterface()}
	case *vpp_l3.Route:
		return []string{v.GetOutgoingInterface()}
	case *vpp_l3.ARPEntry:
		return []string{v.GetInterface()}
	case *vpp_nat.Nat44Interface:
		return []string{v.GetName()}
	case *vpp_nat.DNat44:
		return ExternalInterfaces(v)
	case *contiv_nat.SourceNAT66:
		return []string{v.GetInterface()}
	case *vpp_acl.ACL:
		return slices.Concat(v.GetInterfaces().GetIngress(), v.GetInterfaces().GetEgress())
	}
	return nil
}

func destinationOf(v proto.Message) (netip.Prefix, bool) {
	route, ok := v.(*vpp_l3.Route)
	if !ok {
		return netip.Prefix{}, false
	}
	dst, err := netip.ParsePrefix(route.GetDstNetwork())
	return dst.Masked(), err == nil
}
