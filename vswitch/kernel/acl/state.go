package acl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// aclState is what the tables of both families hold.
type aclState map[string]*aclTable

// aclTable is what a table holds; rules are known by their comments.
type aclTable struct {
	// intact: what the table has beside lists and interfaces is as it should be.
	intact bool
	exists bool
	hooks  map[string]string // base chains: type, hook, priority, policy
	chains map[string][]string
	// maps lead from devices to chains.
	maps map[string]map[string]string
}

func newACLTable() *aclTable {
	return &aclTable{hooks: map[string]string{}, chains: map[string][]string{}, maps: map[string]map[string]string{}}
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
func (v *Driver) aclState(ctx context.Context) (aclState, error) {
	before, known := v.NFT.Gen.Current()
	if known && v.acl.state != nil && v.acl.generation == before {
		return v.acl.state, nil
	}
	v.acl = aclCache{}
	state := aclState{}
	for _, family := range aclFamilies {
		table, err := readACLTable(ctx, family)
		if err != nil {
			return nil, fmt.Errorf("reading nftables table %s %s: %w", family, AclTableName, err)
		}
		state[family] = table
	}
	if after, ok := v.NFT.Gen.Current(); ok && known && after == before {
		v.acl = aclCache{state, after}
	}
	return state, nil
}

// nftObject is one object of a listing of nft.
type nftObject struct {
	Chain *struct {
		Name, Type, Hook, Policy string
		Prio                     int
	}
	Rule *struct{ Chain, Comment string }
	Map  *struct {
		Name string
		Elem [][2]json.RawMessage
	}
	Set *struct{ Name string }
}

func readACLTable(ctx context.Context, family string) (*aclTable, error) {
	t := newACLTable()
	// Terse: sessions are many and none of our business here.
	objects, err := listNFT(ctx, "-t", "-j", "list", "table", family, AclTableName)
	if errors.Is(err, errNoNFTObject) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.exists = true
	sets := map[string]bool{}
	for _, o := range objects {
		switch {
		case o.Chain != nil:
			t.chains[o.Chain.Name] = []string{}
			if o.Chain.Hook != "" {
				t.hooks[o.Chain.Name] = hookText(o.Chain.Type, o.Chain.Hook, o.Chain.Prio, o.Chain.Policy)
			}
		case o.Rule != nil:
			t.chains[o.Rule.Chain] = append(t.chains[o.Rule.Chain], o.Rule.Comment)
		case o.Map != nil:
			if t.maps[o.Map.Name], err = readACLMap(ctx, family, o.Map.Name); err != nil {
				return nil, err
			}
		case o.Set != nil:
			sets[o.Set.Name] = true
		}
	}
	t.intact = t.isIntact(family, sets)
	return t, nil
}

func readACLMap(ctx context.Context, family, name string) (map[string]string, error) {
	objects, err := listNFT(ctx, "-j", "list", "map", family, AclTableName, name)
	if err != nil {
		return nil, err
	}
	elements := map[string]string{}
	for _, o := range objects {
		if o.Map == nil {
			continue
		}
		for _, e := range o.Map.Elem {
			var device string
			var verdict struct{ Goto struct{ Target string } }
			if json.Unmarshal(e[0], &device) == nil && json.Unmarshal(e[1], &verdict) == nil {
				elements[device] = verdict.Goto.Target
			}
		}
	}
	return elements, nil
}

func (t *aclTable) isIntact(family string, sets map[string]bool) bool {
	objects, chains := aclBase(family)
	for _, object := range objects {
		fields := strings.Fields(object)
		name := fields[3]
		if fields[0] == "map" && t.maps[name] == nil || fields[0] == "set" && !sets[name] {
			return false
		}
	}
	for _, c := range chains {
		found, ok := t.chains[c.name]
		if !ok || !slices.Equal(found, commentsOf(c.lines)) || t.hooks[c.name] != c.hookText() {
			return false
		}
	}
	return true
}

func (c aclChain) hookText() string {
	if c.hook == "" {
		return ""
	}
	return hookText("filter", c.hook, c.priority, "accept")
}

func hookText(typ, hook string, priority int, policy string) string {
	return fmt.Sprintf("type %s hook %s priority %d; policy %s;", typ, hook, priority, policy)
}

func commentsOf(lines []aclLine) []string {
	comments := make([]string, len(lines))
	for i, l := range lines {
		comments[i] = l.comment
	}
	return comments
}

// aclEdit collects changes of the tables for transactions of nftables. The
// state is what the tables hold when they have been made.
type aclEdit struct {
	state    aclState
	commands strings.Builder
	// apply makes the changes so far.
	apply func() error
	// later are chains to be removed when nothing leads there any more.
	later []string
}

func (e *aclEdit) command(format string, args ...any) {
	fmt.Fprintf(&e.commands, format+"\n", args...)
}

// base makes what lists and interfaces rest on.
func (e *aclEdit) base() {
	for _, family := range aclFamilies {
		table := e.state[family]
		if table.intact {
			continue
		}
		objects, chains := aclBase(family)
		e.command("add table %s %s", family, AclTableName)
		for _, object := range objects {
			e.command("add %s", object)
		}
		for _, c := range chains {
			if hook, ok := table.hooks[c.name]; ok && hook != c.hookText() {
				e.command("delete chain %s %s %s", family, AclTableName, c.name)
			}
			if c.hook == "" {
				e.command("add chain %s %s %s", family, AclTableName, c.name)
			} else {
				e.command("add chain %s %s %s { %s }", family, AclTableName, c.name, c.hookText())
			}
		}
		for _, c := range chains {
			e.fill(family, c.name, c.lines)
			if c.hook != "" {
				table.hooks[c.name] = c.hookText()
			}
		}
		for _, name := range aclMaps {
			if table.maps[name] == nil {
				table.maps[name] = map[string]string{}
			}
		}
		table.exists, table.intact = true, true
	}
}

func (e *aclEdit) fill(family, chain string, lines []aclLine) {
	e.command("flush chain %s %s %s", family, AclTableName, chain)
	for _, l := range lines {
		e.command("add rule %s %s %s %s comment %q", family, AclTableName, chain, l.text, l.comment)
	}
	e.state[family].chains[chain] = commentsOf(lines)
}

// set makes a chain consist of the rules.
func (e *aclEdit) set(chain string, lines []aclLine) {
	for _, family := range aclFamilies {
		found, ok := e.state[family].chains[chain]
		if !ok {
			e.command("add chain %s %s %s", family, AclTableName, chain)
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
			e.command("flush chain %s %s %s", family, AclTableName, chain)
			e.command("delete chain %s %s %s", family, AclTableName, chain)
			delete(e.state[family].chains, chain)
		}
	}
}

func (e *aclEdit) dropTables() {
	for _, family := range aclFamilies {
		if e.state[family].exists {
			e.command("delete table %s %s", family, AclTableName)
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
				e.command("delete element %s %s %s { %q }", family, AclTableName, name, other)
				delete(elements, other)
			}
		}
		if device != "" && elements[device] != chain {
			e.command("add element %s %s %s { %q : goto %s }", family, AclTableName, name, device, chain)
			elements[device] = chain
		}
	}
}

// changeACLs makes the changes that edit asks for: in one transaction all that
// packets can notice, in others what prepares it and what cleans up.
func (v *Driver) changeACLs(ctx context.Context, edit func(*aclEdit) error) error {
	return v.NFT.Locked(func() error {
		state, err := v.aclState(ctx)
		if err != nil {
			return err
		}
		generation := v.acl.generation
		v.acl = aclCache{} // until it is known how this ends
		e := &aclEdit{state: state}
		e.apply = func() (err error) {
			generation, err = v.applyACLs(ctx, e, generation)
			return err
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

// applyACLs makes the changes so far, on top of a generation of the ruleset, and
// returns the generation with them, 0 if others may have changed something, too.
func (v *Driver) applyACLs(ctx context.Context, e *aclEdit, before uint32) (uint32, error) {
	if e.commands.Len() == 0 {
		return before, nil
	}
	input := e.commands.String()
	e.commands.Reset()
	err := v.NFT.Gen.Own(func() error {
		_, err := runNFT(ctx, input, "-f", "-")
		return err
	})
	if after, ok := v.NFT.Gen.Current(); err == nil && ok && before != 0 && after == before+1 {
		return after, nil
	}
	return 0, err
}

var errNoNFTObject = errors.New("no such object")

func listNFT(ctx context.Context, args ...string) ([]nftObject, error) {
	out, err := runNFT(ctx, "", args...)
	if err != nil {
		return nil, err
	}
	var listing struct{ NFTables []nftObject }
	if err := json.Unmarshal(out, &listing); err != nil {
		return nil, fmt.Errorf("reading the output of nft %s: %w", strings.Join(args, " "), err)
	}
	return listing.NFTables, nil
}

// runNFT runs the program in the network namespace of the thread.
func runNFT(ctx context.Context, input string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "nft", args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("access lists need the program nft, 1.0.1 or newer (Debian package nftables): %w", err)
	case strings.Contains(text, "No such file or directory"):
		return nil, fmt.Errorf("%w: %s", errNoNFTObject, text)
	case strings.Contains(text, "Operation not supported"), strings.Contains(text, "Protocol not supported"):
		return nil, vswitch.Unsupported("access lists: this Linux kernel lacks a part of nftables (tables inet and bridge, "+
			"verdict maps, conntrack marks): %s", text)
	}
	return nil, fmt.Errorf("nft: %w: %s", err, text)
}
