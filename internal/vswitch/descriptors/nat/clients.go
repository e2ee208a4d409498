package nat

import (
	"context"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// clientMapping are the fields for clients with the same types in mappings of DNat44 and DNat66.
type clientMapping interface {
	GetExternalIp() string
	GetExternalPort() uint32
	GetSourceRanges() []string
	GetMasqueradeOutside() bool
}

// validClients checks the fields shared by DNat44 and DNat66. seen holds the IDs of the preceding
// mappings.
func validClients(field string, m clientMapping, id mappingID, otherwise vpp_nat.DNat44_StaticMapping_Otherwise, locals int, seen map[mappingID]bool) error {
	everybody := id
	everybody.clients = vpp_nat.DNat44_StaticMapping_ALL
	scoped := everybody
	scoped.scoped = true
	own := id.clients == vpp_nat.DNat44_StaticMapping_NODE
	switch all := id.clients == vpp_nat.DNat44_StaticMapping_ALL; {
	case vpp_nat.DNat44_StaticMapping_Clients_name[int32(id.clients)] == "":
		return descriptor.Invalid(field+"clients", "unknown value %d: use ALL, INSIDE, OUTSIDE or NODE", id.clients)
	case vpp_nat.DNat44_StaticMapping_Otherwise_name[int32(otherwise)] == "":
		return descriptor.Invalid(field+"otherwise", "unknown value %d: use NEEDED, REFUSE or DROP", otherwise)
	case all && seen[scoped], !all && !own && seen[everybody]:
		return descriptor.Invalid(field+"clients", "the same address, port and protocol has a mapping for ALL clients: leave one out")
	case m.GetExternalPort() == 0 && (!all || locals == 0 || len(m.GetSourceRanges()) > 0 || m.GetMasqueradeOutside()):
		return descriptor.Invalid(field+"external_port", "clients, otherwise, source_ranges and masquerade_outside need ports")
	case id.clients == vpp_nat.DNat44_StaticMapping_INSIDE && locals == 0:
		return descriptor.Invalid(field+"otherwise", "REFUSE and DROP apply to all clients: remove the mapping, or set clients to OUTSIDE or ALL")
	case own && locals == 0:
		return descriptor.Invalid(field+"otherwise", "REFUSE and DROP apply to all clients: remove the mapping, or set clients to ALL")
	case !all && !own:
		seen[scoped] = true
	}
	for _, text := range m.GetSourceRanges() {
		p, err := netip.ParsePrefix(text)
		switch external, _ := netip.ParseAddr(m.GetExternalIp()); {
		case err != nil:
			return descriptor.Invalid(field+"source_ranges", "%q is no prefix such as 192.0.2.0/24", text)
		case external.IsValid() && external.Is6() != p.Addr().Is6():
			return descriptor.Invalid(field+"source_ranges", "%s is of another IP version than %s", text, external)
		}
	}
	return nil
}

// serviceNetworkDescriptor handles config/contiv/nat/v1/service-network.
func serviceNetworkDescriptor(port vswitch.Values[*contiv_nat.ServiceNetwork]) kvscheduler.Descriptor[*contiv_nat.ServiceNetwork, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*contiv_nat.ServiceNetwork, descriptor.NoMeta]{
		Name:     vswitch.ServiceNetworkDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.ServiceNetwork.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, n *contiv_nat.ServiceNetwork) error { return validateServiceNetwork(n) },
		Equivalent: func(_ string, old, new *contiv_nat.ServiceNetwork) bool {
			return proto.Equal(vswitch.NormalServiceNetwork(old), vswitch.NormalServiceNetwork(new))
		},
		Create: descriptor.Create(port.Create),
		Update: descriptor.Update(func(ctx context.Context, _, new *contiv_nat.ServiceNetwork) error {
			return port.Create(ctx, new)
		}),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.NATGlobalDescriptor, vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, n *contiv_nat.ServiceNetwork) []kvscheduler.Dependency {
			for _, text := range slices.Concat(n.GetInside(), n.GetServiceSubnets()) {
				if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
					return []kvscheduler.Dependency{natEnabled}
				}
			}
			return nil
		},
	}
}

func validateServiceNetwork(n *contiv_nat.ServiceNetwork) error {
	for _, f := range []struct {
		field string
		list  []string
	}{{"inside", n.GetInside()}, {"service_subnets", n.GetServiceSubnets()}, {"overlay", n.GetOverlay()}} {
		for _, text := range f.list {
			if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
				return descriptor.Invalid(f.field, "%q is no prefix such as 10.1.1.0/24", text)
			}
		}
	}
	return nil
}
