package vswitch

import (
	"context"
	"fmt"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// DNAT66 is the translation of destinations of IPv6 packets, whichever interface they
// enter through, and of those that the node itself sends if Capabilities.HostStackShared
// says that it can.
type DNAT66 interface {
	// Set makes or changes the mappings of values, all of them or none. An address with
	// protocol and port has one mapping: a second one is an error.
	//
	// A connection goes to one of the local addresses, each with its probability (see
	// Slots), and stays there; session affinity, and what becomes of connections when a
	// mapping changes, are as for NAT.SetDNAT. With twice_nat, the local address sees
	// twice_nat_ip as the client.
	Set(ctx context.Context, values ...*contiv_nat.DNat66) error
	// Remove removes the mappings of values, by their labels.
	Remove(ctx context.Context, values ...*contiv_nat.DNat66) error
	// List returns all values; what is missing or damaged differs from what is expected.
	List(ctx context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error)
}

type staticMapping66 = contiv_nat.DNat66_StaticMapping

// dnat66Descriptor handles config/contiv/nat/v1/dnat66/{label}.
func dnat66Descriptor(port DNAT66) kvscheduler.Descriptor[*contiv_nat.DNat66, noMeta] {
	set := func(ctx context.Context, v *contiv_nat.DNat66) error { return port.Set(ctx, v) }
	remove1 := func(ctx context.Context, v *contiv_nat.DNat66) error { return port.Remove(ctx, v) }
	return kvscheduler.Descriptor[*contiv_nat.DNat66, noMeta]{
		Name:     DNAT66Descriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.DNAT66.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *contiv_nat.DNat66) error { return validateDNAT66(v) },
		Equivalent: func(_ string, old, new *contiv_nat.DNat66) bool {
			return proto.Equal(old, new) || proto.Equal(normalDNAT(DNAT66AsDNAT44(old)), normalDNAT(DNAT66AsDNAT44(new)))
		},
		Create: create(set),
		Update: update(func(ctx context.Context, _, new *contiv_nat.DNat66) error { return port.Set(ctx, new) }),
		Delete: remove(remove1),
		CreateBatch: func(ctx context.Context, items []item[*contiv_nat.DNat66]) ([]noMeta, []error) {
			return make([]noMeta, len(items)), natBatch(ctx, valuesOf(items), port.Set)
		},
		DeleteBatch: func(ctx context.Context, items []item[*contiv_nat.DNat66]) []error {
			return natBatch(ctx, valuesOf(items), port.Remove)
		},
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor},
	}
}

func validateDNAT66(v *contiv_nat.DNat66) error {
	if v.GetLabel() == "" {
		return invalid("label", "a DNat66 value needs a label")
	}
	seen := map[string]bool{}
	for i, m := range v.GetStMappings() {
		if err := validateStatic66(fmt.Sprintf("st_mappings[%d].", i), m, seen); err != nil {
			return err
		}
	}
	return nil
}

func validateStatic66(field string, m *staticMapping66, seen map[string]bool) error {
	if err := firstError(validUnicast6(field+"external_ip", m.GetExternalIp()), validPort66(field+"external_port", m.GetExternalPort())); err != nil {
		return err
	}
	id := fmt.Sprint(canonicalAddr(m.GetExternalIp()), " ", m.GetExternalPort(), m.GetProtocol()) + ofClients(int32(m.GetClients()))
	switch {
	case contiv_nat.DNat66_Protocol_name[int32(m.GetProtocol())] == "":
		return invalid(field+"protocol", "there is no protocol %d: use TCP, UDP or SCTP", m.GetProtocol())
	case contiv_nat.DNat66_StaticMapping_TwiceNatMode_name[int32(m.GetTwiceNat())] == "":
		return invalid(field+"twice_nat", "there is no mode %d: use DISABLED, ENABLED or SELF", m.GetTwiceNat())
	case seen[id]:
		return invalid(field+"external_port", "two mappings have the same external address, port and protocol: put their local_ips into one")
	case len(m.GetLocalIps()) == 0 && m.GetOtherwise() == contiv_nat.DNat66_StaticMapping_NEEDED:
		return invalid(field+"local_ips", "a static mapping needs a local address: leave the mapping out while there is none, or set otherwise")
	}
	seen[id] = true
	if err := validClients(field, clientsAndRest66(m), id, seen); err != nil {
		return err
	}
	locals := map[string]bool{}
	for _, l := range m.GetLocalIps() {
		if err := firstError(validUnicast6(field+"local_ips.local_ip", l.GetLocalIp()), validPort66(field+"local_ips.local_port", l.GetLocalPort())); err != nil {
			return err
		}
		id := fmt.Sprint(canonicalAddr(l.GetLocalIp()), " ", l.GetLocalPort())
		if locals[id] {
			return invalid(field+"local_ips", "%s port %d is in the list twice", l.GetLocalIp(), l.GetLocalPort())
		}
		locals[id] = true
	}
	switch none := m.GetTwiceNat() == contiv_nat.DNat66_StaticMapping_DISABLED; {
	case none && m.GetTwiceNatIp() != "":
		return invalid(field+"twice_nat_ip", "set twice_nat to ENABLED or SELF, or leave twice_nat_ip out")
	case none:
		return nil
	case m.GetTwiceNatIp() == "":
		return invalid(field+"twice_nat_ip", "twice_nat %v needs the address that clients are seen with", m.GetTwiceNat())
	}
	return validUnicast6(field+"twice_nat_ip", m.GetTwiceNatIp())
}

func validUnicast6(field, text string) error {
	if err := validAddr(field, text); err != nil {
		return err
	}
	switch addr := netip.MustParseAddr(text); {
	case addr.Is4() || addr.Is4In6():
		return invalid(field, "%s is an IPv4 address: those are translated by DNat44", text)
	case addr.Zone() != "" || addr.IsMulticast() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsLoopback():
		return invalid(field, "%s is no address that packets are routed to: use one that is, such as fd00::1", text)
	}
	return nil
}

func validPort66(field string, port uint32) error {
	if port == 0 {
		return invalid(field, "give a port from 1 to 65535: ports are mapped, not whole addresses")
	}
	return validPort(field, port)
}

// canonicalAddr is the usual text of an address.
func canonicalAddr(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return addr.String()
}

// DNATProtocolSCTP is a protocol that the original does not have.
const DNATProtocolSCTP = vpp_nat.DNat44_SCTP

var dnat66Protocols = map[contiv_nat.DNat66_Protocol]vpp_nat.DNat44_Protocol{
	contiv_nat.DNat66_TCP: vpp_nat.DNat44_TCP, contiv_nat.DNat66_UDP: vpp_nat.DNat44_UDP, contiv_nat.DNat66_SCTP: DNATProtocolSCTP,
}

// DNATProtocolName is how people call a protocol of DNat44 or DNat66.
func DNATProtocolName(p vpp_nat.DNat44_Protocol) string {
	return p.String()
}

// DNAT66AsDNAT44 is the same as a DNat44 value with IPv6 addresses, in their usual form:
// for drivers that handle both alike. Of a twice_nat that is SELF, the address is in
// twice_nat_pool_ip as well.
func DNAT66AsDNAT44(v *contiv_nat.DNat66) *vpp_nat.DNat44 {
	out := &vpp_nat.DNat44{Label: v.GetLabel()}
	for _, m := range v.GetStMappings() {
		mapped := &staticMapping{
			ExternalIp: canonicalAddr(m.GetExternalIp()), ExternalPort: m.GetExternalPort(), Protocol: dnat66Protocols[m.GetProtocol()],
			SessionAffinity: m.GetSessionAffinity(), TwiceNat: vpp_nat.DNat44_StaticMapping_TwiceNatMode(m.GetTwiceNat()),
		}
		if m.GetTwiceNat() != contiv_nat.DNat66_StaticMapping_DISABLED {
			mapped.TwiceNatPoolIp = canonicalAddr(m.GetTwiceNatIp())
		}
		for _, l := range m.GetLocalIps() {
			mapped.LocalIps = append(mapped.LocalIps, &localIP{LocalIp: canonicalAddr(l.GetLocalIp()), LocalPort: l.GetLocalPort(), Probability: l.GetProbability(), Elsewhere: l.GetElsewhere()})
		}
		mapped.Clients = vpp_nat.DNat44_StaticMapping_Clients(m.GetClients())
		mapped.Otherwise = vpp_nat.DNat44_StaticMapping_Otherwise(m.GetOtherwise())
		mapped.SourceRanges, mapped.MasqueradeOutside = m.GetSourceRanges(), m.GetMasqueradeOutside()
		out.StMappings = append(out.StMappings, mapped)
	}
	return out
}

// DNAT66FromDNAT44 is the inverse of DNAT66AsDNAT44.
func DNAT66FromDNAT44(v *vpp_nat.DNat44) *contiv_nat.DNat66 {
	out := &contiv_nat.DNat66{Label: v.GetLabel()}
	for _, m := range v.GetStMappings() {
		mapped := &staticMapping66{
			ExternalIp: m.GetExternalIp(), ExternalPort: m.GetExternalPort(), SessionAffinity: m.GetSessionAffinity(),
			TwiceNat: contiv_nat.DNat66_StaticMapping_TwiceNatMode(m.GetTwiceNat()), TwiceNatIp: m.GetTwiceNatPoolIp(),
		}
		for mine, theirs := range dnat66Protocols {
			if theirs == m.GetProtocol() {
				mapped.Protocol = mine
			}
		}
		for _, l := range m.GetLocalIps() {
			mapped.LocalIps = append(mapped.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{LocalIp: l.GetLocalIp(), LocalPort: l.GetLocalPort(), Probability: l.GetProbability(), Elsewhere: l.GetElsewhere()})
		}
		mapped.Clients = contiv_nat.DNat66_StaticMapping_Clients(m.GetClients())
		mapped.Otherwise = contiv_nat.DNat66_StaticMapping_Otherwise(m.GetOtherwise())
		mapped.SourceRanges, mapped.MasqueradeOutside = m.GetSourceRanges(), m.GetMasqueradeOutside()
		out.StMappings = append(out.StMappings, mapped)
	}
	return out
}
