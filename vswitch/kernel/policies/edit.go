package policies

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// edit collects a change. What the table holds is kept as if it had been made.
type edit struct {
	d    *Driver
	have *table
	// The three transactions.
	prepare, step, clean strings.Builder
	dropped              bool
}

func (e *edit) scripts() (scripts []string) {
	if e.step.Len() > 0 && !e.dropped {
		e.judgeAnew()
	}
	for _, b := range []*strings.Builder{&e.prepare, &e.step, &e.clean} {
		if b.Len() > 0 {
			scripts = append(scripts, b.String())
		}
	}
	return scripts
}

// command writes a command about an object of the table: "add set", "a4-web", …
func command(b *strings.Builder, verb, name, rest string) {
	fmt.Fprintf(b, "%s %s %s %s %s\n", verb, family, tableName, name, rest)
}

func fill(b *strings.Builder, chain string, rules []line) {
	command(b, "flush chain", chain, "")
	for _, l := range rules {
		command(b, "add rule", chain, fmt.Sprintf("%s comment %q", l.text, l.comment))
	}
}

// base makes what all else rests on.
func (e *edit) base() {
	if e.have.intact {
		return
	}
	b := &e.prepare
	fmt.Fprintf(b, "add table %s %s\n", family, tableName)
	for _, name := range slices.Sorted(maps.Keys(baseSets)) {
		if e.have.sets[name] == nil {
			command(b, "add set", name, fmt.Sprintf("{ type %s; }", baseSets[name]))
			e.have.sets[name] = map[string]bool{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(baseMaps)) {
		if e.have.maps[name] == nil {
			command(b, "add map", name, fmt.Sprintf("{ type %s : verdict; }", baseMaps[name]))
			e.have.maps[name] = map[string]string{}
		}
	}
	if e.have.generation == 0 {
		e.have.generation = 1
	}
	if _, ok := e.have.chains["forward"]; ok && e.have.hook != hookText {
		command(b, "delete chain", "forward", "")
	}
	for _, chain := range baseChains {
		if chain == "forward" {
			command(b, "add chain", chain, "{ "+hookText+" }")
		} else {
			command(b, "add chain", chain, "")
		}
	}
	for _, chain := range slices.Backward(baseChains) {
		rules := baseLines(chain, e.have.generation)
		fill(b, chain, rules)
		e.have.chains[chain] = comments(rules)
	}
	e.have.exists, e.have.intact, e.have.hook = true, true, hookText
}

// judgeAnew begins a generation, as part of the step.
func (e *edit) judgeAnew() {
	e.have.generation = e.have.generation%lastGeneration + 1
	for _, chain := range []string{"forward", "pass"} {
		rules := baseLines(chain, e.have.generation)
		fill(&e.step, chain, rules)
		e.have.chains[chain] = comments(rules)
	}
}

// inCommand is how many elements go into one command.
const inCommand = 500

// setElements makes sets have exactly the elements. Those that go, go first.
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
		e.members("delete element", name, gone)
		e.members("add element", name, new)
		e.have.sets[name] = maps.Clone(want[name])
	}
}

func (e *edit) members(verb, set string, list []string) {
	slices.Sort(list)
	for chunk := range slices.Chunk(list, inCommand) {
		command(&e.step, verb, set, "{ "+strings.Join(chunk, ", ")+" }")
	}
}

// ensureSet makes an empty set, if there is none. One that was found stays as it is until
// its value claims it, or turns out to be gone.
func (e *edit) ensureSet(name string) {
	if e.have.sets[name] != nil {
		return
	}
	typ := "ipv" + name[1:2] + "_addr"
	if strings.HasPrefix(name, endpointSet) {
		typ += " . inet_proto . inet_service"
	}
	command(&e.prepare, "add set", name, fmt.Sprintf("{ type %s; }", typ))
	e.have.sets[name] = map[string]bool{}
}

// addressSet gives a set its members; nil: none, if it exists.
func (e *edit) addressSet(id string, v *contiv_filter.AddressSet) {
	e.set(setsOf(addressSet, id), v != nil, addressElements(id, v))
}

func (e *edit) endpointSet(id string, v *contiv_filter.EndpointSet) {
	e.set(setsOf(endpointSet, id), v != nil, endpointElements(id, v))
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

// ensureChain makes a chain that nothing leads to yet have the rules.
func (e *edit) ensureChain(name string, rules []line) {
	e.d.known(name)
	found, ok := e.have.chains[name]
	if ok && slices.Equal(found, comments(rules)) {
		return
	}
	if !ok {
		command(&e.prepare, "add chain", name, "")
	}
	fill(&e.prepare, name, rules)
	e.have.chains[name] = comments(rules)
}

// ensureList makes a list without rules, if there is none. One that was found stays as it
// is until its value claims it, or turns out to be gone.
func (e *edit) ensureList(chain string) {
	if _, ok := e.have.chains[chain]; !ok {
		command(&e.prepare, "add chain", chain, "")
		e.have.chains[chain] = []string{}
	}
}

func (e *edit) list(c *compiled) {
	for _, set := range c.sets {
		e.ensureSet(set)
	}
	e.ensureChain(c.content(), c.lines)
	e.ensureList(c.chain())
	e.d.known(c.chain())
	if entry := c.entry(); !slices.Equal(e.have.chains[c.chain()], comments(entry)) {
		fill(&e.step, c.chain(), entry)
		e.have.chains[c.chain()] = comments(entry)
	}
}

func (e *edit) emptyList(id string) {
	chain := listChain + id
	e.d.known(chain)
	for name := range e.d.stale {
		if strings.HasPrefix(name, rulesChain+id+"/") {
			e.d.known(name)
		}
	}
	if rules, ok := e.have.chains[chain]; ok && len(rules) > 0 {
		fill(&e.step, chain, nil)
		e.have.chains[chain] = []string{}
	}
}

func (e *edit) subject(v *contiv_filter.Subject) {
	s := newSubject(v)
	for _, chain := range s.lists {
		e.ensureList(chain)
	}
	for prefix, rules := range map[string][]line{inChain: s.in, outChain: s.out} {
		if rules != nil {
			e.ensureChain(chainOf(prefix, rules), rules)
		}
	}
	before := e.d.want.remove(s.name)
	e.d.want.put(s)
	for _, addr := range slices.Concat(before, s.addrs) {
		e.address(addr)
	}
}

// removeSubject takes the name of a subject, or one that stands for an address.
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

// address makes maps lead from an address to where its subject wants, or nowhere.
func (e *edit) address(addr netip.Addr) {
	v, text := version(addr), addr.String()
	e.d.known(text)
	owner := e.d.want.owner(addr)
	targets := map[string]string{"in" + v: "", "out" + v: ""}
	if owner != nil {
		targets = owner.targets(addr)
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		have, target := e.have.maps[name][text], targets[name]
		if have == target {
			continue
		}
		if _, ok := e.have.maps[name][text]; ok {
			command(&e.step, "delete element", name, "{ "+text+" }")
			delete(e.have.maps[name], text)
		}
		if target != "" {
			command(&e.step, "add element", name, fmt.Sprintf("{ %s : goto %s }", text, target))
			e.have.maps[name][text] = target
		}
	}
	for name, member := range map[string]string{"subjects" + v: text, "self" + v: selfElement(addr)} {
		switch have := e.have.sets[name][member]; {
		case owner != nil && !have:
			e.members("add element", name, []string{member})
			e.have.sets[name][member] = true
		case owner == nil && have:
			e.members("delete element", name, []string{member})
			delete(e.have.sets[name], member)
		}
	}
}

// sweep removes what no value asks for, the table with the last value. While there are
// lists that no value has asked for or disowned yet, nobody knows which sets they need.
func (e *edit) sweep() {
	if !e.have.exists {
		return
	}
	e.disown()
	needed := e.d.want.needed()
	if len(needed) == 0 && len(e.d.stale) == 0 {
		fmt.Fprintf(&e.step, "delete table %s %s\n", family, tableName)
		e.prepare.Reset()
		*e.have, e.dropped = *newTable(), true
		return
	}
	// What is led to stays, and whatever that may refer to.
	led, keepLists, keepSets := map[string]bool{}, false, false
	for _, elements := range e.have.maps {
		for _, chain := range elements {
			led[chain] = true
			keepLists = keepLists || !needed[chain]
		}
	}
	for name := range e.d.stale {
		keepLists = keepLists || strings.HasPrefix(name, inChain) || strings.HasPrefix(name, outChain)
		keepSets = keepSets || strings.HasPrefix(name, rulesChain)
	}
	var chains []string
	for name := range e.have.chains {
		isList := strings.HasPrefix(name, listChain) || strings.HasPrefix(name, rulesChain)
		if !needed[name] && !e.d.stale[name] && !led[name] && !slices.Contains(baseChains, name) && !(isList && keepLists) {
			chains = append(chains, name)
		}
	}
	slices.Sort(chains)
	for _, name := range chains {
		command(&e.clean, "flush chain", name, "")
	}
	for _, name := range chains {
		command(&e.clean, "delete chain", name, "")
		delete(e.have.chains, name)
	}
	for _, name := range slices.Sorted(maps.Keys(e.have.sets)) {
		if _, base := baseSets[name]; !base && !keepSets && !keepLists && !needed[name] && !e.d.stale[name] {
			command(&e.clean, "delete set", name, "")
			delete(e.have.sets, name)
		}
	}
}

// disown gives up what was found and only served what is known, or gone, by now.
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

// named are the chains and sets that values stand for.
func (w *values) named() map[string]bool {
	objects := map[string]bool{}
	for id := range w.addresses {
		add(objects, setsOf(addressSet, id)...)
	}
	for id := range w.endpoints {
		add(objects, setsOf(endpointSet, id)...)
	}
	for _, c := range w.lists {
		add(objects, c.chain(), c.content())
	}
	for _, s := range w.subjects {
		add(objects, s.chains()...)
	}
	return objects
}

// needed are the chains and sets that values stand for or lead to.
func (w *values) needed() map[string]bool {
	objects := w.named()
	for _, c := range w.lists {
		add(objects, c.sets...)
	}
	for _, s := range w.subjects {
		add(objects, s.lists...)
	}
	return objects
}

func add(objects map[string]bool, names ...string) {
	for _, name := range names {
		objects[name] = true
	}
}
