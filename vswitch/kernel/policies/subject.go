package policies

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/filter"
	"google.golang.org/protobuf/proto"
)

// subject is a pod with the chains that its addresses lead to.
type subject struct {
	name    string
	addrs   []netip.Addr
	in, out stages
}

// stages are those of a direction, written as rules. Without any, there is no chain.
type stages struct {
	chain string
	rules []line
	lists []string // chains of lists
}

// newSubject writes a subject. What is known of stages that other subjects have, too, is not
// written again; nil: nothing.
func newSubject(v *contiv_filter.Subject, known map[string]stages) *subject {
	return &subject{
		name: v.GetName(), addrs: filter.ParseAddrs(v.GetAddresses()),
		in:  stagesOf(v.GetIngress(), contiv_filter.AccessList_INGRESS, known),
		out: stagesOf(v.GetEgress(), contiv_filter.AccessList_EGRESS, known),
	}
}

func stagesOf(list []*contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction, known map[string]stages) stages {
	if len(list) == 0 {
		return stages{}
	}
	var key strings.Builder
	fmt.Fprint(&key, direction)
	for _, stage := range list {
		fmt.Fprintf(&key, " %v %q", stage.GetDeny(), stage.GetLists())
	}
	s, ok := known[key.String()]
	if !ok {
		if direction == contiv_filter.AccessList_EGRESS {
			s = newStages(list, direction, outChain, "isolated-out", "incoming")
		} else {
			s = newStages(list, direction, inChain, "isolated-in", "pass")
		}
		if known != nil {
			known[key.String()] = s
		}
	}
	return s
}

func newStages(list []*contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction, prefix, denied, allowed string) (s stages) {
	var texts []string
	end := allowed
	for _, stage := range list {
		if !stage.GetDeny() && len(stage.GetLists()) > 0 {
			texts = append(texts, clearPassed)
		}
		for i, list := range stage.GetLists() {
			chain := listChain + listIdent(direction, list)
			s.lists = append(s.lists, chain)
			if i > 0 && !stage.GetDeny() {
				texts = append(texts, ifNotPassed+chain)
			} else {
				texts = append(texts, "jump "+chain)
			}
		}
		if stage.GetDeny() {
			end = denied
			break
		}
	}
	s.rules = lines(append(texts, "goto "+end)...)
	s.chain = prefix + hash(strings.Join(comments(s.rules), " "))
	return s
}

var (
	clearPassed = fmt.Sprintf("meta mark set meta mark & %#08x", ^uint32(passed))
	ifNotPassed = fmt.Sprintf("meta mark & %#08x == 0 jump ", passed)
)

// targets are where the maps lead to from an address; "": they have no such element.
func (s *subject) targets(addr netip.Addr) map[string]string {
	v := version(addr)
	return map[string]string{"in" + v: s.in.chain, "out" + v: s.out.chain}
}

func (s *subject) chains() (list []string) {
	for _, stages := range []stages{s.in, s.out} {
		if stages.chain != "" {
			list = append(list, stages.chain)
		}
	}
	return list
}

// objects are the chains that the subject stands for and leads to.
func (s *subject) objects() []string { return slices.Concat(s.chains(), s.in.lists, s.out.lists) }

func version(addr netip.Addr) string {
	if addr.Is4() {
		return "4"
	}
	return "6"
}

// put makes the subject count for its addresses.
func (w *values) put(s *subject) {
	w.remove(s.name)
	w.subjects[s.name] = s
	w.need(+1, s.objects()...)
	for _, addr := range s.addrs {
		w.at[addr] = append(w.at[addr], s)
	}
}

// keep notes a subject that was found. One that is known already stays in its place.
func (w *values) keep(s *subject) {
	old := w.subjects[s.name]
	if old == nil || !slices.Equal(old.addrs, s.addrs) {
		w.put(s)
		return
	}
	w.subjects[s.name] = s
	w.need(+1, s.objects()...)
	w.need(-1, old.objects()...)
	for _, addr := range s.addrs {
		for i, other := range w.at[addr] {
			if other == old {
				w.at[addr][i] = s
			}
		}
	}
}

// forget takes out a value that was not found.
func (w *values) forget(m proto.Message) {
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		w.setAddresses(setIdent(v.GetName()), nil)
	case *contiv_filter.EndpointSet:
		w.setEndpoints(setIdent(v.GetName()), nil)
	case *contiv_filter.AccessList:
		w.setList(listIdent(v.GetDirection(), v.GetName()), nil)
	case *contiv_filter.Subject:
		w.remove(v.GetName())
	}
}

// remove returns the addresses that the subject had.
func (w *values) remove(name string) []netip.Addr {
	old := w.subjects[name]
	if old == nil {
		return nil
	}
	delete(w.subjects, name)
	w.need(-1, old.objects()...)
	for _, addr := range old.addrs {
		w.at[addr] = slices.DeleteFunc(w.at[addr], func(s *subject) bool { return s == old })
		if len(w.at[addr]) == 0 {
			delete(w.at, addr)
		}
	}
	return old.addrs
}

// owner is the subject that counts for an address: of several, the last one set.
func (w *values) owner(addr netip.Addr) *subject {
	if list := w.at[addr]; len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

// clone returns a copy that changes of w leave alone.
func (w values) clone() values {
	at := make(map[netip.Addr][]*subject, len(w.at))
	for addr, list := range w.at {
		at[addr] = slices.Clone(list)
	}
	return values{
		addresses: maps.Clone(w.addresses), endpoints: maps.Clone(w.endpoints), lists: maps.Clone(w.lists),
		subjects: maps.Clone(w.subjects), versions: w.versions, at: at, needed: maps.Clone(w.needed), idle: maps.Clone(w.idle),
	}
}
