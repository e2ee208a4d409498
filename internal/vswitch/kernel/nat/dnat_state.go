package nat

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
)

// dnatState is the known state of the DNAT elements in the kernel, enough to change a value without
// reading. A failed change shows that it is outdated; then all elements are read again. The lock of
// natDriver guards it.
type dnatState struct {
	// based: chains and rules exist. Used for IPv6 only.
	based  bool
	loaded bool
	owners map[[2]string]string
	// known holds, by label, the elements of values that differ from the registered value: damaged
	// or unregistered values, and values that depend on interface addresses.
	known map[string][]nft.Element
	// classes counts the services of each class that has sets.
	classes map[natClass]int
}

// claimSets maps the sets and maps with claims to the key space that they share. A service is in
// one set for its port, or in one per scope of clients.
var claimSets = map[string]string{
	mapStatic: setBalanced, setBalanced: setBalanced, setBalancedIn: setBalanced, setBalancedOut: setBalanced, setBalancedOwn: setBalanced,
	setRefused: setBalanced, setDropped: setBalanced, mapProtocol: mapProtocol, mapAddress: mapAddress,
	setIdentity: setIdentity, setIdentityProto: setIdentityProto, setIdentityAddr: setIdentityAddr,
}

func claimOf(e nft.Element) ([2]string, bool) {
	kind, ok := claimSets[e.Set]
	return [2]string{kind, e.Key}, ok
}

// orphanLabel marks elements of no value.
const orphanLabel = "UNTAGGED-DNAT"

func (v dnat) loadDNAT() (err error) {
	*v.state = dnatState{}
	state, ok := v.takeAhead()
	if !ok {
		if state, err = v.readDNAT(); err != nil {
			return err
		}
	}
	*v.state = state
	return nil
}

func (v dnat) readDNAT() (dnatState, error) {
	fresh := dnatState{owners: map[[2]string]string{}, known: map[string][]nft.Element{}, classes: map[natClass]int{}}
	table, err := v.nat.Layout(v.family.proto, natTable)
	if err != nil {
		return dnatState{}, err
	}
	if table == nil {
		return dnatState{}, ErrDisabled
	}
	var read [][]nft.Element
	for set, described := range table.Sets {
		class, isClass := classNamed(set)
		if isClass {
			fresh.classes[class] += 0
		}
		if !v.family.hasSet(set) || slices.Contains(deviceSets, set) || described.Dynamic {
			continue
		}
		elements, err := v.nat.Elements(v.family.proto, natTable, set)
		if err != nil {
			return dnatState{}, err
		}
		if isClass {
			for _, e := range elements {
				if v.family.isFirstSlot(e) {
					fresh.classes[class]++
				}
			}
		}
		if _, claims := claimSets[set]; claims {
			for _, e := range elements {
				claim, _ := claimOf(e)
				fresh.owners[claim] = e.Comment
				fresh.known[e.Comment] = append(fresh.known[e.Comment], e)
			}
		} else {
			read = append(read, elements)
		}
	}
	v.family.assign(read, &fresh)
	for _, list := range fresh.known {
		slices.SortFunc(list, nft.Compare)
	}
	fresh.loaded = true
	return fresh, nil
}

// assign assigns elements that are not claims, and may be very many, to the labels of their
// services.
func (f *natFamily) assign(read [][]nft.Element, to *dnatState) {
	each := func(do func(label string, e nft.Element)) {
		service, label := "", ""
		for _, elements := range read {
			for _, e := range elements {
				if key := e.Key[:f.serviceLength()]; key != service { // elements of a service are adjacent
					owner, ok := to.owners[[2]string{setBalanced, key}]
					if !ok {
						owner = orphanLabel
					}
					service, label = key, owner
				}
				do(label, e)
			}
		}
	}
	counts := make(map[string]int, len(to.known))
	each(func(label string, _ nft.Element) { counts[label]++ })
	for label, count := range counts {
		to.known[label] = slices.Grow(to.known[label], count)
	}
	each(func(label string, e nft.Element) { to.known[label] = append(to.known[label], e) })
}

func (v dnat) current(label string) []nft.Element {
	if list, ok := v.state.known[label]; ok {
		return list
	}
	value := v.registered(label)
	if value == nil {
		return nil
	}
	mappings, err := v.render(value)
	if err != nil {
		return nil
	}
	return content(mappings)
}

func (f *natFamily) isFirstSlot(e nft.Element) bool {
	return e.Key[f.serviceLength():] == string(native32(0))
}

// natChange is a value and its requested state. A value without mappings is removed.
type natChange struct {
	label    string
	value    dnatValue
	mappings []mapping
	// elements are the sorted elements of the mappings; tryApply sets them.
	elements []nft.Element
}

// leftBehind holds the conntrack entries that a change invalidates.
type leftBehind struct {
	flows conntrack.Stale
	// judged holds the current services with client-dependent connections.
	judged judgedFlows
}

func (l *leftBehind) add(more leftBehind) {
	if len(l.flows)+len(l.judged) == 0 {
		*l = more
		return
	}
	if l.judged == nil {
		l.judged = judgedFlows{}
	}
	maps.Copy(l.judged, more.judged)
	for key, backends := range more.flows {
		for _, b := range backends {
			l.flows.Add(key, b)
		}
	}
}

// returned removes the backends that a value has again.
func (l *leftBehind) returned(f *natFamily, elements []nft.Element) {
	if len(l.flows) == 0 {
		return
	}
	for key, backends := range f.flows(elements, resetsIn(elements)) {
		rest := slices.DeleteFunc(l.flows[key], func(b netip.AddrPort) bool { return slices.Contains(backends, b) })
		if l.flows[key] = rest; len(rest) == 0 {
			delete(l.flows, key)
		}
	}
}

func (v dnat) apply(changes []natChange) (stale leftBehind, err error) {
	if err := v.base(changes); err != nil {
		return stale, err
	}
	if stale, err = v.tryApply(changes); err == nil || errors.Is(err, errClaimed) {
		return stale, err
	}
	s, err := v.nat.readNAT(v.family)
	if err != nil {
		return stale, err
	}
	if !s.enabled {
		*v.state = dnatState{}
		if !setsAny(changes) {
			return stale, nil
		}
		if err := v.restore(s, changes); err != nil {
			return stale, err
		}
	}
	if err := v.loadFor(changes); err != nil {
		return stale, err
	}
	return v.tryApply(changes)
}

// restore recreates a lost table without elements.
func (v dnat) restore(s *natState, changes []natChange) error {
	if v.family == nat6 {
		return v.base(changes)
	}
	if err := v.mustBeEnabled(s); err != nil {
		return err
	}
	b := v.family.batch()
	s.write(b)
	return v.nat.Commit(b)
}

// loadFor reads all elements and records an empty list for changing values without any, regardless
// of the registry: a transaction without an answer may have removed them.
func (v dnat) loadFor(changes []natChange) error {
	if err := v.loadDNAT(); err != nil {
		return err
	}
	for _, change := range changes {
		if _, ok := v.state.known[change.label]; !ok {
			v.state.known[change.label] = []nft.Element{}
		}
	}
	return nil
}

var errClaimed = errors.New("is mapped already")

func (v dnat) tryApply(changes []natChange) (leftBehind, error) {
	d := v.state
	if !d.loaded {
		if err := v.loadFor(changes); err != nil {
			return leftBehind{}, err
		}
	}
	stale := leftBehind{conntrack.Stale{}, judgedFlows{}}
	var gone, added []nft.Element
	classes := map[natClass]int{}
	claimed := map[[2]string]string{}
	for i, change := range changes {
		changes[i].elements = content(change.mappings)
		before, after := v.family.withClasses(v.current(change.label), classes, -1), changes[i].elements
		v.family.withClasses(after, classes, +1)
		for _, e := range after {
			claim, ok := claimOf(e)
			if !ok {
				continue
			}
			for _, owners := range []map[[2]string]string{d.owners, claimed} {
				if owner, taken := owners[claim]; taken && owner != change.label {
					return leftBehind{}, fmt.Errorf("%s %w by the %s value %q: each address, port and protocol has one mapping", v.family.claimed(e), errClaimed, v.family.model, owner)
				}
			}
			claimed[claim] = change.label
		}
		g, a := delta.Sorted(before, after, nft.Compare)
		gone, added = append(gone, g...), append(added, a...)
		v.family.noteStale(stale.flows, before, after)
		stale.judged.compare(v.family, before, after)
	}
	if len(gone)+len(added) == 0 {
		v.settleDNAT(changes, gone, classes)
		return leftBehind{}, nil
	}
	b := v.family.batch()
	d.makeClasses(v.family, b, classes)
	b.DeleteElements(gone)
	b.AddElements(added)
	d.dropClasses(b, classes)
	if err := v.nat.Commit(b); err != nil {
		return leftBehind{}, err
	}
	v.settleDNAT(changes, gone, classes)
	return stale, nil
}

func (v dnat) settleDNAT(changes []natChange, gone []nft.Element, classes map[natClass]int) {
	d := v.state
	for class, n := range classes {
		if d.classes[class] += n; d.classes[class] <= 0 {
			delete(d.classes, class)
		}
	}
	for _, e := range gone {
		if claim, ok := claimOf(e); ok {
			delete(d.owners, claim)
		}
	}
	for _, change := range changes {
		delete(d.known, change.label)
		for _, e := range change.elements {
			if claim, ok := claimOf(e); ok {
				d.owners[claim] = change.label
			}
		}
		if change.value == nil {
			v.Reg.Remove(v.family.named(change.label))
			continue
		}
		if usesInterfaces(change.value) {
			d.known[change.label] = change.elements
		}
		v.Reg.Put(change.value)
	}
}

// withClasses adds n to the count of each service's class, and returns the list.
func (f *natFamily) withClasses(list []nft.Element, classes map[natClass]int, n int) []nft.Element {
	for _, e := range list {
		if class, ok := classNamed(e.Set); ok && f.isFirstSlot(e) {
			classes[class] += n
		}
	}
	return list
}

// makeClasses adds the missing sets of classes, and replaces the rules of chains that depend on them.
func (d *dnatState) makeClasses(f *natFamily, b *nft.Batch, change map[natClass]int) {
	changed := false
	after := maps.Clone(d.classes)
	for class, n := range change {
		_, exists := d.classes[class]
		after[class] += n
		switch remain := after[class] > 0; {
		case remain && !exists:
			f.addClass(b, class)
			changed = true
		case !remain:
			delete(after, class)
			changed = changed || exists
		}
	}
	if !changed {
		return
	}
	have, want := f.classRules(d.classes), f.classRules(after)
	for chain := range maps.Keys(have) {
		if _, ok := want[chain]; !ok {
			b.FlushChain(chain)
			if isFilter(f.chain(chain)) {
				b.DeleteChain(chain)
			}
		}
	}
	for _, chain := range slices.Sorted(maps.Keys(want)) {
		if slices.EqualFunc(have[chain], want[chain], func(a, b natRule) bool { return a.mark() == b.mark() }) {
			continue
		}
		b.AddChain(f.chain(chain))
		for _, r := range want[chain] {
			r.addTo(b)
		}
	}
}

// classRules returns, by chain, the rules that depend on classes.
func (f *natFamily) classRules(classes map[natClass]int) map[string][]natRule {
	s := &natState{family: f, classes: map[natClass]bool{}}
	for class := range classes {
		s.classes[class] = true
	}
	r := &ruleset{family: f}
	s.balance(r)
	s.affinity(r)
	chains := map[string][]natRule{}
	for _, rule := range r.list {
		chains[rule.chain] = append(chains[rule.chain], rule)
	}
	return chains
}

func (d *dnatState) dropClasses(b *nft.Batch, change map[natClass]int) {
	for class, n := range change {
		if count, exists := d.classes[class]; exists && count+n <= 0 {
			b.DeleteSet(class.name())
		}
	}
}
