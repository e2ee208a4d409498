package cnat

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

// family is an IP version: 0 is IPv4, 1 is IPv6.
type family int

const (
	v4 family = iota
	v6
)

// String is the model of its values.
func (f family) String() string { return [...]string{"DNAT44", "DNAT66"}[f] }

func (f family) api() ip_types.AddressFamily { return convert.Family(f == v6) }

func (f family) other() family { return v4 + v6 - f }

func familyOf(a netip.Addr) family {
	if a.Is6() {
		return v6
	}
	return v4
}

// refuser lists unassigned addresses. While a ServiceNetwork exists, packets to them are answered
// with an ICMP error.
var refuser = [...]netip.Addr{v4: fibpath.Refuser(false), v6: fibpath.Refuser(true)}

// anyClient stands for the client's own address.
var anyClient = [...]netip.Addr{v4: netip.IPv4Unspecified(), v6: netip.IPv6Unspecified()}

// natKey identifies a translation.
type natKey struct {
	addr  netip.AddrPort
	proto ip_types.IPProto
}

func (k natKey) String() string { return fmt.Sprintf("%s of %s", protocols[k.proto], k.addr) }

func (k natKey) compare(o natKey) int {
	return cmp.Or(k.addr.Compare(o.addr), cmp.Compare(k.proto, o.proto))
}

var protocols = map[ip_types.IPProto]contiv_nat.DNat66_Protocol{
	ip_types.IP_API_PROTO_TCP: contiv_nat.DNat66_TCP, ip_types.IP_API_PROTO_UDP: contiv_nat.DNat66_UDP, ip_types.IP_API_PROTO_SCTP: contiv_nat.DNat66_SCTP,
}

// translation is a translation of cnat.
//
// VPP has no tags for translations. So each address and port with our translations also has a
// record: a translation of the same address and port for an unused protocol (recordProto). Its
// backends are the refuser, with a protocol as port. Their sources, 16 bytes each, are the mark of
// that protocol's translation: seconds of affinity (4 bytes), mode of twice-NAT (1), plus
// refuseMark if it refuses packets and resetMark, and, if the mode is not DISABLED, its address
// (16), then the label. A record is created before its translations and deleted after them.
//
// (Unused backends without address, of an interface that has none, could hold the mark in the
// translation itself. But whenever a translation changes, cnat_translation_unwatch_addr visits all
// interface backends.)
type translation struct {
	id       uint32 // assigned by VPP; not compared
	absent   bool   // only its mark exists
	ours     bool   // it has a mark
	label    string
	backends []netip.AddrPort // one for each slot
	affinity uint32
	mode     contiv_nat.DNat66_StaticMapping_TwiceNatMode
	source   netip.Addr
	maglev   bool
	refuse   bool // without backend
	reset    bool // connections to removed backends are reset
	// hide: backends see the source instead of external clients' addresses. The paths contain it.
	hide bool
}

const (
	recordProto = ip_types.IP_API_PROTO_RESERVED
	// local0 has no address, so a backend there receives nothing.
	local0     = ownership.Index(0)
	markPort   = 0x6374
	refuseMark = 0x80
	resetMark  = 0x40
)

func (t *translation) sticky() bool { return t.affinity > 0 }

func (t *translation) equal(o *translation) bool {
	return t.absent == o.absent && t.ours == o.ours && t.label == o.label && slices.Equal(t.backends, o.backends) && t.affinity == o.affinity &&
		t.mode == o.mode && t.source == o.source && t.maglev == o.maglev && t.refuse == o.refuse && t.reset == o.reset && t.hide == o.hide
}

// translationsOf returns the translations of a value.
func translationsOf(f family, value *value) (map[natKey]*translation, error) {
	list := map[natKey]*translation{}
	for _, m := range value.GetStMappings() {
		key, t, err := translationOf(f, value.GetLabel(), m)
		if err != nil {
			return nil, err
		}
		list[key] = t
	}
	return list, nil
}

// unsupported returns why cnat does not support a mapping.
func unsupported(f family, m *contiv_nat.DNat66_StaticMapping) error {
	what := fmt.Sprintf("%s port %d: VPP's plugin cnat ", m.GetExternalIp(), m.GetExternalPort())
	switch {
	case m.GetProtocol() == contiv_nat.DNat66_SCTP && f == v6:
		return vswitch.Unsupported("SCTP (%sknows TCP and UDP over IPv6)", what)
	case m.GetTwiceNat() == contiv_nat.DNat66_StaticMapping_ENABLED:
		return vswitch.Unsupported("twice_nat ENABLED (%schanges the sources of all packets or of none); "+
			"omit it, and use only local addresses that reply through this vswitch", what)
	case m.GetClients() != contiv_nat.DNat66_StaticMapping_ALL:
		return vswitch.Unsupported("mappings for clients %v only (%sdoes not distinguish clients); use ALL", m.GetClients(), what)
	case m.GetMasqueradeOutside() && m.GetTwiceNatIp() == "" && len(m.GetLocalIps()) > 0:
		return vswitch.Unsupported("masquerade_outside without an address (%shas none of its own): set twice_nat SELF and the address for it", what)
	case len(m.GetSourceRanges()) > 0:
		return vswitch.Unsupported("source_ranges (%sdoes not look at the source); use config/contiv/guard/v1/source-ranges, and access lists on interfaces to clients outside", what)
	case len(m.GetLocalIps()) == 0 && m.GetOtherwise() == contiv_nat.DNat66_StaticMapping_DROP:
		return vswitch.Unsupported("otherwise DROP (%shas no translation that drops); use REFUSE, or leave the mapping out", what)
	}
	return nil
}

func translationOf(f family, label string, m *contiv_nat.DNat66_StaticMapping) (key natKey, t *translation, err error) {
	if err := unsupported(f, m); err != nil {
		return key, nil, err
	}
	t = &translation{ours: true, label: label, affinity: m.GetSessionAffinity(), mode: m.GetTwiceNat(), refuse: len(m.GetLocalIps()) == 0}
	t.hide, t.reset = m.GetMasqueradeOutside() && !t.refuse, m.GetResetRemoved()
	for number, p := range protocols {
		if p == m.GetProtocol() {
			key.proto = number
		}
	}
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
	switch {
	case len(backends) == 1:
		t.backends = backends
	case t.refuse && key.proto != ip_types.IP_API_PROTO_UDP:
		// UDP has no backend: a session would keep a client away from the first backend that
		// appears. Packets follow the routes.
		t.affinity, t.backends = 0, []netip.AddrPort{netip.AddrPortFrom(refuser[f], key.addr.Port())}
	case t.refuse:
		t.affinity = 0
	}
	t.maglev = t.sticky()
	if m.GetTwiceNatIp() != "" {
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

// request returns the request for a translation. With real, the address keeps its other functions:
// an interface's address still answers. With an affinity, the backend depends only on the client's
// address, and few clients move when backends change.
func (t *translation) request(key natKey) *cnat.CnatTranslationUpdate {
	f := familyOf(key.addr.Addr())
	r := cnat.CnatTranslation{Vip: endpoint(key.addr), IPProto: key.proto, IsRealIP: 1}
	if t.sticky() {
		r.LbType, r.FlowHashConfig = cnat.CNAT_LB_TYPE_MAGLEV, ip.IP_API_V2_FLOW_HASH_SRC_IP
	}
	client := anyClient[f]
	if t.hide {
		client = t.source
		if key.proto != ip_types.IP_API_PROTO_SCTP { // cnat has no ports to give
			r.Flags = uint8(cnat.CNAT_TRANSLATION_ALLOC_PORT)
		}
	}
	for _, b := range t.backends {
		r.Paths = append(r.Paths, cnat.CnatEndpointTuple{DstEp: endpoint(b), SrcEp: endpoint(netip.AddrPortFrom(client, 0))})
	}
	if len(r.Paths) == 0 { // VPP does not survive that
		r.Paths = append(r.Paths, nowhere(f))
	}
	return &cnat.CnatTranslationUpdate{Translation: r}
}

// nowhere is a backend that receives nothing.
func nowhere(f family) cnat.CnatEndpointTuple {
	return cnat.CnatEndpointTuple{DstEp: cnat.CnatEndpoint{SwIfIndex: local0, IfAf: f.api(), Port: markPort}, SrcEp: endpoint(netip.AddrPortFrom(anyClient[f], 0))}
}

func isNowhere(p cnat.CnatEndpointTuple) bool {
	return p.DstEp.SwIfIndex == local0 && p.DstEp.Port == markPort
}

func endpoint(a netip.AddrPort) cnat.CnatEndpoint {
	return cnat.CnatEndpoint{Addr: convert.Address(a.Addr()), SwIfIndex: ownership.NoIndex, IfAf: familyOf(a.Addr()).api(), Port: a.Port()}
}

// marksAs reports whether the marks are equal.
func (t *translation) marksAs(o *translation) bool { return slices.Equal(t.mark(), o.mark()) }

func (t *translation) mark() (parts []netip.Addr) {
	flags := byte(t.mode)
	if t.refuse {
		flags |= refuseMark
	}
	if t.reset {
		flags |= resetMark
	}
	data := append(binary.BigEndian.AppendUint32(nil, t.affinity), flags)
	if t.mode != contiv_nat.DNat66_StaticMapping_DISABLED {
		source := netip.IPv6Unspecified()
		if t.source.IsValid() {
			source = t.source
		}
		as16 := source.As16()
		data = append(data, as16[:]...)
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
	flags := data[4]
	t.affinity, t.refuse, t.reset = binary.BigEndian.Uint32(data), flags&refuseMark != 0, flags&resetMark != 0
	t.mode, data = contiv_nat.DNat66_StaticMapping_TwiceNatMode(flags&^(refuseMark|resetMark)), data[fixed:]
	if t.mode != contiv_nat.DNat66_StaticMapping_DISABLED && len(data) >= 16 {
		if source := netip.AddrFrom16([16]byte(data[:16])); !source.IsUnspecified() {
			t.source = source.Unmap()
		}
		data = data[16:]
	}
	t.ours, t.label = true, string(bytes.TrimRight(data, "\x00"))
}

// readTranslation decodes a translation from VPP.
func readTranslation(d *cnat.CnatTranslation) (key natKey, t *translation) {
	key = natKey{netip.AddrPortFrom(convert.Addr(d.Vip.Addr), d.Vip.Port), d.IPProto}
	t = &translation{id: d.ID, maglev: d.LbType == cnat.CNAT_LB_TYPE_MAGLEV}
	for _, p := range d.Paths {
		if isNowhere(p) {
			continue
		}
		t.backends = append(t.backends, netip.AddrPortFrom(convert.Addr(p.DstEp.Addr), p.DstEp.Port))
		t.hide = !convert.Addr(p.SrcEp.Addr).IsUnspecified()
	}
	return key, t
}

// readRecord adds the marks of a record's translations.
func readRecord(d *cnat.CnatTranslation, at netip.AddrPort, marks map[natKey][]byte) {
	for _, p := range d.Paths {
		if isNowhere(p) {
			continue
		}
		key := natKey{at, ip_types.IPProto(p.DstEp.Port)}
		part := convert.Addr(p.SrcEp.Addr).As16()
		marks[key] = append(marks[key], part[:]...)
	}
}
