package nat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/ip"
)

// natKey identifies a mapping: connections to an address, by protocol and port. Both are 0 for all
// connections.
type natKey struct {
	addr  netip.Addr
	port  uint16
	proto uint8
}

func (k natKey) wholeAddress() bool { return k.port == 0 }

func (k natKey) String() string {
	if k.wholeAddress() {
		return k.addr.String()
	}
	return fmt.Sprintf("%s port %d of protocol %d", k.addr, k.port, k.proto)
}

type natKind string

const (
	// natStatic has one local address and may set the source of twice-NAT.
	natStatic natKind = "static"
	// natBalanced has a placeholder in addition to its local addresses, because VPP requires two.
	// So a change between one and two local addresses does not replace the mapping, and keeps the
	// other connections.
	natBalanced natKind = "balanced"
	natIdentity natKind = "identity"
)

// natMapping is a mapping in VPP's form.
type natMapping struct {
	kind     natKind
	tag      string // includes affinity and pool
	mode     vpp_nat.DNat44_StaticMapping_TwiceNatMode
	affinity uint32     // in seconds; for a mapping read back, from the tag
	pool     netip.Addr // for twice-NAT; the same
	locals   []natLocal // in order; an identity mapping has VRFs only
}

type natLocal struct {
	addr   netip.Addr
	port   uint16
	vrf    uint32
	weight uint8
}

// placeholder is never selected: its weight is 0.
var placeholder = natLocal{addr: netip.IPv4Unspecified()}

// maxLocals is VPP's limit of local addresses, including the placeholder.
const maxLocals = 255

func (m *natMapping) equal(o *natMapping) bool {
	return m.kind == o.kind && m.tag == o.tag && m.mode == o.mode && slices.Equal(m.locals, o.locals)
}

// affinityMark separates a pool and an affinity in a tag.
const affinityMark = "~"

// readTag sets the fields that only the tag has.
func (m *natMapping) readTag() {
	_, detail := dnatLabel(ownership.TagNames{}, m.tag)
	text, affinityText, both := strings.Cut(detail, affinityMark)
	if pool, err := netip.ParseAddr(text); err == nil {
		m.pool = pool
	} else if !both {
		affinityText = text
	}
	if affinity, err := strconv.ParseUint(affinityText, 10, 32); err == nil {
		m.affinity = uint32(affinity)
	}
}

func (m *natMapping) sort() {
	slices.SortFunc(m.locals, func(a, b natLocal) int {
		return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.port, b.port), cmp.Compare(a.vrf, b.vrf))
	})
}

var natProtocols = map[vpp_nat.DNat44_Protocol]uint8{
	vpp_nat.DNat44_TCP: vswitch.ProtocolTCP, vpp_nat.DNat44_UDP: vswitch.ProtocolUDP, vpp_nat.DNat44_ICMP: vswitch.ProtocolICMP,
}

func natProtocol(number uint8) vpp_nat.DNat44_Protocol {
	for p, n := range natProtocols {
		if n == number {
			return p
		}
	}
	return vpp_nat.DNat44_TCP
}

// renderDNAT returns the mappings of a value.
func (v *NAT) renderDNAT(ctx context.Context, value *vpp_nat.DNat44) (map[natKey]*natMapping, error) {
	result := map[natKey]*natMapping{}
	if err := vswitch.OnlyPlainMappings(value.GetStMappings()); err != nil {
		return nil, err
	}
	for _, m := range value.GetStMappings() {
		if m.GetProtocol() == vpp_nat.DNat44_SCTP {
			return nil, vswitch.Unsupported("SCTP (%s port %d): VPP's plugin nat44-ed balances TCP and UDP", m.GetExternalIp(), m.GetExternalPort())
		}
		mapping, err := staticMapping(value.GetLabel(), m)
		if err != nil {
			return nil, err
		}
		keys, err := v.natKeys(ctx, m.GetExternalInterface(), m.GetExternalIp(), m.GetExternalPort(), m.GetProtocol())
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if result[key] != nil {
				return nil, fmt.Errorf("two mappings for %s", key)
			}
			result[key] = mapping
		}
	}
	for _, m := range value.GetIdMappings() {
		keys, err := v.natKeys(ctx, m.GetInterface(), m.GetIpAddress(), m.GetPort(), m.GetProtocol())
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			identity := result[key]
			switch {
			case identity == nil:
				identity = &natMapping{kind: natIdentity, tag: dnatTag(value.GetLabel(), "")}
				result[key] = identity
			case identity.kind != natIdentity:
				return nil, fmt.Errorf("a mapping and an identity for %s", key)
			}
			identity.locals = append(identity.locals, natLocal{vrf: m.GetVrfId()})
			identity.sort()
		}
	}
	return result, nil
}

// natKeys returns the keys of a mapping: for an address, or all addresses of an interface.
func (v *NAT) natKeys(ctx context.Context, iface, addr string, port uint32, proto vpp_nat.DNat44_Protocol) ([]natKey, error) {
	if port == 0 && proto == vpp_nat.DNat44_ICMP {
		return nil, vswitch.Unsupported("VPP maps ICMP only together with all else of an address: leave the protocol out, with ports 0")
	}
	key := natKey{port: uint16(port), proto: natProtocols[proto]}
	if port == 0 {
		key.proto = 0
	}
	if iface == "" {
		a, err := convert.ParseAddr(addr)
		key.addr = a
		return []natKey{key}, err
	}
	index, err := v.ifs.Index(ctx, iface)
	if err != nil {
		return nil, err
	}
	found, err := session.Dump[ip.IPAddressDetails](ctx, v.vpp, natAddressModule, &ip.IPAddressDump{SwIfIndex: index})
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of interface %q: %w", iface, err)
	}
	var keys []natKey
	for _, d := range found {
		key.addr = convert.Addr(d.Prefix.Address)
		keys = append(keys, key)
	}
	return keys, nil
}

func staticMapping(label string, m *vpp_nat.DNat44_StaticMapping) (*natMapping, error) {
	mapping := &natMapping{kind: natBalanced, mode: m.GetTwiceNat()}
	detail := ""
	switch affinity := m.GetSessionAffinity(); {
	case m.GetTwiceNatPoolIp() != "":
		pool, err := convert.ParseAddr(m.GetTwiceNatPoolIp())
		if err != nil {
			return nil, err
		}
		mapping.kind, mapping.pool, detail = natStatic, pool, pool.String()
		if affinity > 0 {
			mapping.affinity, detail = affinity, fmt.Sprint(detail, affinityMark, affinity)
		}
	case m.GetExternalPort() == 0:
		mapping.kind = natStatic
	case affinity > 0:
		mapping.affinity, detail = affinity, fmt.Sprint(affinity)
	}
	mapping.tag = dnatTag(label, detail)
	weights, err := natWeights(m.GetLocalIps())
	if err != nil {
		return nil, err
	}
	for i, l := range m.GetLocalIps() {
		addr, err := convert.ParseAddr(l.GetLocalIp())
		if err != nil {
			return nil, err
		}
		local := natLocal{addr: addr, port: uint16(l.GetLocalPort()), vrf: l.GetVrfId()}
		if mapping.kind == natBalanced {
			local.weight = weights[i]
		}
		mapping.locals = append(mapping.locals, local)
	}
	switch {
	case mapping.kind == natBalanced:
		mapping.locals = append(mapping.locals, placeholder)
	case len(mapping.locals) != 1:
		return nil, errors.New("several local addresses for one without ports")
	}
	mapping.sort()
	return mapping, nil
}

// natWeights returns the weights of local addresses, whose sum VPP stores in a byte.
func natWeights(locals []*vpp_nat.DNat44_StaticMapping_LocalIP) ([]uint8, error) {
	if len(locals) >= maxLocals {
		return nil, vswitch.Unsupported("VPP distributes connections to %d local addresses at most", maxLocals-1)
	}
	probabilities := make([]uint32, len(locals))
	for i, l := range locals {
		probabilities[i] = l.GetProbability()
	}
	counts := make([]int, len(locals))
	slots := vswitch.Slots(probabilities)
	for _, i := range slots {
		counts[i]++
	}
	const most = 255
	sum := 0
	for i, n := range counts {
		if len(slots) > most && n > 0 {
			counts[i] = max(n*most/len(slots), 1)
		}
		sum += counts[i]
	}
	for ; sum > most; sum-- { // of many, each keeps at least one
		largest := slices.Index(counts, slices.Max(counts))
		counts[largest]--
	}
	weights := make([]uint8, len(locals))
	for i, n := range counts {
		weights[i] = uint8(n)
	}
	return weights, nil
}
