package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/filter"
)

// table is what nftables holds.
type table struct {
	exists bool
	// intact: the base is as it should be, at the generation.
	intact     bool
	generation int
	sets       map[string]map[string]bool
	maps       map[string]map[string]string
	chains     map[string][]string // comments of rules
	hook       string
}

func newTable() *table {
	return &table{sets: map[string]map[string]bool{}, maps: map[string]map[string]string{}, chains: map[string][]string{}}
}

// object is one object of a listing.
type object struct {
	Chain *struct {
		Name, Type, Hook, Policy string
		Prio                     int
	}
	Rule *struct{ Chain, Comment string }
	Set  *struct {
		Name string
		Elem []json.RawMessage
	}
	Map *struct {
		Name string
		Elem [][2]json.RawMessage
	}
}

func read(ctx context.Context, nft NFT) (*table, error) {
	t := newTable()
	out, err := nft.Read(ctx, family, tableName)
	if errors.Is(err, ErrNoTable) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	var listing struct{ NFTables []object }
	if err := json.Unmarshal(out, &listing); err != nil {
		return nil, fmt.Errorf("the output of nft: %w", err)
	}
	t.exists = true
	for _, o := range listing.NFTables {
		switch {
		case o.Chain != nil:
			t.chains[o.Chain.Name] = []string{}
			if o.Chain.Hook != "" {
				t.hook = fmt.Sprintf("type %s hook %s priority %d; policy %s;", o.Chain.Type, o.Chain.Hook, o.Chain.Prio, o.Chain.Policy)
			}
		case o.Rule != nil:
			t.chains[o.Rule.Chain] = append(t.chains[o.Rule.Chain], o.Rule.Comment)
		case o.Set != nil:
			t.sets[o.Set.Name] = map[string]bool{}
			for _, e := range o.Set.Elem {
				t.sets[o.Set.Name][element(e)] = true
			}
		case o.Map != nil:
			t.maps[o.Map.Name] = map[string]string{}
			for _, e := range o.Map.Elem {
				var verdict struct{ Goto struct{ Target string } }
				_ = json.Unmarshal(e[1], &verdict)
				t.maps[o.Map.Name][element(e[0])] = verdict.Goto.Target
			}
		}
	}
	t.generation = generationOf(t.chains["forward"])
	t.intact = t.isIntact()
	return t, nil
}

// element writes an element as scripts do.
func element(raw json.RawMessage) string {
	var concat struct{ Concat []json.RawMessage }
	if json.Unmarshal(raw, &concat) == nil && len(concat.Concat) > 0 {
		parts := make([]string, len(concat.Concat))
		for i, part := range concat.Concat {
			parts[i] = element(part)
		}
		return strings.Join(parts, " . ")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (t *table) isIntact() bool {
	if !t.exists || t.generation == 0 || t.hook != hookText {
		return false
	}
	for name := range baseSets {
		if t.sets[name] == nil {
			return false
		}
	}
	for name := range baseMaps {
		if t.maps[name] == nil {
			return false
		}
	}
	for _, chain := range baseChains {
		if found, ok := t.chains[chain]; !ok || !slices.Equal(found, comments(baseLines(chain, t.generation))) {
			return false
		}
	}
	return true
}

// objects are those that values stand for, or led to. Lists without rules and sets without
// members are not among them: they may have been made for a value that refers to them.
func (t *table) objects() map[string]bool {
	objects := map[string]bool{}
	for name := range t.sets {
		if _, base := baseSets[name]; !base && len(t.sets[name])+len(t.sets[twin(name)]) > 0 {
			objects[name] = true
		}
	}
	for name, rules := range t.chains {
		if !slices.Contains(baseChains, name) && !(strings.HasPrefix(name, listChain) && len(rules) == 0) {
			objects[name] = true
		}
	}
	for name := range baseMaps {
		for addr := range t.maps[name] {
			objects[addr] = true
		}
	}
	for _, name := range []string{"subjects4", "subjects6"} {
		for addr := range t.sets[name] {
			objects[addr] = true
		}
	}
	return objects
}

// twin is the set of the other IP version.
func twin(set string) string {
	version := "4"
	if set[1:2] == version {
		version = "6"
	}
	return set[:1] + version + set[2:]
}

// elements are what sets are to have, by the name of the set.
type elements map[string]map[string]bool

func addressElements(id string, v *contiv_filter.AddressSet) elements {
	out := elements{}
	for _, name := range setsOf(addressSet, id) {
		out[name] = map[string]bool{}
	}
	for _, addr := range filter.ParseAddrs(v.GetAddresses()) {
		out[addressSet+version(addr)+"-"+id][addr.String()] = true
	}
	return out
}

func endpointElements(id string, v *contiv_filter.EndpointSet) elements {
	out := elements{}
	for _, name := range setsOf(endpointSet, id) {
		out[name] = map[string]bool{}
	}
	for _, e := range v.GetEndpoints() {
		if addr, err := netip.ParseAddr(e.GetAddress()); err == nil {
			out[endpointSet+version(addr)+"-"+id][fmt.Sprintf("%s . %s . %d", addr, protocolNames[e.GetProtocol()], e.GetPort())] = true
		}
	}
	return out
}

// holds reports whether sets have exactly the elements.
func (t *table) holds(want elements) bool {
	for name, members := range want {
		have := t.sets[name]
		if have == nil || len(have) != len(members) {
			return false
		}
		for e := range members {
			if !have[e] {
				return false
			}
		}
	}
	return true
}

func (t *table) isList(c *compiled) bool {
	rules, ok := t.chains[c.content()]
	return ok && slices.Equal(rules, comments(c.lines)) && slices.Equal(t.chains[c.chain()], comments(c.entry()))
}

func (t *table) isSubject(s *subject) bool {
	for _, addr := range s.addrs {
		for name, target := range s.targets(addr) {
			if t.maps[name][addr.String()] != target {
				return false
			}
		}
		if !t.sets["subjects"+version(addr)][addr.String()] || !t.sets["self"+version(addr)][selfElement(addr)] {
			return false
		}
	}
	for prefix, rules := range map[string][]line{inChain: s.in, outChain: s.out} {
		if rules != nil && !slices.Equal(t.chains[chainOf(prefix, rules)], comments(rules)) {
			return false
		}
	}
	return true
}

func selfElement(addr netip.Addr) string { return addr.String() + " . " + addr.String() }
