package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// SetDNAT makes the kernel translate as the values say, all of them or none.
func (v nat) SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	var changes []natChange
	for _, value := range values {
		if err := translatable(value); err != nil {
			return err
		}
		mappings, err := render(value, v.natAddresses)
		if err != nil {
			return fmt.Errorf("DNAT %q: %w", value.GetLabel(), err)
		}
		changes = append(changes, natChange{value.GetLabel(), value, mappings})
	}
	if err := v.changeDNAT(changes); err != nil {
		return fmt.Errorf("setting DNAT %s: %w", labels(changes), err)
	}
	return nil
}

// RemoveDNAT ends the translation that the values ask for.
func (v nat) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	var changes []natChange
	for _, value := range values {
		changes = append(changes, natChange{label: value.GetLabel()})
	}
	if err := v.changeDNAT(changes); err != nil {
		return fmt.Errorf("removing DNAT %s: %w", labels(changes), err)
	}
	return nil
}

func labels(changes []natChange) string {
	if len(changes) == 1 {
		return fmt.Sprintf("%q", changes[0].label)
	}
	return fmt.Sprintf("%q and %d others", changes[0].label, len(changes)-1)
}

// changeDNAT applies changes and ends connections that they make wrong.
func (v nat) changeDNAT(changes []natChange) error {
	if len(changes) == 0 {
		return nil
	}
	v.nat.mu.Lock()
	defer v.nat.mu.Unlock()
	stale, err := v.apply(changes)
	if err != nil {
		return err
	}
	return errors.Join(v.nat.forgetClients(stale.clients), v.endFlows(stale.flows))
}

// natAddresses returns the IPv4 addresses of an interface; none if it does not exist.
func (v nat) natAddresses(iface string) (list []netip.Addr, err error) {
	link, err := v.link(iface)
	if err != nil {
		return nil, ignoreGone(err)
	}
	found, err := v.raw.addresses(link.Attrs().Index)
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		if a.prefix.Addr().Is4() && !slices.Contains(list, a.prefix.Addr()) {
			list = append(list, a.prefix.Addr())
		}
	}
	return list, nil
}

// ListDNAT returns the values; of those that are not in working order, what is.
func (v nat) ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) (list []*vpp_nat.DNat44, err error) {
	v.nat.mu.Lock()
	defer v.nat.mu.Unlock()
	d := &v.nat.dnat
	err = v.nat.doLocked(func(c *nftables.Conn) error {
		s, err := v.nat.readNAT(c)
		if err != nil || !s.enabled {
			*d = dnatState{}
			return err
		}
		return v.nat.loadDNAT(c)
	})
	if err != nil {
		return nil, fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	if !d.loaded {
		settle(v.reg, expected, nil)
		return nil, nil
	}
	if err := v.adopt(expected); err != nil {
		return nil, err
	}
	for _, want := range expected {
		found, err := v.describe(want)
		if err != nil {
			return nil, err
		}
		if found != nil {
			list = append(list, found)
		}
	}
	wanted := map[string]bool{}
	for _, want := range expected {
		wanted[want.GetLabel()] = true
	}
	for label, elements := range d.known {
		if !wanted[label] {
			list = append(list, &vpp_nat.DNat44{Label: label, StMappings: strange(elements)})
		}
	}
	settle(v.reg, expected, list)
	return list, nil
}

// adopt counts what has lost the claim that it belongs to as part of the expected
// value that is to have that claim.
func (v nat) adopt(expected []*vpp_nat.DNat44) error {
	d := &v.nat.dnat
	strays := d.known[strayLabel]
	if len(strays) == 0 {
		return nil
	}
	labels := map[string]string{}
	for _, want := range expected {
		mappings, err := render(want, v.natAddresses)
		if err != nil {
			return fmt.Errorf("DNAT %q: %w", want.GetLabel(), err)
		}
		for _, m := range mappings {
			for _, e := range m.claims {
				labels[e.key] = want.GetLabel()
			}
		}
	}
	delete(d.known, strayLabel)
	for _, e := range strays {
		label, ok := labels[e.key[:serviceLength]]
		if !ok {
			label = strayLabel
		}
		d.known[label] = append(d.known[label], e)
	}
	for _, list := range d.known {
		slices.SortFunc(list, compareElements)
	}
	return nil
}

// describe returns an expected value as it is in the kernel, nil if nothing is.
func (v nat) describe(want *vpp_nat.DNat44) (*vpp_nat.DNat44, error) {
	d := &v.nat.dnat
	actual, exists := d.known[want.GetLabel()]
	mappings, err := render(want, v.natAddresses)
	if err != nil {
		return nil, fmt.Errorf("DNAT %q: %w", want.GetLabel(), err)
	}
	full := content(mappings)
	if slices.Equal(actual, full) {
		if len(externalInterfaces(want)) == 0 {
			delete(d.known, want.GetLabel())
		}
		return want, nil
	}
	if !exists {
		d.known[want.GetLabel()] = nil // whatever the registry says
		return nil, nil
	}
	found := proto.CloneOf(want)
	found.StMappings, found.IdMappings = nil, nil
	for i, m := range mappings {
		if gone, _ := difference(content([]mapping{m}), actual); len(gone) > 0 {
			continue
		}
		if n := len(want.GetStMappings()); i < n {
			found.StMappings = append(found.StMappings, want.GetStMappings()[i])
		} else {
			found.IdMappings = append(found.IdMappings, want.GetIdMappings()[i-n])
		}
	}
	_, extra := difference(full, actual)
	if more := strange(extra); len(more) > 0 || len(found.GetStMappings())+len(found.GetIdMappings()) < len(mappings) {
		found.StMappings = append(found.StMappings, more...)
	} else {
		// Parts that no mapping of its own stands for.
		found.StMappings = append(found.StMappings, &vpp_nat.DNat44_StaticMapping{})
	}
	return found, nil
}

// strange describes claims that nobody expects.
func strange(elements []natElement) (list []*vpp_nat.DNat44_StaticMapping) {
	for _, e := range elements {
		if _, ok := e.claim(); ok {
			addr, proto, port := claimed(e)
			list = append(list, &vpp_nat.DNat44_StaticMapping{ExternalIp: addr.String(), ExternalPort: uint32(port), Protocol: proto})
		}
	}
	return list
}

// claimed reads a claim: keys are an address and perhaps a protocol and a port.
func claimed(e natElement) (addr netip.Addr, proto vpp_nat.DNat44_Protocol, port uint16) {
	addr, _ = netip.AddrFromSlice([]byte(e.key[:4]))
	if len(e.key) > 4 {
		switch e.key[4] {
		case unix.IPPROTO_UDP:
			proto = vpp_nat.DNat44_UDP
		case unix.IPPROTO_ICMP:
			proto = vpp_nat.DNat44_ICMP
		}
	}
	if len(e.key) > 8 {
		port = uint16(e.key[8])<<8 | uint16(e.key[9])
	}
	return addr, proto, port
}

func claimText(e natElement) string {
	addr, proto, port := claimed(e)
	switch {
	case port != 0:
		return fmt.Sprintf("%s port %d of %s", proto, port, addr)
	case proto == vpp_nat.DNat44_ICMP:
		return fmt.Sprintf("ICMP of %s", addr)
	}
	return addr.String()
}
