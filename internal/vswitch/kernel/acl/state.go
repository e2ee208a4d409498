package acl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

type aclState map[string]*aclTable

// aclTable is the content of a table; rules are represented by their comments.
type aclTable struct {
	// intact: the base chains and sets are correct.
	intact bool
	exists bool
	hooks  map[string]nft.Hook
	chains map[string][]string
	maps   map[string]map[string]string
}

func newACLTable() *aclTable {
	return &aclTable{hooks: map[string]nft.Hook{}, chains: map[string][]string{}, maps: map[string]map[string]string{}}
}

// Driver implements access lists in one network namespace.
type Driver struct {
	*own.Host
	acl aclCache // guarded by the nftables lock
}

// New returns a Driver, which needs no closing.
func New(host *own.Host) *Driver { return &Driver{Host: host} }

// aclCache is the state at a ruleset generation. It is valid while the kernel reports the same
// generation.
type aclCache struct {
	state      aclState
	generation uint32
}

// aclState returns the current content of the tables. The caller holds the nftables lock.
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
	if len(generations) == 1 { // no change between the two reads
		for generation := range generations {
			v.acl = aclCache{state, generation}
		}
	}
	return state, nil
}

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

// aclTableOf converts a table; nil means that the table does not exist.
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

// aclEdit collects changes for nftables transactions, one per family. state is the content after
// them.
type aclEdit struct {
	state   aclState
	batches map[string]*nft.Batch
	apply   func() error
	// later holds chains to delete once nothing jumps to them.
	later []string
}

func (e *aclEdit) in(family string) *nft.Batch {
	if e.batches[family] == nil {
		e.batches[family] = &nft.Batch{Table: AclTableName, Family: familyNumbers[family]}
	}
	return e.batches[family]
}

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

// setList replaces a list's rules, in a new chain. The list's chain jumps to it only when it is
// complete, and the former chain is deleted after that. The kernel (6.18) fills verdict maps of
// ranges shortly after the rules that use them take effect, and empties them shortly before the
// rules disappear. Packets in between would match nothing and reach the end of the lists.
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

// direct maps the device, and no other one, to the chain; "" removes the entry.
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

// changeACLs applies the changes of edit. One transaction contains all changes that packets can
// observe; others prepare it and clean up.
func (v *Driver) changeACLs(edit func(*aclEdit) error) error {
	return v.NFT.Locked(func() error {
		state, err := v.aclState()
		if err != nil {
			return err
		}
		generation := v.acl.generation
		v.acl = aclCache{} // invalid until the outcome is known
		e := &aclEdit{state: state, batches: map[string]*nft.Batch{}}
		e.apply = func() error {
			batches := slices.Collect(maps.Values(e.batches))
			clear(e.batches)
			if len(batches) > 0 && generation != 0 {
				generation++ // our own change; a concurrent one makes isCurrent return false
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

// supported wraps the errors of kernels without a required feature.
func supported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("access lists: this Linux kernel lacks a part of nftables (tables inet and bridge, "+
			"verdict maps, conntrack marks): %v", err)
	}
	return err
}
