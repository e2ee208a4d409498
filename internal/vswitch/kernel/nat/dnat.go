package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
)

// dnat is the destination NAT of an IP version.
type dnat struct {
	*Driver
	family  *natFamily
	state   *dnatState  // guarded by the lock of natDriver
	pending *leftBehind // likewise
}

func (v *Driver) dnat4() dnat { return dnat{v, nat4, &v.nat.dnat, &v.nat.pending} }
func (v *Driver) dnat6() dnat { return dnat{v, nat6, &v.nat.dnat6, &v.nat.pending6} }

func (v nat) SetDNAT(_ context.Context, values ...*vpp_nat.DNat44) error {
	return v.dnat4().set(valuesOf(values)...)
}

func (v nat) RemoveDNAT(_ context.Context, values ...*vpp_nat.DNat44) error {
	return v.dnat4().remove(valuesOf(values)...)
}

func (v nat) ListDNAT(_ context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	return listed(v.dnat4(), expected)
}

type dnat66 struct{ *Driver }

// DestinationNAT66 returns the port for DNAT of IPv6. The chains stay after the last value until
// Uninstall, because the kernel translates existing connections only while NAT chains exist.
func (v *Driver) DestinationNAT66() vswitch.DNAT66 { return dnat66{v} }

func (v dnat66) Set(_ context.Context, values ...*contiv_nat.DNat66) error {
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	return v.dnat6().set(valuesOf(values)...)
}

func (v dnat66) Remove(_ context.Context, values ...*contiv_nat.DNat66) error {
	return v.dnat6().remove(valuesOf(values)...)
}

func (v dnat66) List(_ context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	return listed(v.dnat6(), expected)
}

func valuesOf[V dnatValue](values []V) []dnatValue {
	list := make([]dnatValue, len(values))
	for i, value := range values {
		list[i] = value
	}
	return list
}

func listed[V dnatValue](v dnat, expected []V) ([]V, error) {
	found, err := v.list(valuesOf(expected))
	if err != nil {
		return nil, err
	}
	var list []V
	for _, value := range found {
		list = append(list, value.(V))
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v dnat) registered(label string) dnatValue {
	value, _ := v.Reg.Get(models.Key(v.family.named(label)))
	known, _ := value.(dnatValue)
	return known
}

// set applies all values or none. If a single value conflicts with others, set still removes its
// obsolete parts, so that values can exchange their mappings.
func (v dnat) set(values ...dnatValue) error {
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

func (v dnat) remove(values ...dnatValue) error {
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
	var kept []int
	var mappings []mapping
	for i, m := range change.mappings {
		if slices.ContainsFunc(m.claims, func(e nft.Element) bool {
			claim, _ := claimOf(e)
			owner, taken := v.state.owners[claim]
			return taken && owner != change.label
		}) {
			continue
		}
		kept, mappings = append(kept, i), append(mappings, m)
	}
	return natChange{label: change.label, value: partOf(change.value, kept), mappings: mappings}
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
func (v dnat) list(expected []dnatValue) (list []dnatValue, err error) {
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
			list = append(list, partOf(v.family.named(label), nil, v.family.claims(elements)...))
		}
	}
	return list, nil
}

// rulesExist reports whether the rules exist. For IPv4 they belong to the global value.
func rulesExist(d *dnatState, f *natFamily) bool { return f == nat4 || d.based }

// assignOrphans assigns orphaned elements to the expected value that owns their claim.
func (v dnat) assignOrphans(expected []dnatValue) error {
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
		label, ok := labels[e.Key[:v.family.serviceLength()]]
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
func (v dnat) record(want, found dnatValue) {
	known := v.state.known
	if _, exists := known[want.GetLabel()]; found == want && !usesInterfaces(want) {
		delete(known, want.GetLabel())
	} else if found == nil && !exists {
		known[want.GetLabel()] = nil
	}
}

func (v dnat) describe(want dnatValue) (dnatValue, error) {
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
	var kept []int
	for i, m := range mappings {
		if !slices.ContainsFunc(m.claims, isGone) && !slices.ContainsFunc(m.parts, isGone) {
			kept = append(kept, i)
		}
	}
	more := v.family.claims(extra)
	if len(more) == 0 && len(kept) == len(mappings) {
		more = append(more, claimed{}) // parts without a mapping
	}
	return partOf(want, kept, more...), nil
}

// claimed is what a mapping is for. Port 0: a whole protocol or address.
type claimed struct {
	addr     netip.Addr
	protocol uint8
	port     uint16
}

func (f *natFamily) claims(elements []nft.Element) (list []claimed) {
	for _, e := range elements {
		if _, ok := claimOf(e); ok {
			list = append(list, f.claimed(e))
		}
	}
	return list
}

func (f *natFamily) claimed(e nft.Element) (c claimed) {
	n := f.addressLength()
	c.addr, _ = netip.AddrFromSlice([]byte(e.Key[:n]))
	if len(e.Key) > n {
		c.protocol = e.Key[n]
	}
	if len(e.Key) > n+4 {
		c.port = uint16(e.Key[n+4])<<8 | uint16(e.Key[n+5])
	}
	return c
}

func (c claimed) ip() string {
	if !c.addr.IsValid() {
		return ""
	}
	return c.addr.String()
}

func (c claimed) String() string {
	protocol := enumOf(protocols, c.protocol)
	switch {
	case c.port != 0:
		return fmt.Sprintf("%s port %d of %s", protocol, c.port, c.addr)
	case protocol == vpp_nat.DNat44_ICMP:
		return fmt.Sprintf("ICMP of %s", c.addr)
	}
	return c.addr.String()
}

// usesInterfaces reports whether a value depends on the addresses of interfaces.
func usesInterfaces(value dnatValue) bool {
	v, ok := value.(*vpp_nat.DNat44)
	return ok && len(own.ExternalInterfaces(v)) > 0
}

func (v dnat) base(changes []natChange) error {
	if v.family == nat4 || v.state.based || !setsAny(changes) {
		return nil
	}
	s, err := v.nat.readNAT(v.family)
	if err != nil {
		return err
	}
	if !s.enabled || !s.intact {
		b := v.family.batch()
		s.enabled = true
		s.write(b)
		if err := v.nat.Commit(b); err != nil {
			return err
		}
	}
	v.state.based = true
	return nil
}

func setsAny(changes []natChange) bool {
	return slices.ContainsFunc(changes, func(c natChange) bool { return c.value != nil })
}
