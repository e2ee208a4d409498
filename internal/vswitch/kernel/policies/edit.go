package policies

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// edit collects a change. It keeps the known state of the table as if the change were committed.
type edit struct {
	d                    *Driver
	have                 *table
	prepare, step, clean nft.Batch

	moved []move
	// lists and outgrown hold changed lists and unions that outgrew their blocks: rewrite renders
	// their subjects, or with all every subject, again.
	lists, outgrown map[string]bool
	all             bool
	written         map[string]bool
	writer          *stageWriter
}

type move struct {
	set, addr string
	n         int
}

func newEdit(d *Driver) *edit {
	return &edit{d: d, have: d.have, prepare: batch(), step: batch(), clean: batch(), lists: map[string]bool{}, outgrown: map[string]bool{}, written: map[string]bool{}}
}

func batch() nft.Batch { return nft.Batch{Table: tableName, Family: unix.NFPROTO_INET} }

func (e *edit) transactions() (list []*nft.Batch, err error) {
	if e.have.intact && !e.step.Empty() {
		if err := e.judgeAnew(); err != nil {
			return nil, err
		}
	}
	for _, b := range []*nft.Batch{&e.prepare, &e.step, &e.clean} {
		if !b.Empty() {
			list = append(list, b)
		}
	}
	return list, nil
}

func fill(b *nft.Batch, chain string, rules []line) {
	b.FlushChain(chain)
	add(b, chain, rules)
}

func add(b *nft.Batch, chain string, rules []line) {
	for _, l := range rules {
		b.AddText(chain, l.comment, l.text)
	}
}

func (e *edit) base() {
	if e.have.intact {
		return
	}
	b := &e.prepare
	b.AddTable()
	for _, name := range slices.Sorted(maps.Keys(baseSets)) {
		if e.have.sets[name] == nil {
			b.AddSet(&nftables.Set{Name: name, KeyType: baseSets[name], Concatenation: strings.HasPrefix(name, "self")})
			e.have.sets[name] = map[string]bool{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(noteSets)) {
		if e.have.sets[name] == nil {
			b.AddSet(noteSets[name])
			e.have.sets[name] = map[string]bool{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(baseMaps)) {
		if e.have.maps[name] == nil {
			b.AddSet(&nftables.Set{Name: name, KeyType: baseMaps[name], IsMap: true, DataType: nftables.TypeVerdict})
			e.have.maps[name] = map[string]string{}
		}
	}
	if e.have.generation == 0 {
		e.have.generation = e.d.judged
	}
	for _, chain := range slices.Sorted(maps.Keys(hooks)) {
		if _, ok := e.have.chains[chain]; ok && e.have.hooks[chain] != hooks[chain] {
			b.FlushChain(chain)
			b.DeleteChain(chain)
		}
	}
	for _, chain := range baseChains {
		b.AddChain(baseChain(chain))
	}
	for _, chain := range slices.Backward(baseChains) {
		rules := baseLines(chain, e.have.generation)
		fill(b, chain, rules)
		e.have.chains[chain] = comments(rules)
	}
	e.have.exists, e.have.intact, e.have.hooks = true, true, maps.Clone(hooks)
}

// judgeAnew starts a generation as part of the step.
func (e *edit) judgeAnew() error {
	if err := e.d.judgeAnew(); err != nil {
		return err
	}
	e.have.generation = e.d.judged
	for _, chain := range []string{"forward", "pass"} {
		rules := baseLines(chain, e.have.generation)
		fill(&e.step, chain, rules)
		e.have.chains[chain] = comments(rules)
	}
	return nil
}

// setElements replaces the elements of sets. It deletes before it adds.
func (e *edit) setElements(want elements) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		e.d.known(name)
		have := e.have.sets[name]
		var gone, new []string
		for member := range have {
			if !want[name][member] {
				gone = append(gone, member)
			}
		}
		for member := range want[name] {
			if !have[member] {
				new = append(new, member)
			}
		}
		e.step.DeleteElements(members(name, gone))
		e.step.AddElements(members(name, new))
		e.have.sets[name] = maps.Clone(want[name])
		e.move(name, gone, -1)
		e.move(name, new, +1)
	}
}

func (e *edit) move(set string, addrs []string, n int) {
	if !strings.HasPrefix(set, addressSet) {
		return
	}
	for _, addr := range addrs {
		e.moved = append(e.moved, move{set, addr, n})
	}
}

func (e *edit) follow() {
	touched := map[*union]map[string]bool{}
	for _, m := range e.moved {
		for u := range e.d.unions.of[m.set] {
			if touched[u] == nil {
				touched[u] = map[string]bool{}
			}
			for _, port := range u.ports[m.set] {
				key := m.addr + port
				touched[u][key] = true
				if u.counts[key] += m.n; u.counts[key] == 0 {
					delete(u.counts, key)
				}
			}
			if len(u.counts) > e.d.limits.union || len(e.have.sets[m.set]) > e.d.limits.set {
				e.outgrown[u.name] = true
			}
		}
	}
	e.moved = nil
	for _, u := range slices.SortedFunc(maps.Keys(touched), func(a, b *union) int { return strings.Compare(a.name, b.name) }) {
		have := e.have.sets[u.name]
		var gone, new []string
		for key := range touched[u] {
			switch wanted := u.counts[key] > 0; {
			case wanted && !have[key]:
				new = append(new, key)
				have[key] = true
			case !wanted && have[key]:
				gone = append(gone, key)
				delete(have, key)
			}
		}
		e.step.DeleteElements(members(u.name, gone))
		e.step.AddElements(members(u.name, new))
	}
}

// ensureUnion creates a union. A union found in the table may have other members.
func (e *edit) ensureUnion(u *union) {
	if e.d.unions.byName[u.name] != nil {
		return
	}
	b := &e.step
	if e.have.sets[u.name] == nil {
		e.ensureSet(u.name)
		b = &e.prepare // no packet uses it yet
	}
	u.count(e.have.sets)
	have := e.have.sets[u.name]
	var gone, new []string
	for key := range have {
		if u.counts[key] == 0 {
			gone = append(gone, key)
			delete(have, key)
		}
	}
	for key := range u.counts {
		if !have[key] {
			new = append(new, key)
			have[key] = true
		}
	}
	b.DeleteElements(members(u.name, gone))
	b.AddElements(members(u.name, new))
	e.d.unions.add(u)
}

func members(set string, keys []string) []nft.Element {
	slices.Sort(keys)
	list := make([]nft.Element, len(keys))
	for i, key := range keys {
		list[i] = nft.Element{Set: set, Key: key}
	}
	return list
}

// ensureSet creates an empty set if it is missing. A set found in the table stays unchanged until
// its value claims or disowns it.
func (e *edit) ensureSet(name string) {
	if e.have.sets[name] != nil {
		return
	}
	set := &nftables.Set{Name: name, KeyType: addressType[name[1:2]]}
	if strings.HasPrefix(name, endpointSet) || strings.HasPrefix(name, portUnion) {
		set.KeyType, set.Concatenation = endpointType[name[1:2]], true
	}
	e.prepare.AddSet(set)
	e.have.sets[name] = map[string]bool{}
}

// addressSet sets the members of an existing set; nil: none.
func (e *edit) addressSet(id string, v *contiv_filter.AddressSet) {
	versions := e.d.want.versions
	e.set(versions.setsOf(addressSet, id), v != nil, addressElements(id, v, versions))
}

func (e *edit) endpointSet(id string, v *contiv_filter.EndpointSet) {
	versions := e.d.want.versions
	e.set(versions.setsOf(endpointSet, id), v != nil, endpointElements(id, v, versions))
}

func (e *edit) set(names []string, wanted bool, members elements) {
	for _, name := range names {
		switch {
		case wanted:
			e.ensureSet(name)
		case e.have.sets[name] == nil:
			delete(members, name)
		}
	}
	e.setElements(members)
}

func (e *edit) ensureChain(name string, rules []line) {
	e.d.known(name)
	if e.have.has(name, rules) {
		return
	}
	if _, ok := e.have.chains[name]; ok {
		fill(&e.prepare, name, rules)
	} else {
		e.prepare.AddChain(&nftables.Chain{Name: name})
		add(&e.prepare, name, rules)
	}
	e.have.chains[name] = comments(rules)
}

func (e *edit) list(p *program) {
	for _, set := range p.sets {
		e.ensureSet(set)
	}
	e.ensureChain(p.content, p.lines)
	e.d.known(p.chain)
	entry := p.entry()
	if _, ok := e.have.chains[p.chain]; !ok {
		e.ensureChain(p.chain, entry)
	} else if !e.have.has(p.chain, entry) {
		fill(&e.step, p.chain, entry)
		e.have.chains[p.chain] = comments(entry)
	}
}

func (e *edit) claimList(id string) {
	e.d.known(listChain + id)
	for name := range e.d.stale {
		if strings.HasPrefix(name, rulesChain+id+"/") {
			e.d.known(name)
		}
	}
}

func (e *edit) emptyList(id string) {
	chain := listChain + id
	e.claimList(id)
	if rules, ok := e.have.chains[chain]; ok && len(rules) > 0 {
		fill(&e.step, chain, nil)
		e.have.chains[chain] = []string{}
	}
}

func (e *edit) subject(v *contiv_filter.Subject) {
	s := e.write(v)
	before := e.d.want.remove(s.name)
	e.d.want.put(s)
	for _, addr := range slices.Concat(before, s.addrs) {
		e.address(addr)
	}
}

// write renders a subject.
func (e *edit) write(v *contiv_filter.Subject) *subject {
	if e.writer == nil {
		e.writer = newWriter(e.d)
	}
	s := e.writer.subject(v)
	for _, stages := range []stages{s.in, s.out} {
		if stages.chain == "" {
			continue
		}
		for _, l := range stages.lists {
			e.list(l.compile(e.d.want.versions))
		}
		for _, set := range stages.sets {
			if !isUnion(set) {
				e.ensureSet(set)
			}
		}
		for _, u := range stages.unions {
			e.ensureUnion(u)
		}
		e.ensureChain(stages.chain, stages.rules)
	}
	e.d.known(s.chains()...)
	e.written[s.name] = true
	return s
}

func (e *edit) rewrite() {
	for _, name := range slices.Sorted(maps.Keys(e.d.want.subjects)) {
		old := e.d.want.subjects[name]
		if !e.written[name] && (e.all || old.names(e.lists) || old.has(e.outgrown)) {
			s := e.write(old.value)
			e.d.want.keep(s)
			for _, addr := range s.addrs {
				e.address(addr)
			}
			continue
		}
		for _, u := range slices.Concat(old.in.unions, old.out.unions) {
			e.ensureUnion(u) // reading the table again forgets all unions
		}
	}
}

// removeSubject takes the name of a subject, or one that represents an address.
func (e *edit) removeSubject(name string) {
	if text, ok := strings.CutPrefix(name, unknown); ok {
		if addr, err := netip.ParseAddr(text); err == nil {
			e.address(addr)
		}
		return
	}
	for _, addr := range e.d.want.remove(name) {
		e.address(addr)
	}
}

// address maps an address to the chains of its subject, or removes it from the maps.
func (e *edit) address(addr netip.Addr) {
	v, key := version(addr), addressKey(addr)
	e.d.known(addr.String())
	owner := e.d.want.owner(addr)
	targets := map[string]string{"in" + v: "", "out" + v: ""}
	if owner != nil {
		targets = owner.targets(addr)
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		have, target := e.have.maps[name][key], targets[name]
		if have == target {
			continue
		}
		if _, ok := e.have.maps[name][key]; ok {
			e.step.DeleteElements([]nft.Element{{Set: name, Key: key}})
			delete(e.have.maps[name], key)
		}
		if target != "" {
			e.step.AddElements([]nft.Element{{Set: name, Key: key, Verdict: "goto " + target}})
			e.have.maps[name][key] = target
		}
	}
	for name, member := range map[string]string{"subjects" + v: key, "self" + v: selfKey(addr)} {
		switch have := e.have.sets[name][member]; {
		case owner != nil && !have:
			e.step.AddElements(members(name, []string{member}))
			e.have.sets[name][member] = true
		case owner == nil && have:
			e.step.DeleteElements(members(name, []string{member}))
			delete(e.have.sets[name], member)
		}
	}
}

func (e *edit) drop() {
	e.prepare, e.step, e.clean = batch(), batch(), batch()
	if e.have.exists {
		e.step.DeleteTable()
	}
	*e.have, e.d.unions = *newTable(), newUnions()
}

// retire reduces the table to an unreachable chain with the generation. Connection marks outlive
// the values and refer to it.
func (e *edit) retire() {
	if e.have.isRetired() {
		return
	}
	e.drop()
	e.step.AddTable()
	e.step.AddChain(&nftables.Chain{Name: "forward"})
	rules := baseLines("forward", e.d.judged)[:1]
	add(&e.step, "forward", rules)
	e.have.exists, e.have.generation, e.have.chains["forward"] = true, e.d.judged, comments(rules)
}

// sweep removes the objects that no value needs. It keeps all sets while some lists are neither
// claimed nor disowned, because these lists may need any set.
func (e *edit) sweep() {
	if !e.have.exists {
		return
	}
	e.disown()
	if len(e.d.want.needed) == 0 && len(e.d.stale) == 0 {
		e.retire()
		return
	}
	candidates := slices.Sorted(maps.Keys(e.d.want.idle))
	if e.d.sweepAll || len(e.d.stale) > 0 {
		candidates = e.unneeded()
		e.d.sweepAll = len(e.d.stale) > 0
	}
	clear(e.d.want.idle)
	chains := slices.DeleteFunc(slices.Clone(candidates), func(name string) bool { return e.have.chains[name] == nil || slices.Contains(baseChains, name) })
	for _, name := range chains {
		e.clean.FlushChain(name)
	}
	for _, name := range chains {
		e.clean.DeleteChain(name)
		delete(e.have.chains, name)
	}
	for _, name := range candidates {
		if e.have.sets[name] != nil {
			e.clean.DeleteSet(name)
			e.move(name, slices.Collect(maps.Keys(e.have.sets[name])), -1)
			e.d.unions.remove(name)
			delete(e.have.sets, name)
		}
	}
	e.follow()
}

// unneeded returns the chains and sets that no value needs and no remaining map element can reach.
func (e *edit) unneeded() (list []string) {
	needed := e.d.want.needed
	led, keepLists, keepSets := map[string]bool{}, false, false
	for _, elements := range e.have.maps {
		for _, chain := range elements {
			led[chain] = true
			keepLists = keepLists || needed[chain] == 0
		}
	}
	for name := range e.d.stale {
		keepLists = keepLists || strings.HasPrefix(name, inChain) || strings.HasPrefix(name, outChain)
		keepSets = keepSets || strings.HasPrefix(name, rulesChain)
	}
	for name := range e.have.chains {
		isList := strings.HasPrefix(name, listChain) || strings.HasPrefix(name, rulesChain)
		if needed[name] == 0 && !e.d.stale[name] && !led[name] && !slices.Contains(baseChains, name) && !(isList && keepLists) {
			list = append(list, name)
		}
	}
	for name := range e.have.sets {
		if !isBase(name) && !keepSets && !keepLists && needed[name] == 0 && !e.d.stale[name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// disown releases found objects after all their users were claimed or removed.
func (e *edit) disown() {
	addresses := false
	for name := range e.d.stale {
		_, err := netip.ParseAddr(name)
		addresses = addresses || err == nil
	}
	for name := range e.d.stale {
		served := false
		switch id, isRules := strings.CutPrefix(name, rulesChain); {
		case isRules:
			id, _, _ = strings.Cut(id, "/")
			served = e.d.stale[listChain+id]
		case strings.HasPrefix(name, inChain), strings.HasPrefix(name, outChain):
			served = addresses
		default:
			continue
		}
		if !served {
			delete(e.d.stale, name)
		}
	}
}

func (w *values) named() map[string]bool {
	objects := map[string]bool{}
	for id := range w.addresses {
		note(objects, setsOf(addressSet, id)...)
	}
	for id := range w.endpoints {
		note(objects, setsOf(endpointSet, id)...)
	}
	for _, l := range w.lists {
		note(objects, l.chain())
	}
	for _, s := range w.subjects {
		note(objects, s.chains()...)
	}
	return objects
}

func note(objects map[string]bool, names ...string) {
	for _, name := range names {
		objects[name] = true
	}
}
