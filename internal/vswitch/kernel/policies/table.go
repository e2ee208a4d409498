package policies

import (
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"golang.org/x/sys/unix"
)

type table struct {
	exists bool
	// intact: the permanent objects are correct for the generation.
	intact     bool
	generation int
	sets       map[string]map[string]bool
	maps       map[string]map[string]string
	chains     map[string][]string
	hooks      map[string]nft.Hook
}

func newTable() *table {
	return &table{sets: map[string]map[string]bool{}, maps: map[string]map[string]string{}, chains: map[string][]string{}, hooks: map[string]nft.Hook{}}
}

// tableOf converts a table; nil means that it does not exist.
func tableOf(found *nft.Table) *table {
	t := newTable()
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
	for name, s := range found.Sets {
		if _, isMap := baseMaps[name]; isMap {
			t.maps[name] = map[string]string{}
			for _, e := range s.Elements {
				t.maps[name][e.Key] = strings.TrimPrefix(e.Verdict, "goto ")
			}
			continue
		}
		t.sets[name] = map[string]bool{}
		if noteSets[name] != nil {
			continue
		}
		for _, e := range s.Elements {
			t.sets[name][e.Key] = true
		}
	}
	t.generation = generationOf(t.chains["forward"])
	t.intact = t.isIntact()
	return t
}

func (t *table) isRetired() bool {
	return t.generation != 0 && len(t.chains) == 1 && len(t.hooks)+len(t.sets)+len(t.maps) == 0
}

func (t *table) isIntact() bool {
	if !t.exists || t.generation == 0 {
		return false
	}
	for chain, hook := range hooks {
		if t.hooks[chain] != hook {
			return false
		}
	}
	for name := range baseSets {
		if t.sets[name] == nil {
			return false
		}
	}
	for name := range noteSets {
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

// objects returns the objects of values and the jump targets. It omits lists without rules and sets
// without members, which may exist only as references.
func (t *table) objects() map[string]bool {
	objects := map[string]bool{}
	for name := range t.sets {
		if !isBase(name) && !isUnion(name) && len(t.sets[name])+len(t.sets[twin(name)]) > 0 {
			objects[name] = true
		}
	}
	for name, rules := range t.chains {
		if !slices.Contains(baseChains, name) && !(strings.HasPrefix(name, listChain) && len(rules) == 0) {
			objects[name] = true
		}
	}
	for name := range baseMaps {
		for key := range t.maps[name] {
			objects[addressIn(key)] = true
		}
	}
	for _, name := range []string{"subjects4", "subjects6"} {
		for key := range t.sets[name] {
			objects[addressIn(key)] = true
		}
	}
	return objects
}

func (t *table) versions() ipVersions {
	return ipVersions{four: len(t.sets["subjects4"]) > 0, six: len(t.sets["subjects6"]) > 0}
}

func isBase(set string) bool { return baseSets[set].Bytes > 0 || noteSets[set] != nil }

func isUnion(set string) bool {
	kind, _, _ := strings.Cut(set, "-")
	return len(kind) == 2 && (kind[:1] == peerUnion || kind[:1] == portUnion)
}

// twin returns the set of the other IP version.
func twin(set string) string {
	version := "4"
	if set[1:2] == version {
		version = "6"
	}
	return set[:1] + version + set[2:]
}

type elements map[string]map[string]bool

func addressElements(id string, v *contiv_filter.AddressSet, of ipVersions) elements {
	out := elements{}
	for _, name := range of.setsOf(addressSet, id) {
		out[name] = map[string]bool{}
	}
	for _, addr := range policyrules.ParseAddrs(v.GetAddresses()) {
		if members := out[addressSet+version(addr)+"-"+id]; members != nil {
			members[addressKey(addr)] = true
		}
	}
	return out
}

func endpointElements(id string, v *contiv_filter.EndpointSet, of ipVersions) elements {
	out := elements{}
	for _, name := range of.setsOf(endpointSet, id) {
		out[name] = map[string]bool{}
	}
	for _, e := range v.GetEndpoints() {
		addr, err := netip.ParseAddr(e.GetAddress())
		if err != nil {
			continue
		}
		if members := out[endpointSet+version(addr)+"-"+id]; members != nil {
			members[endpointKey(addr, e.GetProtocol(), e.GetPort())] = true
		}
	}
	return out
}

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

func (t *table) isList(p *program) bool {
	return t.has(p.content, p.lines) && t.has(p.chain, p.entry())
}

// isSubject checks the owner's elements for addresses owned by another subject.
func (t *table) isSubject(s *subject, w values) bool {
	for _, addr := range s.addrs {
		counts := s
		if known := w.subjects[s.name]; known != nil && w.owner(addr) != nil && w.owner(addr) != known {
			counts = w.owner(addr)
		}
		for name, target := range counts.targets(addr) {
			if t.maps[name][addressKey(addr)] != target {
				return false
			}
		}
		if !t.sets["subjects"+version(addr)][addressKey(addr)] || !t.sets["self"+version(addr)][selfKey(addr)] {
			return false
		}
	}
	for _, stages := range []stages{s.in, s.out} {
		if stages.chain != "" && !t.has(stages.chain, stages.rules) {
			return false
		}
		for _, l := range stages.lists {
			if !t.isList(l.compile(w.versions)) {
				return false
			}
		}
		for _, u := range stages.unions {
			if !u.isIn(t) {
				return false
			}
		}
	}
	return true
}

func (t *table) has(chain string, rules []line) bool {
	found, ok := t.chains[chain]
	return ok && slices.EqualFunc(found, rules, func(comment string, l line) bool { return comment == l.comment })
}

func addressKey(addr netip.Addr) string { return string(addr.AsSlice()) }

func addressIn(key string) string {
	addr, _ := netip.AddrFromSlice([]byte(key))
	return addr.String()
}

func selfKey(addr netip.Addr) string { return addressKey(addr) + addressKey(addr) }

func endpointKey(addr netip.Addr, protocol contiv_filter.Protocol, port uint32) string {
	return addressKey(addr) + portKey(protocol, port)
}

// portKey has its parts in registers of four bytes.
func portKey(protocol contiv_filter.Protocol, port uint32) string {
	return string([]byte{protocolNumbers[protocol], 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

var protocolNumbers = map[contiv_filter.Protocol]byte{
	contiv_filter.Protocol_TCP: unix.IPPROTO_TCP, contiv_filter.Protocol_UDP: unix.IPPROTO_UDP, contiv_filter.Protocol_SCTP: unix.IPPROTO_SCTP,
}
