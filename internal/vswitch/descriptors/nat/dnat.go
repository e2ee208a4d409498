package nat

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type (
	staticMapping   = vpp_nat.DNat44_StaticMapping
	identityMapping = vpp_nat.DNat44_IdentityMapping
	localIP         = vpp_nat.DNat44_StaticMapping_LocalIP
)

// mappingID identifies a static mapping within a value: by external interface or address.
type mappingID struct {
	iface, ip string
	port      uint32
	protocol  int32
	clients   vpp_nat.DNat44_StaticMapping_Clients
	// scoped marks the existence of a mapping for some clients. It has no clients itself.
	scoped bool
}

// dnatDescriptor handles config/vpp/nat/v2/dnat44/{label}.
func dnatDescriptor(port vswitch.DNAT) kvscheduler.Descriptor[*vpp_nat.DNat44, descriptor.NoMeta] {
	set := func(ctx context.Context, v *vpp_nat.DNat44) error { return port.SetDNAT(ctx, v) }
	remove1 := func(ctx context.Context, v *vpp_nat.DNat44) error { return port.RemoveDNAT(ctx, v) }
	return kvscheduler.Descriptor[*vpp_nat.DNat44, descriptor.NoMeta]{
		Name:     vswitch.DNATDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.DNAT44.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *vpp_nat.DNat44) error { return validateDNAT(v) },
		Equivalent: func(_ string, old, new *vpp_nat.DNat44) bool {
			return proto.Equal(old, new) || proto.Equal(normalDNAT(old), normalDNAT(new))
		},
		Releases: func(_ string, old, new *vpp_nat.DNat44) bool {
			return releases(old.GetStMappings(), new.GetStMappings(), external44)
		},
		Create: descriptor.Create(set),
		Update: descriptor.Update(func(ctx context.Context, _, new *vpp_nat.DNat44) error { return port.SetDNAT(ctx, new) }),
		Delete: descriptor.Delete(remove1),
		CreateBatch: func(ctx context.Context, items []descriptor.Item[*vpp_nat.DNat44]) ([]descriptor.NoMeta, []error) {
			return make([]descriptor.NoMeta, len(items)), natBatch(ctx, descriptor.ValuesOf(items), port.SetDNAT)
		},
		DeleteBatch: func(ctx context.Context, items []descriptor.Item[*vpp_nat.DNat44]) []error {
			return natBatch(ctx, descriptor.ValuesOf(items), port.RemoveDNAT)
		},
		Retrieve:      descriptor.Retrieve(port.ListDNAT),
		RetrieveAfter: []string{vswitch.NATGlobalDescriptor, vswitch.InterfaceDescriptor, vswitch.ServiceNetworkDescriptor},
		Dependencies:  func(_ string, v *vpp_nat.DNat44) []kvscheduler.Dependency { return dependenciesOfDNAT(v) },
	}
}

// releases reports whether the new mappings lack an external address and port of the old ones, which
// another value may have then.
func releases[M any](old, new []M, external func(M) mappingID) bool {
	kept := map[mappingID]bool{}
	for _, m := range new {
		kept[external(m)] = true
	}
	return slices.ContainsFunc(old, func(m M) bool { return !kept[external(m)] })
}

// external44 returns the address, port and protocol that a mapping translates.
func external44(m *staticMapping) mappingID {
	return mappingID{iface: m.GetExternalInterface(), ip: m.GetExternalIp(), port: m.GetExternalPort(), protocol: int32(m.GetProtocol())}
}

// natBatch processes hundreds of values at once. After an error, it processes them one by one to
// find the faulty one.
func natBatch[V any](ctx context.Context, values []V, do func(context.Context, ...V) error) []error {
	const most = 256
	errs := make([]error, 0, len(values))
	for part := range slices.Chunk(values, most) {
		if do(ctx, part...) == nil {
			errs = append(errs, make([]error, len(part))...)
			continue
		}
		for _, v := range part {
			errs = append(errs, do(ctx, v))
		}
	}
	return errs
}

func dependenciesOfDNAT(v *vpp_nat.DNat44) []kvscheduler.Dependency {
	deps := []kvscheduler.Dependency{natEnabled, natEndpointDependent}
	add := func(more ...kvscheduler.Dependency) {
		for _, d := range more {
			if !slices.ContainsFunc(deps, func(o kvscheduler.Dependency) bool { return o.Label == d.Label }) {
				deps = append(deps, d)
			}
		}
	}
	vrf := func(id uint32) { add(natVRFExists(fmt.Sprintf("vrf-table-exists-%d", id), id)...) }
	for _, m := range v.GetStMappings() {
		if m.GetExternalInterface() != "" {
			add(natInterfaceExists(m.GetExternalInterface()))
		}
		for _, l := range m.GetLocalIps() {
			vrf(l.GetVrfId())
		}
		if addr, err := netip.ParseAddr(m.GetTwiceNatPoolIp()); err == nil {
			add(kvscheduler.Dependency{
				Label: "reference-to-twiceNATPoolIP-" + addr.String(),
				AnyOf: kvscheduler.AnyOf{
					KeyPrefixes: []string{models.NAT44TwicePoolPrefix},
					KeySelector: func(key string) bool { return models.TwicePoolContains(key, addr) },
				},
			})
		}
	}
	for _, m := range v.GetIdMappings() {
		if m.GetInterface() != "" {
			add(natInterfaceExists(m.GetInterface()))
		}
		vrf(m.GetVrfId())
	}
	return deps
}

func validateDNAT(v *vpp_nat.DNat44) error {
	if v.GetLabel() == "" {
		return descriptor.Invalid("label", "a DNat44 value needs a label")
	}
	seen := map[mappingID]bool{}
	for i, m := range v.GetStMappings() {
		if err := validateStatic(fmt.Sprintf("st_mappings[%d].", i), m, seen); err != nil {
			return err
		}
	}
	type identityID struct {
		iface, ip string
		port      uint32
		protocol  vpp_nat.DNat44_Protocol
		vrf       uint32
	}
	identities := map[identityID]bool{}
	for i, m := range v.GetIdMappings() {
		field := fmt.Sprintf("id_mappings[%d].", i)
		if m.GetInterface() == "" {
			if err := validIPv4(field+"ip_address", m.GetIpAddress()); err != nil {
				return err
			}
		}
		if err := descriptor.ValidPort(field+"port", m.GetPort()); err != nil {
			return err
		}
		id := identityID{m.GetInterface(), m.GetIpAddress(), m.GetPort(), m.GetProtocol(), m.GetVrfId()}
		if identities[id] {
			return descriptor.Invalid(field+"ip_address", "this identity is in the list twice")
		}
		identities[id] = true
	}
	return nil
}

func validateStatic(field string, m *staticMapping, seen map[mappingID]bool) error {
	if m.GetExternalInterface() == "" {
		if err := validIPv4(field+"external_ip", m.GetExternalIp()); err != nil {
			return err
		}
	}
	if err := descriptor.FirstError(descriptor.ValidPort(field+"external_port", m.GetExternalPort()), descriptor.ValidPort(field+"affinity_port", m.GetAffinityPort())); err != nil {
		return err
	}
	id := mappingID{ip: m.GetExternalIp(), port: m.GetExternalPort(), protocol: int32(m.GetProtocol()), clients: m.GetClients()}
	if m.GetExternalInterface() != "" {
		id.iface, id.ip = m.GetExternalInterface(), ""
	}
	switch {
	case seen[id]:
		return descriptor.Invalid(field+"external_port", "two mappings have the same external address, port and protocol: put their local_ips into one")
	case len(m.GetLocalIps()) == 0 && m.GetOtherwise() == vpp_nat.DNat44_StaticMapping_NEEDED:
		return descriptor.Invalid(field+"local_ips", "a static mapping needs a local address, or set otherwise")
	case len(m.GetLocalIps()) > 1 && m.GetExternalPort() == 0:
		return descriptor.Invalid(field+"external_port", "several local addresses require ports, because connections are balanced")
	case m.GetExternalPort() == 0 && m.GetTwiceNat() != vpp_nat.DNat44_StaticMapping_DISABLED:
		return descriptor.Invalid(field+"twice_nat", "twice-NAT needs ports")
	}
	seen[id] = true
	if err := validClients(field, m, id, m.GetOtherwise(), len(m.GetLocalIps()), seen); err != nil {
		return err
	}
	if err := validateLocals(field+"local_ips", m); err != nil {
		return err
	}
	if m.GetTwiceNatPoolIp() == "" {
		return nil
	}
	switch {
	case m.GetTwiceNat() == vpp_nat.DNat44_StaticMapping_DISABLED:
		return descriptor.Invalid(field+"twice_nat_pool_ip", "set twice_nat to ENABLED or SELF, or leave twice_nat_pool_ip out")
	case len(m.GetLocalIps()) > 1 && m.GetTwiceNat() == vpp_nat.DNat44_StaticMapping_ENABLED:
		return descriptor.Invalid(field+"twice_nat_pool_ip", "mappings with several local addresses take any address of the pool: leave twice_nat_pool_ip out")
	}
	return validIPv4(field+"twice_nat_pool_ip", m.GetTwiceNatPoolIp())
}

func validateLocals(field string, m *staticMapping) error {
	type place struct {
		ip        string
		port, vrf uint32
	}
	seen := make(map[place]bool, len(m.GetLocalIps()))
	for _, l := range m.GetLocalIps() {
		if err := validIPv4(field+".local_ip", l.GetLocalIp()); err != nil {
			return err
		}
		if err := descriptor.ValidPort(field+".local_port", l.GetLocalPort()); err != nil {
			return err
		}
		if l.GetClientIp() != "" {
			if err := validIPv4(field+".client_ip", l.GetClientIp()); err != nil {
				return err
			}
		}
		id := place{l.GetLocalIp(), l.GetLocalPort(), l.GetVrfId()}
		switch {
		case (l.GetLocalPort() == 0) != (m.GetExternalPort() == 0):
			return descriptor.Invalid(field+".local_port", "set both external_port and local_port, or none: then whole addresses are mapped")
		case seen[id]:
			return descriptor.Invalid(field, "%s port %d is in the list twice", l.GetLocalIp(), l.GetLocalPort())
		}
		seen[id] = true
	}
	return nil
}

// normalDNAT sorts lists and sets ineffective fields to their defaults.
func normalDNAT(v *vpp_nat.DNat44) *vpp_nat.DNat44 {
	v = proto.CloneOf(v)
	for _, m := range v.GetStMappings() {
		if m.GetExternalInterface() != "" {
			m.ExternalIp = ""
		}
		if len(m.GetLocalIps()) == 1 {
			m.LocalIps[0].Probability = 0
		}
		if m.GetExternalPort() == 0 { // a whole address has one local address
			m.SessionAffinity = 0
		}
		if m.GetSessionAffinity() == 0 || m.GetAffinityPort() == m.GetExternalPort() {
			m.AffinityPort = 0
		}
		if first := m.GetLocalIps(); len(first) > 1 && !slices.ContainsFunc(first, func(l *localIP) bool { return l.GetProbability() != first[0].GetProbability() }) {
			for _, l := range first {
				l.Probability = 0
			}
		}
		slices.SortFunc(m.GetLocalIps(), func(a, b *localIP) int {
			return cmp.Or(cmp.Compare(a.GetLocalIp(), b.GetLocalIp()), cmp.Compare(a.GetLocalPort(), b.GetLocalPort()), cmp.Compare(a.GetVrfId(), b.GetVrfId()))
		})
	}
	slices.SortFunc(v.GetStMappings(), func(a, b *staticMapping) int {
		return cmp.Or(cmp.Compare(a.GetExternalInterface(), b.GetExternalInterface()), cmp.Compare(a.GetExternalIp(), b.GetExternalIp()),
			cmp.Compare(a.GetExternalPort(), b.GetExternalPort()), cmp.Compare(a.GetProtocol(), b.GetProtocol()), cmp.Compare(a.GetClients(), b.GetClients()))
	})
	slices.SortFunc(v.GetIdMappings(), func(a, b *identityMapping) int {
		return cmp.Or(cmp.Compare(a.GetInterface(), b.GetInterface()), cmp.Compare(a.GetIpAddress(), b.GetIpAddress()),
			cmp.Compare(a.GetPort(), b.GetPort()), cmp.Compare(a.GetProtocol(), b.GetProtocol()), cmp.Compare(a.GetVrfId(), b.GetVrfId()))
	})
	return v
}
