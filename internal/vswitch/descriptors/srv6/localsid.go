package srv6

import (
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// localSIDDescriptor handles config/vpp/srv6/v2/localsid/{sid}.
func localSIDDescriptor(port vswitch.Values[*vpp_srv6.LocalSID]) kvscheduler.Descriptor[*vpp_srv6.LocalSID, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_srv6.LocalSID, descriptor.NoMeta]{
		Name:     vswitch.LocalSIDDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.SRv6LocalSID.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, s *vpp_srv6.LocalSID) error { return validateLocalSID(s) },
		Equivalent: func(_ string, old, new *vpp_srv6.LocalSID) bool {
			return proto.Equal(normalLocalSID(old), normalLocalSID(new))
		},
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.VRFTableDescriptor},
		Dependencies:  func(_ string, s *vpp_srv6.LocalSID) []kvscheduler.Dependency { return dependenciesOfLocalSID(s) },
	}
}

func validateLocalSID(s *vpp_srv6.LocalSID) error {
	if err := validIPv6("sid", s.GetSid()); err != nil {
		return err
	}
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_BaseEndFunction, *vpp_srv6.LocalSID_EndFunctionT, *vpp_srv6.LocalSID_EndFunctionDt4, *vpp_srv6.LocalSID_EndFunctionDt6:
		return nil
	case *vpp_srv6.LocalSID_EndFunctionX:
		return validCrossConnection("end_function_x", f.EndFunctionX, true)
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		return needsInterface("end_function_dx2.outgoing_interface", f.EndFunctionDx2.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		return validCrossConnection("end_function_dx4", f.EndFunctionDx4, false)
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		return validCrossConnection("end_function_dx6", f.EndFunctionDx6, true)
	case *vpp_srv6.LocalSID_EndFunctionAd:
		return validProxy(f.EndFunctionAd)
	}
	return descriptor.Invalid("end_function", "no function: set base_end_function, end_function_x, …, or end_function_ad")
}

// crossConnection is a function that forwards packets to a neighbour.
type crossConnection interface {
	GetOutgoingInterface() string
	GetNextHop() string
}

func validCrossConnection(field string, x crossConnection, ipv6 bool) error {
	if err := needsInterface(field+".outgoing_interface", x.GetOutgoingInterface()); err != nil {
		return err
	}
	field += ".next_hop"
	if err := descriptor.ValidAddr(field, x.GetNextHop()); err != nil {
		return err
	}
	if descriptor.IsIPv6(x.GetNextHop()) != ipv6 {
		return descriptor.Invalid(field, "%s is of the wrong IP version for this function", x.GetNextHop())
	}
	return nil
}

func validProxy(f *vpp_srv6.LocalSID_EndAD) error {
	const field = "end_function_ad"
	if err := needsInterface(field+".outgoing_interface", f.GetOutgoingInterface()); err != nil {
		return err
	}
	if err := needsInterface(field+".incoming_interface", f.GetIncomingInterface()); err != nil {
		return err
	}
	if f.GetL3ServiceAddress() == "" {
		return nil
	}
	return descriptor.ValidAddr(field+".l3_service_address", f.GetL3ServiceAddress())
}

func needsInterface(field, name string) error {
	if name == "" {
		return descriptor.Invalid(field, "name the interface")
	}
	return nil
}

func validIPv6(field, addr string) error {
	if err := descriptor.ValidAddr(field, addr); err != nil {
		return err
	}
	if ip := netip.MustParseAddr(addr); !ip.Is6() || ip.Is4In6() || ip.Zone() != "" {
		return descriptor.Invalid(field, "%s is no global IPv6 address: write it like fc00::1", addr)
	}
	return nil
}

// normalLocalSID normalises addresses and removes ignored fields.
func normalLocalSID(s *vpp_srv6.LocalSID) *vpp_srv6.LocalSID {
	s = proto.CloneOf(s)
	s.Sid = vswitch.CanonicalAddr(s.GetSid())
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_EndFunctionX:
		f.EndFunctionX.NextHop = vswitch.CanonicalAddr(f.EndFunctionX.GetNextHop())
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		f.EndFunctionDx4.NextHop = vswitch.CanonicalAddr(f.EndFunctionDx4.GetNextHop())
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		f.EndFunctionDx6.NextHop = vswitch.CanonicalAddr(f.EndFunctionDx6.GetNextHop())
	case *vpp_srv6.LocalSID_EndFunctionAd:
		f.EndFunctionAd.L3ServiceAddress = vswitch.CanonicalAddr(f.EndFunctionAd.GetL3ServiceAddress())
		s.InstallationVrfId = 0
	}
	return s
}

func dependenciesOfLocalSID(s *vpp_srv6.LocalSID) (deps []kvscheduler.Dependency) {
	table := func(label string, vrf uint32, ipv6 bool) {
		if vrf != 0 {
			deps = append(deps, kvscheduler.Dependency{Label: label, Key: models.VRFTableKey(vrf, ipv6)})
		}
	}
	iface := func(label, name string) {
		deps = append(deps, kvscheduler.Dependency{Label: label, Key: models.VPPInterfaceKey(name)})
	}
	if s.GetEndFunctionAd() == nil {
		table(labelSIDVRFExists, s.GetInstallationVrfId(), true)
	}
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_EndFunctionX:
		iface(labelSIDOutgoingExists, f.EndFunctionX.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionT:
		table(labelLookupVRFExists, f.EndFunctionT.GetVrfId(), true)
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		iface(labelSIDOutgoingExists, f.EndFunctionDx2.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		iface(labelSIDOutgoingExists, f.EndFunctionDx4.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		iface(labelSIDOutgoingExists, f.EndFunctionDx6.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		table(labelLookupVRFExists, f.EndFunctionDt4.GetVrfId(), false)
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		table(labelLookupVRFExists, f.EndFunctionDt6.GetVrfId(), true)
	case *vpp_srv6.LocalSID_EndFunctionAd:
		iface(labelSIDOutgoingExists, f.EndFunctionAd.GetOutgoingInterface())
		iface(labelSIDIncomingExists, f.EndFunctionAd.GetIncomingInterface())
	}
	return deps
}
