package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// Adjacent lists that only allow form one block, so a packet is not compared with one rule after
// another. The peers of rules with the same ports form one set, and the peers of rules with single
// ports form one set of peers and ports:
//
//	rules of all lists ── by address set ──> @u4-<hash>  peers
//	                                         @p4-<hash>  peer . protocol . port
//
// The members of a union derive from its address sets. Its name is a hash of its composition, so
// subjects with the same lists share a union, and a changed rule uses another one.

const (
	peerUnion = "u"
	portUnion = "p"
)

type limits struct {
	// set is the maximum size of an address set to copy into unions. Rules refer to a larger set
	// directly, with one rule for all ports.
	set   int
	union int
}

var usualLimits = limits{set: 128, union: 1 << 15}

type union struct {
	name   string
	ports  map[string][]string
	counts map[string]int
}

type unions struct {
	byName map[string]*union
	of     map[string]map[*union]bool
}

func newUnions() *unions { return &unions{map[string]*union{}, map[string]map[*union]bool{}} }

func (all *unions) add(u *union) {
	all.byName[u.name] = u
	for set := range u.ports {
		if all.of[set] == nil {
			all.of[set] = map[*union]bool{}
		}
		all.of[set][u] = true
	}
}

func (all *unions) remove(name string) {
	u := all.byName[name]
	if u == nil {
		return
	}
	delete(all.byName, name)
	for set := range u.ports {
		if delete(all.of[set], u); len(all.of[set]) == 0 {
			delete(all.of, set)
		}
	}
}

func (u *union) count(sets map[string]map[string]bool) {
	u.counts = map[string]int{}
	for set, ports := range u.ports {
		for addr := range sets[set] {
			for _, port := range ports {
				u.counts[addr+port]++
			}
		}
	}
}

func (u *union) isIn(t *table) bool {
	u.count(t.sets)
	have, ok := t.sets[u.name]
	if !ok || len(have) != len(u.counts) {
		return false
	}
	for key := range u.counts {
		if !have[key] {
			return false
		}
	}
	return true
}

type block struct {
	writing
	unions []*union
}

// blockOf renders lists that allow. It returns false if they should be rendered one by one.
func (w *stageWriter) blockOf(lists []*accessList, direction contiv_filter.AccessList_Direction) (b block, ok bool) {
	verdict := verdictOf(direction, contiv_filter.AccessList_ALLOW)
	var merged merging
	for _, l := range lists {
		for _, r := range l.list.GetRules() {
			if len(r.GetAddressSets()) == 0 && len(r.GetNetworks()) == 0 && len(r.GetPorts()) == 0 && len(r.GetEndpointSets()) == 0 {
				b.add(verdict)
				return b, true
			}
			merged.add(r, w.isWide)
		}
	}
	for _, r := range merged.rules() {
		b.rule(direction, r, w.of, verdict)
	}
	for _, signature := range slices.Sorted(maps.Keys(merged.peers)) {
		p := merged.peers[signature]
		id := hash(strings.Join(slices.Sorted(maps.Keys(p.sets)), "\n"))
		for _, port := range b.ports(p.rule, w.of) {
			for _, v := range w.of.list() {
				if port.version == "" || port.version == v.number {
					b.add(port.text, fmt.Sprintf("ct %s %s saddr @%s", peerSide(direction), v.addr, peerUnion+v.number+"-"+id), verdict)
				}
			}
		}
		b.unite(peerUnion, id, w.of, p.sets)
	}
	if len(merged.ports) > 0 {
		var definition []string
		for set, ports := range merged.ports {
			slices.Sort(ports)
			merged.ports[set] = slices.Compact(ports)
			definition = append(definition, fmt.Sprintf("%s %x", set, merged.ports[set]))
		}
		slices.Sort(definition)
		id := hash(strings.Join(definition, "\n"))
		for _, v := range w.of.list() {
			for _, end := range portEnds {
				b.add(fmt.Sprintf(end, fmt.Sprintf("ct %s %s saddr . meta l4proto .", peerSide(direction), v.addr), "@"+portUnion+v.number+"-"+id), verdict)
			}
		}
		b.unite(portUnion, id, w.of, merged.ports)
	}
	for _, u := range b.unions {
		size := 0
		for set, ports := range u.ports {
			if size += len(w.members[set]) * len(ports); size > w.limits.union {
				return block{}, false
			}
		}
	}
	return b, true
}

func (b *block) unite(kind, id string, of ipVersions, ports map[string][]string) {
	for _, v := range of.list() {
		u := &union{name: kind + v.number + "-" + id, ports: make(map[string][]string, len(ports))}
		for set, list := range ports {
			u.ports[addressSet+v.number+"-"+set] = list
		}
		b.unions = append(b.unions, u)
		b.sets = append(b.sets, u.name)
	}
}

func (w *stageWriter) isWide(set string) bool {
	for _, name := range setsOf(addressSet, set) {
		if len(w.members[name]) > w.limits.set {
			return true
		}
	}
	return false
}

type merging struct {
	open     []*contiv_filter.AccessList_Rule
	networks map[string]*contiv_filter.AccessList_Rule
	wide     map[string][]*contiv_filter.AccessList_Rule // by the name of an address set
	peers    map[string]*portPeers
	// ports holds single ports, as in keys, by the ident of an address set.
	ports map[string][]string
}

type portPeers struct {
	rule *contiv_filter.AccessList_Rule
	sets map[string][]string
}

func (m *merging) add(r *contiv_filter.AccessList_Rule, isWide func(ident string) bool) {
	if len(r.GetAddressSets()) == 0 && len(r.GetNetworks()) == 0 {
		m.open = append(m.open, r)
		return
	}
	if len(r.GetNetworks()) > 0 {
		if m.networks == nil {
			m.networks = map[string]*contiv_filter.AccessList_Rule{}
		}
		key := portsKey(r)
		if m.networks[key] == nil {
			m.networks[key] = &contiv_filter.AccessList_Rule{Ports: r.GetPorts(), EndpointSets: r.GetEndpointSets()}
		}
		m.networks[key].Networks = append(m.networks[key].Networks, r.GetNetworks()...)
	}
	for _, name := range r.GetAddressSets() {
		set := setIdent(name)
		if isWide(set) {
			if m.wide == nil {
				m.wide = map[string][]*contiv_filter.AccessList_Rule{}
			}
			m.wide[name] = append(m.wide[name], r)
			continue
		}
		m.narrow(set, r)
	}
}

func (m *merging) narrow(set string, r *contiv_filter.AccessList_Rule) {
	if m.peers == nil {
		m.peers, m.ports = map[string]*portPeers{}, map[string][]string{}
	}
	for _, one := range onePort(r) {
		if p := one.GetPorts(); len(p) > 0 && p[0].GetFirst() == p[0].GetLast() && p[0].GetFirst() != 0 {
			m.ports[set] = append(m.ports[set], portKey(p[0].GetProtocol(), p[0].GetFirst()))
			continue
		}
		key := portsKey(one)
		if m.peers[key] == nil {
			m.peers[key] = &portPeers{one, map[string][]string{}}
		}
		m.peers[key].sets[set] = []string{""}
	}
}

func onePort(r *contiv_filter.AccessList_Rule) (list []*contiv_filter.AccessList_Rule) {
	for _, p := range r.GetPorts() {
		list = append(list, &contiv_filter.AccessList_Rule{Ports: []*contiv_filter.AccessList_Ports{p}})
	}
	for _, name := range r.GetEndpointSets() {
		list = append(list, &contiv_filter.AccessList_Rule{EndpointSets: []string{name}})
	}
	if len(list) == 0 {
		list = append(list, &contiv_filter.AccessList_Rule{})
	}
	return list
}

// portsKey is equal for rules with the same ports.
func portsKey(r *contiv_filter.AccessList_Rule) string {
	var texts []string
	for _, p := range r.GetPorts() {
		texts = append(texts, fmt.Sprint(p.GetProtocol(), p.GetFirst(), "-", p.GetLast()))
	}
	for _, name := range r.GetEndpointSets() {
		texts = append(texts, fmt.Sprintf("%q", name))
	}
	return strings.Join(sorted(texts), " ")
}

func (m *merging) rules() (list []*contiv_filter.AccessList_Rule) {
	if len(m.open) > 0 {
		list = append(list, withPorts(&contiv_filter.AccessList_Rule{}, m.open))
	}
	byNetworks := map[string][]*contiv_filter.AccessList_Rule{}
	for _, key := range slices.Sorted(maps.Keys(m.networks)) {
		r := m.networks[key]
		r.Networks = sorted(slices.Clone(r.GetNetworks()))
		networks := strings.Join(r.GetNetworks(), " ")
		byNetworks[networks] = append(byNetworks[networks], r)
	}
	for _, networks := range slices.Sorted(maps.Keys(byNetworks)) {
		rules := byNetworks[networks]
		list = append(list, withPorts(&contiv_filter.AccessList_Rule{Networks: rules[0].GetNetworks()}, rules))
	}
	for _, set := range slices.Sorted(maps.Keys(m.wide)) {
		list = append(list, withPorts(&contiv_filter.AccessList_Rule{AddressSets: []string{set}}, m.wide[set]))
	}
	return list
}

func withPorts(r *contiv_filter.AccessList_Rule, of []*contiv_filter.AccessList_Rule) *contiv_filter.AccessList_Rule {
	for _, other := range of {
		if len(other.GetPorts()) == 0 && len(other.GetEndpointSets()) == 0 {
			r.Ports, r.EndpointSets = nil, nil
			return r
		}
		r.Ports = append(r.GetPorts(), other.GetPorts()...)
		r.EndpointSets = append(r.GetEndpointSets(), other.GetEndpointSets()...)
	}
	r.EndpointSets = sorted(r.GetEndpointSets())
	slices.SortFunc(r.GetPorts(), func(a, b *contiv_filter.AccessList_Ports) int {
		return cmp.Or(cmp.Compare(a.GetProtocol(), b.GetProtocol()), cmp.Compare(a.GetFirst(), b.GetFirst()), cmp.Compare(a.GetLast(), b.GetLast()))
	})
	return r
}
