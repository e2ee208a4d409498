package nat

import (
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// dnatValue is a DNat44 or a DNat66 value. This file has all differences between them.
type dnatValue interface {
	proto.Message
	GetLabel() string
}

// staticMapping is a static mapping of a value.
type staticMapping struct {
	mappingFields
	externalInterface string
	protocol          uint8
	scope             natScope
	otherwise         vpp_nat.DNat44_StaticMapping_Otherwise
	twice             vpp_nat.DNat44_StaticMapping_TwiceNatMode
	twiceIP           string
	locals            []localIP
}

// mappingFields are the fields with the same types in both versions.
type mappingFields interface {
	GetExternalIp() string
	GetExternalPort() uint32
	GetSessionAffinity() uint32
	GetAffinityPort() uint32
	GetSourceRanges() []string
	GetMasqueradeOutside() bool
	GetResetRemoved() bool
}

type localIP interface {
	GetLocalIp() string
	GetLocalPort() uint32
	GetProbability() uint32
	GetElsewhere() bool
	GetClientIp() string
}

var protocols = map[vpp_nat.DNat44_Protocol]uint8{
	vpp_nat.DNat44_TCP: unix.IPPROTO_TCP, vpp_nat.DNat44_UDP: unix.IPPROTO_UDP, vpp_nat.DNat44_ICMP: unix.IPPROTO_ICMP,
	vswitch.DNATProtocolSCTP: unix.IPPROTO_SCTP,
}

var protocols6 = map[contiv_nat.DNat66_Protocol]uint8{
	contiv_nat.DNat66_TCP: unix.IPPROTO_TCP, contiv_nat.DNat66_UDP: unix.IPPROTO_UDP, contiv_nat.DNat66_SCTP: unix.IPPROTO_SCTP,
}

func staticMappings(v dnatValue) (list []staticMapping) {
	switch v := v.(type) {
	case *vpp_nat.DNat44:
		for _, m := range v.GetStMappings() {
			list = append(list, staticMapping{
				m, m.GetExternalInterface(), protocols[m.GetProtocol()], scopeOf(int32(m.GetClients())),
				m.GetOtherwise(), m.GetTwiceNat(), m.GetTwiceNatPoolIp(), localsOf(m.GetLocalIps()),
			})
		}
	case *contiv_nat.DNat66:
		for _, m := range v.GetStMappings() {
			list = append(list, staticMapping{
				m, "", protocols6[m.GetProtocol()], scopeOf(int32(m.GetClients())),
				vpp_nat.DNat44_StaticMapping_Otherwise(m.GetOtherwise()), vpp_nat.DNat44_StaticMapping_TwiceNatMode(m.GetTwiceNat()),
				m.GetTwiceNatIp(), localsOf(m.GetLocalIps()),
			})
		}
	}
	return list
}

// scopeOf converts the field clients.
func scopeOf(clients int32) natScope {
	switch vpp_nat.DNat44_StaticMapping_Clients(clients) {
	case vpp_nat.DNat44_StaticMapping_INSIDE:
		return scopeInside
	case vpp_nat.DNat44_StaticMapping_OUTSIDE:
		return scopeOutside
	case vpp_nat.DNat44_StaticMapping_NODE:
		return scopeOwn
	}
	return ""
}

func localsOf[L localIP](list []L) []localIP {
	locals := make([]localIP, len(list))
	for i, l := range list {
		locals[i] = l
	}
	return locals
}

func (f *natFamily) named(label string) dnatValue {
	if f == nat6 {
		return &contiv_nat.DNat66{Label: label}
	}
	return &vpp_nat.DNat44{Label: label}
}

// partOf returns a copy of a value with some of its mappings, by their index in render, and with
// further ones.
func partOf(v dnatValue, kept []int, more ...claimed) dnatValue {
	switch v := proto.Clone(v).(type) {
	case *vpp_nat.DNat44:
		v.IdMappings = at(v.IdMappings, kept, len(v.StMappings))
		v.StMappings = at(v.StMappings, kept, 0)
		for _, c := range more {
			v.StMappings = append(v.StMappings, &vpp_nat.DNat44_StaticMapping{
				ExternalIp: c.ip(), ExternalPort: uint32(c.port), Protocol: enumOf(protocols, c.protocol),
			})
		}
		return v
	case *contiv_nat.DNat66:
		v.StMappings = at(v.StMappings, kept, 0)
		for _, c := range more {
			v.StMappings = append(v.StMappings, &contiv_nat.DNat66_StaticMapping{
				ExternalIp: c.ip(), ExternalPort: uint32(c.port), Protocol: enumOf(protocols6, c.protocol),
			})
		}
		return v
	}
	return v
}

// at returns the elements of a list whose first index is given.
func at[M any](list []M, indices []int, first int) (some []M) {
	for _, i := range indices {
		if i >= first && i < first+len(list) {
			some = append(some, list[i-first])
		}
	}
	return some
}

func enumOf[E comparable](numbers map[E]uint8, number uint8) (e E) {
	for candidate, n := range numbers {
		if n == number {
			e = candidate
		}
	}
	return e
}
