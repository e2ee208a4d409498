package netalloc

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// Resolver resolves references to allocated addresses as of the running transaction. Other texts
// stay unchanged. iface is as for ParseRef. Errors wrap ErrNotAllocated if the allocation, or its
// gateway, is missing.
type Resolver struct{ s *kvscheduler.Scheduler }

// NewResolver returns a resolver for the callbacks of a scheduler's descriptors.
func NewResolver(s *kvscheduler.Scheduler) *Resolver { return &Resolver{s} }

// Lookup returns an allocation.
func (r *Resolver) Lookup(network, iface string) (Allocation, bool) {
	if r == nil {
		return Allocation{}, false
	}
	key := Ref{Network: network, Interface: iface}.Key()
	meta, ok := r.s.Metadata(Descriptor, key)
	a, isAllocation := meta.(Allocation)
	return a, ok && isAllocation
}

// WithMask resolves to an address with prefix length: "10.1.2.3/24".
func (r *Resolver) WithMask(text, iface string) (string, error) {
	return r.resolve(text, iface, func(p netip.Prefix) string { return p.String() })
}

// Network resolves to the network of an address: "10.1.2.0/24".
func (r *Resolver) Network(text, iface string) (string, error) {
	return r.resolve(text, iface, func(p netip.Prefix) string { return p.Masked().String() })
}

// Addr resolves to an address alone: "10.1.2.3".
func (r *Resolver) Addr(text, iface string) (string, error) {
	return r.resolve(text, iface, func(p netip.Prefix) string { return p.Addr().String() })
}

func (r *Resolver) resolve(text, iface string, form func(netip.Prefix) string) (string, error) {
	if !IsRef(text) {
		return text, nil
	}
	ref, err := ParseRef(text, iface)
	if err != nil {
		return "", err
	}
	a, ok := r.Lookup(ref.Network, ref.Interface)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: %q needs %s", ErrNotAllocated, text, ref.Key())
	case ref.GW && !a.Gateway.IsValid():
		return "", fmt.Errorf("%w: %q needs a gateway, set gw of %s", ErrNotAllocated, text, ref.Key())
	case ref.GW:
		return form(a.Gateway), nil
	}
	return form(a.Address), nil
}

// Addresses resolves the addresses of an interface and omits the ones not allocated yet.
func (r *Resolver) Addresses(texts []string, iface string) []string {
	resolved := make([]string, 0, len(texts))
	for _, text := range texts {
		if addr, err := r.WithMask(text, iface); err == nil {
			resolved = append(resolved, addr)
		}
	}
	return resolved
}

// Restore replaces addresses found on an interface by the wanted references that resolve to them.
func (r *Resolver) Restore(found, wanted []string, iface string) []string {
	restored := append([]string(nil), found...)
	for _, text := range wanted {
		if !IsRef(text) {
			continue
		}
		addr, err := r.WithMask(text, iface)
		if err != nil {
			continue
		}
		for i := range restored {
			if restored[i] == addr {
				restored[i] = text
			}
		}
	}
	return restored
}

// HasRef reports whether any text is a reference.
func HasRef(texts ...string) bool {
	for _, text := range texts {
		if IsRef(text) {
			return true
		}
	}
	return false
}

// Put replaces a retrieved field by the wanted reference if it has the resolved value.
func Put(field *string, resolved, wanted string) {
	if IsRef(wanted) && *field == resolved {
		*field = wanted
	}
}

// AddressKeyText returns the source and the text of an address in the interface's address key: the
// reference, or the address.
func AddressKeyText(text, iface string) (source, addr string, ok bool) {
	if IsRef(text) {
		ref, err := ParseRef(text, iface)
		return models.AddrAllocRef, text, err == nil && !ref.GW
	}
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	return models.AddrStatic, prefix.String(), err == nil
}

// ValidateAddresses checks the references among an interface's own addresses, which must be unique.
func ValidateAddresses(texts []string, iface string) error {
	seen := map[Ref]string{}
	for _, text := range texts {
		if !IsRef(text) {
			continue
		}
		ref, err := ParseRef(text, iface)
		if err != nil {
			return err
		}
		if ref.GW {
			return fmt.Errorf("%q is the address of a gateway, not of the interface: remove /GW", text)
		}
		if other, twice := seen[ref]; twice {
			return fmt.Errorf("the same address is listed twice, as %s and %s: remove one of them", other, text)
		}
		seen[ref] = text
	}
	return nil
}

// ValidateGateway checks a reference used as a gateway.
func ValidateGateway(text, iface string) error {
	ref, err := ParseRef(text, iface)
	if err == nil && !ref.GW {
		err = fmt.Errorf("%q is the address of the interface, not of a gateway: add /GW", text)
	}
	return err
}
