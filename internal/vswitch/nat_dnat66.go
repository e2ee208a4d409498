package vswitch

import (
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
)

// CanonicalAddr returns the canonical text of an address.
func CanonicalAddr(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return addr.String()
}

// DNATProtocolSCTP is our extension of the original protocols.
const DNATProtocolSCTP = vpp_nat.DNat44_SCTP

var dnat66Protocols = map[contiv_nat.DNat66_Protocol]vpp_nat.DNat44_Protocol{
	contiv_nat.DNat66_TCP: vpp_nat.DNat44_TCP, contiv_nat.DNat66_UDP: vpp_nat.DNat44_UDP, contiv_nat.DNat66_SCTP: DNATProtocolSCTP,
}

// DNATProtocolName returns the display name of a protocol of DNat44 or DNat66.
func DNATProtocolName(p vpp_nat.DNat44_Protocol) string {
	return p.String()
}

// DNAT66AsDNAT44 converts to a DNat44 value with canonical IPv6 addresses, for drivers that handle
// both alike. If twice_nat is SELF, twice_nat_pool_ip holds the address, too.
func DNAT66AsDNAT44(v *contiv_nat.DNat66) *vpp_nat.DNat44 {
	out := &vpp_nat.DNat44{Label: v.GetLabel()}
	for _, m := range v.GetStMappings() {
		mapped := &vpp_nat.DNat44_StaticMapping{
			ExternalIp: CanonicalAddr(m.GetExternalIp()), ExternalPort: m.GetExternalPort(), Protocol: dnat66Protocols[m.GetProtocol()],
			SessionAffinity: m.GetSessionAffinity(), TwiceNat: vpp_nat.DNat44_StaticMapping_TwiceNatMode(m.GetTwiceNat()),
		}
		if m.GetTwiceNat() != contiv_nat.DNat66_StaticMapping_DISABLED {
			mapped.TwiceNatPoolIp = CanonicalAddr(m.GetTwiceNatIp())
		}
		for _, l := range m.GetLocalIps() {
			mapped.LocalIps = append(mapped.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: CanonicalAddr(l.GetLocalIp()), LocalPort: l.GetLocalPort(), Probability: l.GetProbability(), Elsewhere: l.GetElsewhere(), ClientIp: CanonicalAddr(l.GetClientIp())})
		}
		mapped.Clients = vpp_nat.DNat44_StaticMapping_Clients(m.GetClients())
		mapped.Otherwise = vpp_nat.DNat44_StaticMapping_Otherwise(m.GetOtherwise())
		mapped.SourceRanges, mapped.MasqueradeOutside, mapped.ResetRemoved = m.GetSourceRanges(), m.GetMasqueradeOutside(), m.GetResetRemoved()
		mapped.AffinityPort = m.GetAffinityPort()
		out.StMappings = append(out.StMappings, mapped)
	}
	return out
}

// DNAT66FromDNAT44 is the inverse of DNAT66AsDNAT44.
func DNAT66FromDNAT44(v *vpp_nat.DNat44) *contiv_nat.DNat66 {
	out := &contiv_nat.DNat66{Label: v.GetLabel()}
	for _, m := range v.GetStMappings() {
		mapped := &contiv_nat.DNat66_StaticMapping{
			ExternalIp: m.GetExternalIp(), ExternalPort: m.GetExternalPort(), SessionAffinity: m.GetSessionAffinity(),
			TwiceNat: contiv_nat.DNat66_StaticMapping_TwiceNatMode(m.GetTwiceNat()), TwiceNatIp: m.GetTwiceNatPoolIp(),
		}
		for mine, theirs := range dnat66Protocols {
			if theirs == m.GetProtocol() {
				mapped.Protocol = mine
			}
		}
		for _, l := range m.GetLocalIps() {
			mapped.LocalIps = append(mapped.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{LocalIp: l.GetLocalIp(), LocalPort: l.GetLocalPort(), Probability: l.GetProbability(), Elsewhere: l.GetElsewhere(), ClientIp: l.GetClientIp()})
		}
		mapped.Clients = contiv_nat.DNat66_StaticMapping_Clients(m.GetClients())
		mapped.Otherwise = contiv_nat.DNat66_StaticMapping_Otherwise(m.GetOtherwise())
		mapped.SourceRanges, mapped.MasqueradeOutside, mapped.ResetRemoved = m.GetSourceRanges(), m.GetMasqueradeOutside(), m.GetResetRemoved()
		mapped.AffinityPort = m.GetAffinityPort()
		out.StMappings = append(out.StMappings, mapped)
	}
	return out
}

// AffinityPort returns the port of a mapping's session affinity. Mappings of a value with the same
// port and protocol share their clients.
func AffinityPort(m *vpp_nat.DNat44_StaticMapping) uint32 {
	if m.GetAffinityPort() != 0 {
		return m.GetAffinityPort()
	}
	return m.GetExternalPort()
}
