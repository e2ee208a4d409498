package vswitch

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
)

// RestrictedFrontend is a frontend of SourceRanges.
type RestrictedFrontend struct {
	Addr     netip.AddrPort
	Protocol uint8
	// Sources are sorted and unique.
	Sources []netip.Prefix
}

// Allows reports whether the client may use the frontend.
func (f RestrictedFrontend) Allows(client netip.Addr) bool {
	return slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(client) })
}

// Equal reports whether both have the same restrictions.
func (f RestrictedFrontend) Equal(o RestrictedFrontend) bool {
	return f.Addr == o.Addr && f.Protocol == o.Protocol && slices.Equal(f.Sources, o.Sources)
}

var restrictedProtocols = map[guard.SourceRanges_Protocol]uint8{
	guard.SourceRanges_TCP: ProtocolTCP, guard.SourceRanges_UDP: ProtocolUDP, guard.SourceRanges_SCTP: ProtocolSCTP,
}

// RestrictedFrontends returns the frontends of a valid value, sorted.
func RestrictedFrontends(v *guard.SourceRanges) (list []RestrictedFrontend) {
	for _, f := range v.GetFrontends() {
		addr, err := netip.ParseAddr(f.GetAddress())
		if err != nil {
			continue
		}
		r := RestrictedFrontend{Addr: netip.AddrPortFrom(addr, uint16(f.GetPort())), Protocol: restrictedProtocols[f.GetProtocol()]}
		for _, text := range f.GetSources() {
			if p, err := netip.ParsePrefix(text); err == nil {
				r.Sources = append(r.Sources, p.Masked())
			}
		}
		slices.SortFunc(r.Sources, netip.Prefix.Compare)
		r.Sources = slices.Compact(r.Sources)
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b RestrictedFrontend) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol))
	})
	return list
}

// SourceRangesOf is the inverse of RestrictedFrontends.
func SourceRangesOf(list []RestrictedFrontend, iface string) *guard.SourceRanges {
	v := &guard.SourceRanges{Interface: iface}
	for _, r := range list {
		f := &guard.SourceRanges_Frontend{Address: r.Addr.Addr().String(), Port: uint32(r.Addr.Port())}
		for p, number := range restrictedProtocols {
			if number == r.Protocol {
				f.Protocol = p
			}
		}
		for _, p := range r.Sources {
			f.Sources = append(f.Sources, p.String())
		}
		v.Frontends = append(v.Frontends, f)
	}
	return v
}
