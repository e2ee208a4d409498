package nat

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"golang.org/x/sys/unix"
)

type mapping struct {
	// claims are the elements that carry the label. Each belongs to one value only.
	claims  []nft.Element
	parts   []nft.Element
	classes []natClass
}

type addressesOf func(iface string) ([]netip.Addr, error)

func (v dnat) render(value dnatValue) ([]mapping, error) {
	return v.family.render(value, v.natAddresses)
}

// render returns the kernel form of each mapping: first static mappings, then identities.
func (f *natFamily) render(v dnatValue, addrs addressesOf) ([]mapping, error) {
	var list []mapping
	for _, st := range staticMappings(v) {
		externals, err := externalsOf(st.externalInterface, st.GetExternalIp(), addrs)
		if err != nil {
			return nil, err
		}
		var m mapping
		for _, external := range externals {
			if err := m.static(f, v.GetLabel(), external, st); err != nil {
				return nil, err
			}
		}
		list = append(list, m)
	}
	f.addElsewhere(list)
	v4, _ := v.(*vpp_nat.DNat44)
	for _, id := range v4.GetIdMappings() {
		externals, err := externalsOf(id.GetInterface(), id.GetIpAddress(), addrs)
		if err != nil {
			return nil, err
		}
		var m mapping
		for _, addr := range externals {
			m.claims = append(m.claims, identity(v.GetLabel(), addr, id))
		}
		list = append(list, m)
	}
	return list, nil
}

// addElsewhere adds, to services with session affinity, the backends that only other services of
// their port have.
func (f *natFamily) addElsewhere(list []mapping) {
	portOf, offered := map[string]string{}, map[string]map[string]bool{}
	each := func(m mapping, prefix string, do func(service string, e nft.Element)) {
		for _, e := range m.parts {
			if strings.HasPrefix(e.Set, prefix) {
				do(e.Key[:f.serviceLength()], e)
			}
		}
	}
	for _, m := range list {
		each(m, prefixPort, func(service string, e nft.Element) {
			port := e.Data[len(native32(0)):]
			portOf[service], offered[port] = port, map[string]bool{}
		})
	}
	for _, m := range list {
		each(m, prefixUsable, func(service string, e nft.Element) { offered[portOf[service]][e.Key[f.serviceLength():]] = true })
	}
	for i, m := range list {
		usable := map[string]bool{}
		each(m, prefixUsable, func(_ string, e nft.Element) { usable[e.Key] = true })
		each(m, prefixPort, func(service string, _ nft.Element) {
			for backend := range offered[portOf[service]] {
				if !usable[service+backend] {
					list[i].parts = append(list[i].parts, nft.Element{Set: setElsewhere, Key: service + backend})
				}
			}
		})
	}
}

func externalsOf(iface, addr string, addrs addressesOf) ([]netip.Addr, error) {
	if iface != "" {
		return addrs(iface)
	}
	a, err := netip.ParseAddr(addr)
	return []netip.Addr{a}, err
}

// Keys and data are consecutive registers of four bytes.

func addrKey(a netip.Addr) string { return string(a.AsSlice()) }

func protocolKey(a netip.Addr, proto uint8) string {
	return addrKey(a) + string([]byte{proto, 0, 0, 0})
}

func portKey(p uint16) string { return string([]byte{byte(p >> 8), byte(p), 0, 0}) }

func serviceKey(a netip.Addr, proto uint8, p uint16) string {
	return protocolKey(a, proto) + portKey(p)
}

// valuePortKey returns the key of a port of a value, for all its addresses. apart selects the key
// for clients of a scope (1, …) with an unusable backend of the port. If two values have the same
// hash and port, a client is apart at the one that it uses second.
func valuePortKey(label string, proto uint8, p uint16, apart int) string {
	hash := fnv.New32a()
	hash.Write([]byte(label))
	return string(hash.Sum(nil)) + string([]byte{proto, 0, 0, byte(apart)}) + portKey(p)
}

func backendKey(b netip.AddrPort) string { return addrKey(b.Addr()) + portKey(b.Port()) }

func identity(label string, addr netip.Addr, id *vpp_nat.DNat44_IdentityMapping) nft.Element {
	proto := protocols[id.GetProtocol()]
	switch {
	case id.GetPort() != 0:
		return nft.Element{Set: setIdentity, Key: serviceKey(addr, proto, uint16(id.GetPort())), Comment: label}
	case proto == unix.IPPROTO_ICMP:
		return nft.Element{Set: setIdentityProto, Key: protocolKey(addr, proto), Comment: label}
	}
	return nft.Element{Set: setIdentityAddr, Key: addrKey(addr), Comment: label}
}

func (m *mapping) static(f *natFamily, label string, external netip.Addr, st staticMapping) error {
	proto, p := st.protocol, uint16(st.GetExternalPort())
	claim := func(set, key, data string) {
		m.claims = append(m.claims, nft.Element{Set: set, Key: key, Data: data, Comment: label})
	}
	if err := m.clientsOf(serviceKey(external, proto, p), st); err != nil {
		return err
	}
	if set, ok := withoutBackends(st); ok {
		claim(set, serviceKey(external, proto, p), "")
		return nil
	}
	backends, err := backendsOf(st)
	if err != nil {
		return err
	}
	switch {
	case p == 0 && proto == unix.IPPROTO_ICMP:
		claim(mapProtocol, protocolKey(external, proto), addrKey(backends[0].at.Addr()))
		return nil
	case p == 0:
		claim(mapAddress, addrKey(external), addrKey(backends[0].at.Addr()))
		return nil
	case len(backends) == 1 && st.scope == "" && st.GetSessionAffinity() == 0:
		claim(mapStatic, serviceKey(external, proto, p), backendKey(backends[0].at))
	default:
		m.balanced(f, label, serviceKey(external, proto, p), backends, st)
	}
	return m.twice(serviceKey(external, proto, p), backends, st)
}

func (m *mapping) balanced(f *natFamily, label, service string, backends []backend, st staticMapping) {
	scope, timeout := st.scope, st.GetSessionAffinity()
	weights := make([]uint32, len(backends))
	for i, b := range backends {
		weights[i] = b.weight
	}
	slots := vswitch.Slots(weights)
	class := natClass{slots: uint32(len(slots)), timeout: timeout, scope: scope}
	m.classes = append(m.classes, class)
	m.claims = append(m.claims, nft.Element{Set: scope.balanced(), Key: service, Comment: label})
	m.parts = slices.Grow(m.parts, len(slots)+len(backends))
	set := class.name()
	for slot, b := range slots {
		m.parts = append(m.parts, nft.Element{Set: set, Key: service + string(native32(uint32(slot))), Data: f.classData(class, backendKey(backends[b].at))})
	}
	if st.GetSessionAffinity() == 0 {
		return
	}
	port := func(scopes int) string {
		return string(native32(timeout)) + valuePortKey(label, st.protocol, uint16(cmp.Or(st.GetAffinityPort(), st.GetExternalPort())), scopes)
	}
	m.parts = append(m.parts, nft.Element{Set: scope.port(), Key: service, Data: port(0)},
		nft.Element{Set: scope.apart(), Key: service, Data: port(1 + slices.Index(natScopes, scope))})
	for _, b := range slices.Compact(slots) {
		m.parts = append(m.parts, nft.Element{Set: scope.usable(), Key: service + backendKey(backends[b].at)})
	}
}

func (m *mapping) twice(service string, backends []backend, st staticMapping) error {
	switch st.twice {
	case vpp_nat.DNat44_StaticMapping_ENABLED:
		if st.twiceIP == "" {
			m.parts = append(m.parts, nft.Element{Set: setTwice, Key: service})
			return nil
		}
		source, err := netip.ParseAddr(st.twiceIP)
		m.parts = append(m.parts, nft.Element{Set: mapTwiceIP, Key: service, Data: addrKey(source)})
		return err
	case vpp_nat.DNat44_StaticMapping_SELF:
		set, data := setSelf, ""
		if st.twiceIP != "" {
			source, err := netip.ParseAddr(st.twiceIP)
			if err != nil {
				return err
			}
			set, data = mapSelfIP, addrKey(source)
		}
		for _, b := range backends {
			if b.elsewhere {
				continue
			}
			addr := addrKey(b.at.Addr())
			m.parts = append(m.parts, nft.Element{Set: set, Key: service + addr + addr, Data: data})
			if b.client.IsValid() {
				m.parts = append(m.parts, nft.Element{Set: set, Key: service + addrKey(b.client) + addr, Data: data})
			}
		}
	}
	return nil
}

func withoutBackends(st staticMapping) (set string, ok bool) {
	if len(st.locals) > 0 {
		return "", false
	}
	switch st.otherwise {
	case vpp_nat.DNat44_StaticMapping_REFUSE:
		return setRefused, true
	case vpp_nat.DNat44_StaticMapping_DROP:
		return setDropped, true
	}
	return "", false
}

func (m *mapping) clientsOf(service string, st staticMapping) error {
	if st.GetMasqueradeOutside() {
		m.parts = append(m.parts, nft.Element{Set: setMasquerade, Key: service})
	}
	if st.GetResetRemoved() {
		m.parts = append(m.parts, nft.Element{Set: setReset, Key: service})
	}
	if len(st.GetSourceRanges()) == 0 {
		return nil
	}
	m.parts = append(m.parts, nft.Element{Set: setRestricted, Key: service})
	ranges, err := disjoint(st.GetSourceRanges())
	for _, p := range ranges {
		m.parts = append(m.parts, nft.Element{Set: setAllowed, Key: service + addrKey(p.Addr()), End: service + addrKey(lastOfPrefix(p))})
	}
	return err
}

// disjoint parses prefixes and drops prefixes within others.
func disjoint(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p.Masked())
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	var wide []netip.Prefix
	for _, p := range list {
		if !slices.ContainsFunc(wide, func(w netip.Prefix) bool { return w.Overlaps(p) }) {
			wide = append(wide, p)
		}
	}
	return wide, nil
}

func lastOfPrefix(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

type backend struct {
	at        netip.AddrPort
	weight    uint32
	elsewhere bool // a process of another node
	// client is another source address of its connections, or invalid.
	client netip.Addr
}

func backendsOf(st staticMapping) ([]backend, error) {
	list := make([]backend, 0, len(st.locals))
	for _, l := range st.locals {
		addr, err := netip.ParseAddr(l.GetLocalIp())
		if err != nil {
			return nil, err
		}
		client, _ := netip.ParseAddr(l.GetClientIp())
		list = append(list, backend{netip.AddrPortFrom(addr, uint16(l.GetLocalPort())), l.GetProbability(), l.GetElsewhere(), client})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("a static mapping has no local_ips")
	}
	slices.SortStableFunc(list, func(a, b backend) int { return a.at.Compare(b.at) })
	return list, nil
}

func content(mappings []mapping) []nft.Element {
	size := 0
	for _, m := range mappings {
		size += len(m.claims) + len(m.parts)
	}
	list := make([]nft.Element, 0, size)
	for _, m := range mappings {
		list = append(append(list, m.claims...), m.parts...)
	}
	return nft.Sorted(list)
}

func (v dnat) translatable(value dnatValue) error {
	if len(value.GetLabel()) > 127 {
		return vswitch.Unsupported("%s labels of more than 127 characters: nftables cannot store them", v.family.model)
	}
	inVRF := func(vrf uint32) error {
		if vrf == vswitch.AllVRFs {
			return nil
		}
		return own.OnlyMain(vrf, "NAT")
	}
	v4, _ := value.(*vpp_nat.DNat44)
	for _, m := range v4.GetStMappings() {
		if m.GetProtocol() == vpp_nat.DNat44_ICMP && m.GetExternalPort() != 0 {
			return vswitch.Unsupported("mappings of ICMP identifiers (port %d): leave the ports 0, then all ICMP is mapped", m.GetExternalPort())
		}
		for _, l := range m.GetLocalIps() {
			if err := inVRF(l.GetVrfId()); err != nil {
				return err
			}
		}
	}
	for _, m := range v4.GetIdMappings() {
		if m.GetProtocol() == vpp_nat.DNat44_ICMP && m.GetPort() != 0 {
			return vswitch.Unsupported("identities of ICMP identifiers (port %d): leave the port 0, then all ICMP is meant", m.GetPort())
		}
		if err := inVRF(m.GetVrfId()); err != nil {
			return err
		}
	}
	return nil
}
