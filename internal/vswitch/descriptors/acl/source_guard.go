package acl

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// sourceGuardDescriptor handles config/contiv/guard/v1/source/{interface}.
func sourceGuardDescriptor() kvscheduler.Descriptor[*guard.SourceGuard, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*guard.SourceGuard, descriptor.NoMeta]{
		Name:       vswitch.SourceGuardDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.SourceGuard.KeyPrefix()},
		NB:         true,
		Validate:   func(_ string, g *guard.SourceGuard) error { return validateSourceGuard(g) },
		Equivalent: func(_ string, a, b *guard.SourceGuard) bool { return equivalentGuards(a, b) },
		// The device identifies a guard.
		UpdateWithRecreate: func(_ string, old, new *guard.SourceGuard, _ descriptor.NoMeta) bool {
			return old.GetHostIfName() != new.GetHostIfName()
		},
	}
}

func validateSourceGuard(g *guard.SourceGuard) error {
	switch mac, err := net.ParseMAC(g.GetMacAddress()); {
	case g.GetInterface() == "":
		return descriptor.Invalid("interface", "name the interface to guard")
	case err != nil || len(mac) != 6:
		return descriptor.ValidMAC("mac_address", g.GetMacAddress())
	case mac[0]&1 != 0:
		return descriptor.Invalid("mac_address", "%s is a multicast address, which cannot be a source", g.GetMacAddress())
	}
	if name := g.GetHostIfName(); len(name) > 15 || name == "." || name == ".." ||
		strings.ContainsFunc(name, func(c rune) bool { return c == '/' || c == ':' || unicode.IsSpace(c) || unicode.IsControl(c) }) {
		return descriptor.Invalid("host_if_name", "%.80q is no name of a Linux device: use at most 15 bytes without slash, colon, space and control characters", name)
	}
	for _, text := range g.GetIpAddresses() {
		if err := descriptor.ValidAddr("ip_addresses", text); err != nil {
			return err
		}
		addr := netip.MustParseAddr(text)
		if addr.Zone() != "" || addr.Is4In6() || addr.IsMulticast() || addr.IsUnspecified() || addr.IsLoopback() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return descriptor.Invalid("ip_addresses", "%s is no address that packets are sent from: use one that is, such as 10.1.1.2 or fd10:1::2", text)
		}
	}
	return nil
}

func equivalentGuards(a, b *guard.SourceGuard) bool {
	return a.GetInterface() == b.GetInterface() && a.GetHostIfName() == b.GetHostIfName() && descriptor.SameMACText(a.GetMacAddress(), b.GetMacAddress()) &&
		a.GetMaxConnections() == b.GetMaxConnections() && (a.GetMaxConnections() == 0 || a.GetCountedWith() == b.GetCountedWith()) && slices.Equal(vswitch.GuardedAddresses(a), vswitch.GuardedAddresses(b))
}
