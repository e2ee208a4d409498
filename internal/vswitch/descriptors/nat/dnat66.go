package nat

import (
	"context"
	"fmt"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type staticMapping66 = contiv_nat.DNat66_StaticMapping

// dnat66Descriptor handles config/contiv/nat/v1/dnat66/{label}.
func dnat66Descriptor(port vswitch.DNAT66) kvscheduler.Descriptor[*contiv_nat.DNat66, descriptor.NoMeta] {
	set := func(ctx context.Context, v *contiv_nat.DNat66) error { return port.Set(ctx, v) }
	remove1 := func(ctx context.Context, v *contiv_nat.DNat66) error { return port.Remove(ctx, v) }
	return kvscheduler.Descriptor[*contiv_nat.DNat66, descriptor.NoMeta]{
		Name:     vswitch.DNAT66Descriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.DNAT66.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *contiv_nat.DNat66) error { return validateDNAT66(v) },
		Equivalent: func(_ string, old, new *contiv_nat.DNat66) bool {
			return proto.Equal(old, new) || proto.Equal(normalDNAT(vswitch.DNAT66AsDNAT44(old)), normalDNAT(vswitch.DNAT66AsDNAT44(new)))
		},
		Releases: func(_ string, old, new *contiv_nat.DNat66) bool {
			return releases(old.GetStMappings(), new.GetStMappings(), external66)
		},
		Create: descriptor.Create(set),
		Update: descriptor.Update(func(ctx context.Context, _, new *contiv_nat.DNat66) error { return port.Set(ctx, new) }),
		Delete: descriptor.Delete(remove1),
		CreateBatch: func(ctx context.Context, items []descriptor.Item[*contiv_nat.DNat66]) ([]descriptor.NoMeta, []error) {
			return make([]descriptor.NoMeta, len(items)), natBatch(ctx, descriptor.ValuesOf(items), port.Set)
		},
		DeleteBatch: func(ctx context.Context, items []descriptor.Item[*contiv_nat.DNat66]) []error {
			return natBatch(ctx, descriptor.ValuesOf(items), port.Remove)
		},
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.ServiceNetworkDescriptor},
	}
}

// external66 returns the address, port and protocol that a mapping translates.
func external66(m *staticMapping66) mappingID {
	return mappingID{ip: vswitch.CanonicalAddr(m.GetExternalIp()), port: m.GetExternalPort(), protocol: int32(m.GetProtocol())}
}

func validateDNAT66(v *contiv_nat.DNat66) error {
	if v.GetLabel() == "" {
		return descriptor.Invalid("label", "a DNat66 value needs a label")
	}
	seen := map[mappingID]bool{}
	for i, m := range v.GetStMappings() {
		if err := validateStatic66(fmt.Sprintf("st_mappings[%d].", i), m, seen); err != nil {
			return err
		}
	}
	return nil
}

func validateStatic66(field string, m *staticMapping66, seen map[mappingID]bool) error {
	if err := descriptor.FirstError(validUnicast6(field+"external_ip", m.GetExternalIp()), validPort66(field+"external_port", m.GetExternalPort()), descriptor.ValidPort(field+"affinity_port", m.GetAffinityPort())); err != nil {
		return err
	}
	id := external66(m)
	id.clients = vpp_nat.DNat44_StaticMapping_Clients(m.GetClients())
	switch {
	case contiv_nat.DNat66_Protocol_name[int32(m.GetProtocol())] == "":
		return descriptor.Invalid(field+"protocol", "unknown protocol %d: use TCP, UDP or SCTP", m.GetProtocol())
	case contiv_nat.DNat66_StaticMapping_TwiceNatMode_name[int32(m.GetTwiceNat())] == "":
		return descriptor.Invalid(field+"twice_nat", "unknown mode %d: use DISABLED, ENABLED or SELF", m.GetTwiceNat())
	case seen[id]:
		return descriptor.Invalid(field+"external_port", "two mappings have the same external address, port and protocol: put their local_ips into one")
	case len(m.GetLocalIps()) == 0 && m.GetOtherwise() == contiv_nat.DNat66_StaticMapping_NEEDED:
		return descriptor.Invalid(field+"local_ips", "a static mapping needs a local address: add one, remove the mapping, or set otherwise to REFUSE or DROP")
	}
	seen[id] = true
	if err := validClients(field, m, id, vpp_nat.DNat44_StaticMapping_Otherwise(m.GetOtherwise()), len(m.GetLocalIps()), seen); err != nil {
		return err
	}
	type place struct {
		ip   string
		port uint32
	}
	locals := map[place]bool{}
	for _, l := range m.GetLocalIps() {
		if err := descriptor.FirstError(validUnicast6(field+"local_ips.local_ip", l.GetLocalIp()), validPort66(field+"local_ips.local_port", l.GetLocalPort())); err != nil {
			return err
		}
		if l.GetClientIp() != "" {
			if err := validUnicast6(field+"local_ips.client_ip", l.GetClientIp()); err != nil {
				return err
			}
		}
		id := place{vswitch.CanonicalAddr(l.GetLocalIp()), l.GetLocalPort()}
		if locals[id] {
			return descriptor.Invalid(field+"local_ips", "%s port %d is in the list twice", l.GetLocalIp(), l.GetLocalPort())
		}
		locals[id] = true
	}
	switch none := m.GetTwiceNat() == contiv_nat.DNat66_StaticMapping_DISABLED; {
	case none && m.GetTwiceNatIp() != "":
		return descriptor.Invalid(field+"twice_nat_ip", "set twice_nat to ENABLED or SELF, or leave twice_nat_ip out")
	case none:
		return nil
	case m.GetTwiceNatIp() == "":
		return descriptor.Invalid(field+"twice_nat_ip", "twice_nat %v needs the address that clients are seen with", m.GetTwiceNat())
	}
	return validUnicast6(field+"twice_nat_ip", m.GetTwiceNatIp())
}

func validUnicast6(field, text string) error {
	if err := descriptor.ValidAddr(field, text); err != nil {
		return err
	}
	switch addr := netip.MustParseAddr(text); {
	case addr.Is4() || addr.Is4In6():
		return descriptor.Invalid(field, "%s is an IPv4 address: use DNat44", text)
	case addr.Zone() != "" || addr.IsMulticast() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsLoopback():
		return descriptor.Invalid(field, "%s is no address that packets are routed to: use one that is, such as fd00::1", text)
	}
	return nil
}

func validPort66(field string, port uint32) error {
	if port == 0 {
		return descriptor.Invalid(field, "give a port from 1 to 65535: ports are mapped, not whole addresses")
	}
	return descriptor.ValidPort(field, port)
}
