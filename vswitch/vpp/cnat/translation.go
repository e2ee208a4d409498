package cnat

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/ownership"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

// natKey6 is what a translation is for.
type natKey6 struct {
	addr  netip.AddrPort
	proto ip_types.IPProto
}

func (k natKey6) String() string { return fmt.Sprintf("%s of %s", protocols66[k.proto], k.addr) }

func (k natKey6) compare(o natKey6) int {
	return cmp.Or(k.addr.Compare(o.addr), cmp.Compare(k.proto, o.proto))
}

var protocols66 = map[ip_types.IPProto]contiv_nat.DNat66_Protocol{
	ip_types.IP_API_PROTO_TCP: contiv_nat.DNat66_TCP, ip_types.IP_API_PROTO_UDP: contiv_nat.DNat66_UDP, ip_types.IP_API_PROTO_SCTP: contiv_nat.DNat66_SCTP,
}

// translation is a translation of cnat.
//
// VPP has no tags for them. So there are paths beside those to backends which VPP keeps
// and tells, but never uses: their backend is an address of the interface local0, which
// has none, and port markPort. Their sources, 16 bytes each, are the mark: seconds of
// affinity (4 bytes), mode of twice-NAT (1) and, if it is not DISABLED, its address (16),
// then the label.
type translation struct {
	id       uint32 // as VPP gave it; it is no part of what is wanted
	ours     bool   // it has a mark
	label    string
	backends []netip.AddrPort // one for each slot
	affinity uint32
	mode     contiv_nat.DNat66_StaticMapping_TwiceNatMode
	source   netip.Addr
	maglev   bool
}

const (
	local0   = ownership.Index(0)
	markPort = 0x6374
)

func (t *translation) sticky() bool { return t.affinity > 0 }

func (t *translation) equal(o *translation) bool {
	return t.ours == o.ours && t.label == o.label && slices.Equal(t.backends, o.backends) && t.affinity == o.affinity &&
		t.mode == o.mode && t.source == o.source && t.maglev == o.maglev
}

// translationsOf returns what a value asks for.
func translationsOf(value *contiv_nat.DNat66) (map[natKey6]*translation, error) {
	list := map[natKey6]*translation{}
	if err := vswitch.OnlyPlainMappings(vswitch.DNAT66AsDNAT44(value).GetStMappings()); err != nil {
		return nil, err
	}
	for _, m := range value.GetStMappings() {
		key, t, err := translationOf(value.GetLabel(), m)
		if err != nil {
			return nil, err
		}
		list[key] = t
	}
	return list, nil
}

func translationOf(label string, m *contiv_nat.DNat66_StaticMapping) (key natKey6, t *translation, err error) {
	switch {
	case m.GetProtocol() == contiv_nat.DNat66_SCTP:
		return key, nil, vswitch.Unsupported("SCTP (%s port %d): VPP's plugin cnat knows TCP and UDP over IPv6", m.GetExternalIp(), m.GetExternalPort())
	case m.GetTwiceNat() == contiv_nat.DNat66_StaticMapping_ENABLED:
		return key, nil, vswitch.Unsupported("twice_nat ENABLED (%s port %d): VPP's plugin cnat changes sources of all or none of what it forwards; "+
			"leave it out, and only offer local addresses whose answers come back through this vswitch", m.GetExternalIp(), m.GetExternalPort())
	}
	t = &translation{ours: true, label: label, affinity: m.GetSessionAffinity(), mode: m.GetTwiceNat()}
	key.proto = map[contiv_nat.DNat66_Protocol]ip_types.IPProto{contiv_nat.DNat66_TCP: ip_types.IP_API_PROTO_TCP, contiv_nat.DNat66_UDP: ip_types.IP_API_PROTO_UDP}[m.GetProtocol()]
	if key.addr, err = addrPort(m.GetExternalIp(), m.GetExternalPort()); err != nil {
		return key, nil, err
	}
	weights := map[netip.AddrPort]uint32{}
	for _, l := range m.GetLocalIps() {
		b, err := addrPort(l.GetLocalIp(), l.GetLocalPort())
		if err != nil {
			return key, nil, err
		}
		weights[b] = l.GetProbability()
	}
	backends := sortedBackends(weights)
	probabilities := make([]uint32, len(backends))
	for i, b := range backends {
		probabilities[i] = weights[b]
	}
	for _, slot := range vswitch.Slots(probabilities) {
		t.backends = append(t.backends, backends[slot])
	}
	if len(backends) == 1 {
		t.affinity, t.backends = 0, backends
	}
	t.maglev = t.sticky()
	if t.mode != contiv_nat.DNat66_StaticMapping_DISABLED {
		t.source, err = convert.ParseAddr(m.GetTwiceNatIp())
	}
	return key, t, err
}

func sortedBackends(weights map[netip.AddrPort]uint32) []netip.AddrPort {
	var list []netip.AddrPort
	for b := range weights {
		list = append(list, b)
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return list
}

func addrPort(addr string, port uint32) (netip.AddrPort, error) {
	a, err := convert.ParseAddr(addr)
	return netip.AddrPortFrom(a, uint16(port)), err
}

// request returns the request for a translation. The address keeps what else it is for
// (real): an address of an interface still answers. With an affinity, where a client goes
// depends on its address only, in a way in which few clients move when backends change.
func (t *translation) request(key natKey6) *cnat.CnatTranslationUpdate {
	r := cnat.CnatTranslation{Vip: endpoint(key.addr), IPProto: key.proto, IsRealIP: 1}
	if t.sticky() {
		r.LbType, r.FlowHashConfig = cnat.CNAT_LB_TYPE_MAGLEV, ip.IP_API_V2_FLOW_HASH_SRC_IP
	}
	anyone := endpoint(netip.AddrPortFrom(netip.IPv6Unspecified(), 0))
	for _, b := range t.backends {
		r.Paths = append(r.Paths, cnat.CnatEndpointTuple{DstEp: endpoint(b), SrcEp: anyone})
	}
	for _, part := range t.mark() {
		r.Paths = append(r.Paths, cnat.CnatEndpointTuple{
			DstEp: cnat.CnatEndpoint{SwIfIndex: local0, IfAf: ip_types.ADDRESS_IP6, Port: markPort}, SrcEp: endpoint(netip.AddrPortFrom(part, 0)),
		})
	}
	return &cnat.CnatTranslationUpdate{Translation: r}
}

func endpoint(a netip.AddrPort) cnat.CnatEndpoint {
	return cnat.CnatEndpoint{Addr: convert.Address(a.Addr()), SwIfIndex: ownership.NoIndex, IfAf: ip_types.ADDRESS_IP6, Port: a.Port()}
}

func (t *translation) mark() (parts []netip.Addr) {
	data := append(binary.BigEndian.AppendUint32(nil, t.affinity), byte(t.mode))
	if t.mode != contiv_nat.DNat66_StaticMapping_DISABLED {
		data = append(data, t.source.AsSlice()...)
	}
	data = append(data, t.label...)
	for chunk := range slices.Chunk(data, 16) {
		var part [16]byte
		copy(part[:], chunk)
		parts = append(parts, netip.AddrFrom16(part))
	}
	return parts
}

func (t *translation) readMark(data []byte) {
	const fixed = 5
	if len(data) < fixed {
		return
	}
	t.affinity, t.mode, data = binary.BigEndian.Uint32(data), contiv_nat.DNat66_StaticMapping_TwiceNatMode(data[4]), data[fixed:]
	if t.mode != contiv_nat.DNat66_StaticMapping_DISABLED && len(data) >= 16 {
		t.source, data = netip.AddrFrom16([16]byte(data[:16])), data[16:]
	}
	t.ours, t.label = true, string(bytes.TrimRight(data, "\x00"))
}

// readTranslation reads what VPP tells of a translation; it is not ok if it is one of IPv4.
func readTranslation(d *cnat.CnatTranslation) (key natKey6, t *translation, ok bool) {
	addr := convert.Addr(d.Vip.Addr)
	if addr.Is4() {
		return key, nil, false
	}
	key = natKey6{netip.AddrPortFrom(addr, d.Vip.Port), d.IPProto}
	t = &translation{id: d.ID, maglev: d.LbType == cnat.CNAT_LB_TYPE_MAGLEV}
	var mark []byte
	for _, p := range d.Paths {
		if p.DstEp.SwIfIndex == local0 && p.DstEp.Port == markPort {
			part := convert.Addr(p.SrcEp.Addr).As16()
			mark = append(mark, part[:]...)
			continue
		}
		t.backends = append(t.backends, netip.AddrPortFrom(convert.Addr(p.DstEp.Addr), p.DstEp.Port))
	}
	t.readMark(mark)
	return key, t, true
}
