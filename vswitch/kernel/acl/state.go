package acl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// aclState is what the tables of both families hold.
type aclState map[string]*aclTable

// aclTable is what a table holds; rules are known by their comments.
type aclTable struct {
	// intact: what the table has beside lists and interfaces is as it should be.
	intact bool
	exists bool
	hooks  map[string]nft.Hook // of base chains
	chains map[string][]string
	// maps lead from devices to chains.
	maps map[string]map[string]string
}

func newACLTable() *aclTable {
	return &aclTable{hooks: map[string]nft.Hook{}, chains: map[string][]string{}, maps: map[string]map[string]string{}}
}

// Driver is access lists in one network namespace.
type Driver struct {
	*own.Host
	acl aclCache // the lock of nftables guards it
}

// New returns a Driver; there is nothing to close.
func New(host *own.Host) *Driver { return &Driver{Host: host} }

// aclCache is the state at a generation of the ruleset. While the kernel is at that
// generation, nobody has changed anything.
type aclCache struct {
	state      aclState
	generation uint32
}

// aclState returns what the tables hold now. The caller holds the lock of nftables.
func (v *Driver) aclState() (aclState, error) {
	if v.acl.state != nil && v.isCurrent() {
		return v.acl.state, nil
	}
	v.acl = aclCache{}
	state, generations := aclState{}, map[uint32]bool{}
	for _, family := range aclFamilies {
		found, generation, err := v.NFT.ReadTable(familyNumbers[family], AclTableName)
		if err != nil {
			return nil, fmt.Errorf("reading nftables table %s %s: %w", family, AclTableName, supported(err))
		}
		state[family] = aclTableOf(family, found)
		generations[generation] = true
	}
	if len(generations) == 1 { // nobody changed one while the other was read
		for generation := range generations {
			v.acl = aclCache{state, generation}
		}
	}
	return state, nil
}

// isCurrent reports whether the tables are as they were when they were known.
func (v *Driver) isCurrent() bool {
	now := uint32(0)
	for _, family := range aclFamilies {
		at, ok := v.NFT.Unchanged(family+" "+AclTableName, v.acl.generation)
		if !ok || now != 0 && at != now {
			return false
		}
		now = at
	}
	v.acl.generation = now
	return true
}

// aclTableOf is what was read; nil: there is no table.
func aclTableOf(family string, found *nft.Table) *aclTable {
	t := newACLTable()
	if found == nil {
		return t
	}
	t.exists = true
	for name, c := range found.Chains {
		t.chains[name] = append([]string{}, c.Rules...)
		if c.Hook != nil {
			t.hooks[name] = *c.Hook
		}
	}
	for _, name := range aclMaps {
		s, ok := found.Sets[name]
		if !ok {
			continue
		}
		t.maps[name] = map[string]string{}
		for _, e := range s.Elements {
			t.maps[name][strings.TrimRight(e.Key, "\x00")] = strings.TrimPrefix(e.Verdict, "goto ")
		}
	}
	t.intact = t.isIntact(family, found.Sets)
	return t
}

func (t *aclTable) isIntact(family string, sets map[string]nft.Set) bool {
	for _, name := range aclMaps {
		if t.maps[name] == nil {
			return false
		}
	}
	for _, session := range sessionSets(family) {
		if _, ok := sets[session.name]; !ok {
			return false
		}
	}
	for _, c := range aclBase(family) {
		found, ok := t.chains[c.name]
		hook, hooked := t.hooks[c.name]
		if !ok || !slices.Equal(found, commentsOf(c.lines)) || hooked != (c.hook != nil) || hooked && hook != *c.hook {
			return false
		}
	}
	return true
}

func commentsOf(lines []aclLine) []string {
	comments := make([]string, len(lines))
	for i, l := range lines {
		comments[i] = l.comment
	}
	return comments
}

// aclEdit collects changes of the tables for transactions of nftables, one for each
// family. The state is what the tables hold when they have been made.
type aclEdit struct {
	state   aclState
	batches map[string]*nft.Batch
	// apply makes the changes so far.
	apply func() error
	// later are chains to be removed when nothing leads there any more.
	later []string
}

// in collects changes of the table of a family.
func (e *aclEdit) in(family string) *nft.Batch {
	if e.batches[family] == nil {
		e.batches[family] = &nft.Batch{Table: AclTableName, Family: familyNumbers[family]}
	}
	return e.batches[family]
}

// base makes what lists and interfaces rest on.
func (e *aclEdit) base() {
	for _, family := range aclFamilies {
		table := e.state[family]
		if table.intact {
			continue
		}
		b, chains := e.in(family), aclBase(family)
		b.AddTable()
		for _, name := range aclMaps {
			b.AddSet(&nftables.Set{Name: name, KeyType: nftables.TypeIFName, IsMap: true, DataType: nftables.TypeVerdict})
			if table.maps[name] == nil {
				table.maps[name] = map[string]string{}
			}
		}
		for _, s := range sessionSets(family) {
			b.AddTypeof(s.name, s.key, sessionsOfEach)
		}
		for _, c := range chains {
			if hook, ok := table.hooks[c.name]; ok && (c.hook == nil || hook != *c.hook) {
				b.FlushChain(c.name)
				b.DeleteChain(c.name)
			}
			b.AddChain(c.chain())
		}
		for _, c := range chains {
			e.fill(family, c.name, c.lines)
			if c.hook != nil {
				table.hooks[c.name] = *c.hook
			}
		}
		table.exists, table.intact = true, true
	}
}

func (e *aclEdit) fill(family, chain string, lines []aclLine) {
	b := e.in(family)
	b.FlushChain(chain)
	for _, l := range lines {
		b.AddText(chain, l.comment, l.text)
	}
	e.state[family].chains[chain] = commentsOf(lines)
}

// set makes a chain consist of the rules.
func (e *aclEdit) set(chain string, lines []aclLine) {
	for _, family := range aclFamilies {
		found, ok := e.state[family].chains[chain]
		if !ok {
			e.in(family).AddChain(&nftables.Chain{Name: chain})
		}
		if !ok || !slices.Equal(found, commentsOf(lines)) {
			e.fill(family, chain, lines)
		}
	}
}

// setList makes a list consist of the rules, in a chain of their own. Only when that
// is ready, the chain of the list leads there, and only then the former one goes: the
// kernel (6.18) fills verdict maps of ranges a moment after the rules that use them
// count, and empties them a moment before. Packets in between would find nothing and
// meet the end of the lists.
func (e *aclEdit) setList(chain string, lines []aclLine) error {
	content := contentChain(chain, lines)
	e.set(content, lines)
	if err := e.apply(); err != nil {
		return err
	}
	e.set(chain, []aclLine{{"goto " + content, content}})
	for _, old := range e.state.chainsOf(contentPrefix(chain)) {
		if old != content {
			e.dropLater(old)
		}
	}
	return nil
}

func (e *aclEdit) dropLater(chain string) { e.later = append(e.later, chain) }

func (e *aclEdit) drop(chain string) {
	for _, family := range aclFamilies {
		if _, ok := e.state[family].chains[chain]; ok {
			e.in(family).FlushChain(chain)
			e.in(family).DeleteChain(chain)
			delete(e.state[family].chains, chain)
		}
	}
}

func (e *aclEdit) dropTables() {
	for _, family := range aclFamilies {
		if e.state[family].exists {
			e.in(family).DeleteTable()
			e.state[family] = newACLTable()
		}
	}
}

// direct makes a map lead from the device to the chain, and no other device; "":
// none at all.
func (e *aclEdit) direct(name, device, chain string) {
	for _, family := range aclFamilies {
		elements := e.state[family].maps[name]
		for other, target := range elements {
			if (target == chain) != (other == device) {
				e.in(family).DeleteElements([]nft.Element{{Set: name, Key: nft.DeviceKey(other)}})
				delete(elements, other)
			}
		}
		if device != "" && elements[device] != chain {
			e.in(family).AddElements([]nft.Element{{Set: name, Key: nft.DeviceKey(device), Verdict: "goto " + chain}})
			elements[device] = chain
		}
	}
}

// changeACLs makes the changes that edit asks for. One transaction makes all changes that packets
// can notice; others prepare it and clean up after it.
func (v *Driver) changeACLs(edit func(*aclEdit) error) error {
	return v.NFT.Locked(func() error {
		state, err := v.aclState()
		if err != nil {
			return err
		}
		generation := v.acl.generation
		v.acl = aclCache{} // until it is known how this ends
		e := &aclEdit{state: state, batches: map[string]*nft.Batch{}}
		e.apply = func() error {
			batches := slices.Collect(maps.Values(e.batches))
			clear(e.batches)
			if len(batches) > 0 && generation != 0 {
				generation++ // ours, unless others change something, too: see isCurrent
			}
			return supported(v.NFT.Commit(batches...))
		}
		if err := edit(e); err != nil {
			return err
		}
		if err := e.apply(); err != nil {
			return err
		}
		for _, chain := range e.later {
			e.drop(chain)
		}
		if err := e.apply(); err != nil {
			return err
		}
		if generation != 0 {
			v.acl = aclCache{state, generation}
		}
		return nil
	})
}

// supported says what a kernel lacks that refuses a transaction.
func supported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("access lists: this Linux kernel lacks a part of nftables (tables inet and bridge, "+
			"verdict maps, conntrack marks): %v", err)
	}
	return err
}
