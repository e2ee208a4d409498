package acl

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// sourceRangesDescriptor handles config/contiv/guard/v1/source-ranges.
func sourceRangesDescriptor() kvscheduler.Descriptor[*guard.SourceRanges, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*guard.SourceRanges, descriptor.NoMeta]{
		Name:     vswitch.SourceRangesDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.SourceRanges.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *guard.SourceRanges) error { return validateSourceRanges(v) },
		Equivalent: func(_ string, a, b *guard.SourceRanges) bool {
			return a.GetInterface() == b.GetInterface() && slices.EqualFunc(vswitch.RestrictedFrontends(a), vswitch.RestrictedFrontends(b), vswitch.RestrictedFrontend.Equal)
		},
		UpdateWithRecreate: func(string, *guard.SourceRanges, *guard.SourceRanges, descriptor.NoMeta) bool { return false },
		RetrieveAfter:      []string{vswitch.SourceGuardDescriptor, vswitch.InterfaceDescriptor},
	}
}

func validateSourceRanges(v *guard.SourceRanges) error {
	if len(v.GetFrontends()) == 0 {
		return descriptor.Invalid("frontends", "name at least one, or leave the value out: it restricts nothing")
	}
	type key struct {
		addr     netip.Addr
		port     uint32
		protocol guard.SourceRanges_Protocol
	}
	seen := map[key]bool{}
	for _, f := range v.GetFrontends() {
		if err := descriptor.ValidAddr("frontends.address", f.GetAddress()); err != nil {
			return err
		}
		k := key{netip.MustParseAddr(f.GetAddress()), f.GetPort(), f.GetProtocol()}
		switch {
		case k.addr.Is4In6() || k.addr.Zone() != "":
			return descriptor.Invalid("frontends.address", "%s: write it as 203.0.113.1 or fd99::1", f.GetAddress())
		case k.port == 0 || k.port > 65535:
			return descriptor.Invalid("frontends.port", "invalid port %d: use 1 to 65535", k.port)
		case guard.SourceRanges_Protocol_name[int32(k.protocol)] == "":
			return descriptor.Invalid("frontends.protocol", "invalid protocol %d: use TCP, UDP or SCTP", k.protocol)
		case seen[k]:
			return descriptor.Invalid("frontends", "%s port %d of %v is listed twice: list it once, with all its sources", k.addr, k.port, k.protocol)
		}
		seen[k] = true
		for _, text := range f.GetSources() {
			switch p, err := netip.ParsePrefix(text); {
			case err != nil || p.Addr().Is4In6():
				return descriptor.Invalid("frontends.sources", "%q is no prefix such as 192.0.2.0/24", text)
			case p.Addr().Is6() != k.addr.Is6():
				return descriptor.Invalid("frontends.sources", "%s is of another IP version than %s", text, k.addr)
			}
		}
	}
	return nil
}
