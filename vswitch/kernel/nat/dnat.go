package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/delta"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"google.golang.org/protobuf/proto"
)

// dnat is the destination NAT of an IP version. It works on DNat44 values; IPv6 values are
// converted to DNat44 values with IPv6 addresses.
type dnat struct {
	*Driver
	family  *natFamily
	state   *dnatState  // guarded by the lock of natDriver
	pending *leftBehind // likewise
}

func (v *Driver) dnat4() dnat { return dnat{v, nat4, &v.nat.dnat, &v.nat.pending} }
func (v *Driver) dnat6() dnat { return dnat{v, nat6, &v.nat.dnat6, &v.nat.pending6} }

func (v dnat) northbound(value *vpp_nat.DNat44) proto.Message {
	if v.family == nat6 {
		return vswitch.DNAT66FromDNAT44(value)
	}
	return value
}

func (v dnat) registered(label string) *vpp_nat.DNat44 {
	value, ok := v.Reg.Get(models.Key(v.northbound(&vpp_nat.DNat44{Label: label})))
	if !ok {
		return nil
	}
	if v.family == nat6 {
		return vswitch.DNAT66AsDNAT44(value.(*contiv_nat.DNat66))
	}
	return value.(*vpp_nat.DNat44)
}

func (v nat) SetDNAT(_ context.Context, values ...*vpp_nat.DNat44) error {
	return v.dnat4().set(values)
}

func (v nat) RemoveDNAT(_ context.Context, values ...*vpp_nat.DNat44) error {
	return v.dnat4().remove(values)
}

func (v nat) ListDNAT(_ context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	list, err := v.dnat4().list(expected)
	if err == nil {
		own.Settle(v.Reg, expected, list)
	}
	return list, err
}

// set applies all values or none. If a single value conflicts with others, set still removes its
// obsolete parts, so that values can exchange their mappings.
func (v dnat) set(values []*vpp_nat.DNat44) error {
	var changes []natChange
	for _, value := range values {
		if err := v.translatable(value); err != nil {
			return err
		}
		mappings, err := v.render(value)
		if err != nil {
			return fmt.Errorf("DNAT %q: %w", value.GetLabel(), err)
		}
		changes = append(changes, natChange{label: value.GetLabel(), value: value, mappings: mappings})
	}
	if err := v.changeDNAT(changes); err != nil {
		return fmt.Errorf("setting DNAT %s: %w", labels(changes), err)
	}
	return nil
}

func (v dnat) remove(values []*vpp_nat.DNat44) error {
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

// changeDNAT applies changes and ends the connections that they invalidate. Failed clean-up is kept
// for the next change, because a retry of the same change finds no difference.
func (v dnat) changeDNAT(changes []natChange) error {
	if len(changes) == 0 {
		return nil
	}
	v.nat.Lock()
	defer v.nat.Unlock()
	stale, err := v.apply(changes)
	var claimedErr error
	if errors.Is(err, errClaimed) && len(changes) == 1 && v.registered(changes[0].label) != nil {
		claimedErr = err
		changes = []natChange{v.unclaimed(changes[0])}
		stale, err = v.apply(changes)
	}
	if err != nil {
		return errors.Join(claimedErr, err)
	}
	for _, change := range changes {
		v.pending.returned(v.family, change.elements)
	}
	v.pending.add(stale)
	err = errors.Join(v.endFlows(v.pending.flows), v.judge(v.family, v.pending.judged))
	if err == nil {
		*v.pending = leftBehind{}
	}
	return errors.Join(claimedErr, err)
}

// unclaimed removes the parts that other values own.
func (v dnat) unclaimed(change natChange) natChange {
	rest := proto.CloneOf(change.value)
	rest.StMappings, rest.IdMappings = nil, nil
	kept := change.mappings[:0:0]
	for i, m := range change.mappings {
		if slices.ContainsFunc(m.claims, func(e nft.Element) bool {
			claim, _ := claimOf(e)
			owner, taken := v.state.owners[claim]
			return taken && owner != change.label
		}) {
			continue
		}
		kept = append(kept, m)
		if static := change.value.GetStMappings(); i < len(static) {
			rest.StMappings = append(rest.StMappings, static[i])
		} else {
			rest.IdMappings = append(rest.IdMappings, change.value.GetIdMappings()[i-len(static)])
		}
	}
	return natChange{label: change.label, value: rest, mappings: kept}
}

func (v *Driver) natAddresses(iface string) (list []netip.Addr, err error) {
	link, err := v.Link(iface)
	if err != nil {
		return nil, rtnl.IgnoreGone(err)
	}
	found, err := v.Net.Addresses(link.Attrs().Index)
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		if a.Prefix.Addr().Is4() && !slices.Contains(list, a.Prefix.Addr()) {
			list = append(list, a.Prefix.Addr())
		}
	}
	return list, nil
}

// list returns the values, and the working part of damaged ones.
func (v dnat) list(expected []*vpp_nat.DNat44) (list []*vpp_nat.DNat44, err error) {
	v.nat.Lock()
	defer v.nat.Unlock()
	d := v.state
	s, err := v.nat.readNAT(v.family)
	if err == nil && s.enabled {
		err = v.loadDNAT()
		d.based = s.intact
	} else {
		*d = dnatState{}
	}
	if err != nil {
		return nil, fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	if !d.loaded {
		return nil, nil
	}
	if err := v.assignOrphans(expected); err != nil {
		return nil, err
	}
	for _, want := range expected {
		found, err := v.describe(want)
		if err != nil {
			return nil, err
		}
		v.record(want, found)
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
			list = append(list, &vpp_nat.DNat44{Label: label, StMappings: v.family.foreignMappings(elements)})
		}
	}
	return list, nil
}

// rulesExist reports whether the rules exist. For IPv4 they belong to the global value.
func rulesExist(d *dnatState, f *natFamily) bool { return f == nat4 || d.based }

// assignOrphans assigns orphaned elements to the expected value that owns their claim.
func (v dnat) assignOrphans(expected []*vpp_nat.DNat44) error {
	d := v.state
	orphans := d.known[orphanLabel]
	if len(orphans) == 0 {
		return nil
	}
	labels := map[string]string{}
	for _, want := range expected {
		mappings, err := v.render(want)
		if err != nil {
			return fmt.Errorf("DNAT %q: %w", want.GetLabel(), err)
		}
		for _, m := range mappings {
			for _, e := range m.claims {
				labels[e.Key] = want.GetLabel()
			}
		}
	}
	delete(d.known, orphanLabel)
	for _, e := range orphans {
		label, ok := labels[e.Key[:v.family.serviceLength]]
		if !ok {
			label = orphanLabel
		}
		d.known[label] = append(d.known[label], e)
	}
	for _, list := range d.known {
		slices.SortFunc(list, nft.Compare)
	}
	return nil
}

// record stores the elements read for a value. It records nothing for a value that is as expected,
// unless that depends on interface addresses, and an empty list for a missing value, regardless of
// the registry.
func (v dnat) record(want, found *vpp_nat.DNat44) {
	known := v.state.known
	if _, exists := known[want.GetLabel()]; found == want && len(own.ExternalInterfaces(want)) == 0 {
		delete(known, want.GetLabel())
	} else if found == nil && !exists {
		known[want.GetLabel()] = nil
	}
}

func (v dnat) describe(want *vpp_nat.DNat44) (*vpp_nat.DNat44, error) {
	d := v.state
	actual, exists := d.known[want.GetLabel()]
	mappings, err := v.render(want)
	if err != nil {
		return nil, fmt.Errorf("DNAT %q: %w", want.GetLabel(), err)
	}
	full := content(mappings)
	if slices.Equal(actual, full) {
		if !rulesExist(d, v.family) {
			return nil, nil
		}
		return want, nil
	}
	if !exists {
		return nil, nil
	}
	missing, extra := delta.Sorted(full, actual, nft.Compare)
	gone := make(map[nft.Element]bool, len(missing))
	for _, e := range missing {
		gone[e] = true
	}
	isGone := func(e nft.Element) bool { return gone[e] }
	found := proto.CloneOf(want)
	found.StMappings, found.IdMappings = nil, nil
	for i, m := range mappings {
		if slices.ContainsFunc(m.claims, isGone) || slices.ContainsFunc(m.parts, isGone) {
			continue
		}
		if n := len(want.GetStMappings()); i < n {
			found.StMappings = append(found.StMappings, want.GetStMappings()[i])
		} else {
			found.IdMappings = append(found.IdMappings, want.GetIdMappings()[i-n])
		}
	}
	if more := v.family.foreignMappings(extra); len(more) > 0 || len(found.GetStMappings())+len(found.GetIdMappings()) < len(mappings) {
		found.StMappings = append(found.StMappings, more...)
	} else {
		// Parts without a mapping.
		found.StMappings = append(found.StMappings, &vpp_nat.DNat44_StaticMapping{})
	}
	return found, nil
}

// foreignMappings describes claims of no expected value.
func (f *natFamily) foreignMappings(elements []nft.Element) (list []*vpp_nat.DNat44_StaticMapping) {
	for _, e := range elements {
		if _, ok := claimOf(e); ok {
			addr, proto, port := f.claimed(e)
			list = append(list, &vpp_nat.DNat44_StaticMapping{ExternalIp: addr.String(), ExternalPort: uint32(port), Protocol: proto})
		}
	}
	return list
}

func (f *natFamily) claimed(e nft.Element) (addr netip.Addr, proto vpp_nat.DNat44_Protocol, port uint16) {
	n := f.addressLength()
	addr, _ = netip.AddrFromSlice([]byte(e.Key[:n]))
	if len(e.Key) > n {
		for p, number := range protocolNumbers {
			if number == e.Key[n] {
				proto = p
			}
		}
	}
	if len(e.Key) > n+4 {
		port = uint16(e.Key[n+4])<<8 | uint16(e.Key[n+5])
	}
	return addr, proto, port
}

func (f *natFamily) claimText(e nft.Element) string {
	addr, proto, port := f.claimed(e)
	switch {
	case port != 0:
		return fmt.Sprintf("%s port %d of %s", vswitch.DNATProtocolName(proto), port, addr)
	case proto == vpp_nat.DNat44_ICMP:
		return fmt.Sprintf("ICMP of %s", addr)
	}
	return addr.String()
}
