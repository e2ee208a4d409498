package policies

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"google.golang.org/protobuf/proto"
)

type subject struct {
	value   *contiv_filter.Subject
	name    string
	addrs   []netip.Addr
	in, out stages
}

// stages holds the rendered stages of a direction. Without stages, the direction has no chain.
type stages struct {
	chain  string
	rules  []line
	named  map[string]bool
	lists  []*accessList
	unions []*union
	sets   []string
	// needs holds all chains and sets of the stages and their dependencies.
	needs []string
}

type stageWriter struct {
	of      ipVersions
	lists   map[string]*accessList
	members map[string]map[string]bool
	limits  limits
	// known caches rendered stages, which subjects share.
	known map[string]*stages
}

func newWriter(d *Driver) *stageWriter {
	return &stageWriter{of: d.want.versions, lists: d.want.lists, members: d.have.sets, limits: d.limits, known: map[string]*stages{}}
}

func (w *stageWriter) subject(v *contiv_filter.Subject) *subject {
	return &subject{
		value: v, name: v.GetName(), addrs: policyrules.ParseAddrs(v.GetAddresses()),
		in:  w.stages(v.GetIngress(), contiv_filter.AccessList_INGRESS),
		out: w.stages(v.GetEgress(), contiv_filter.AccessList_EGRESS),
	}
}

func (w *stageWriter) stages(list []*contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction) stages {
	if len(list) == 0 {
		return stages{}
	}
	var key strings.Builder
	fmt.Fprint(&key, direction)
	for _, stage := range list {
		fmt.Fprintf(&key, " %v %q", stage.GetDeny(), stage.GetLists())
	}
	s := w.known[key.String()]
	if s == nil {
		s = &stages{named: map[string]bool{}}
		if direction == contiv_filter.AccessList_EGRESS {
			w.write(s, list, direction, outChain, "isolated-out", "incoming")
		} else {
			w.write(s, list, direction, inChain, "isolated-in", "pass")
		}
		w.known[key.String()] = s
	}
	return *s
}

func (w *stageWriter) write(s *stages, list []*contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction, prefix, denied, allowed string) {
	end := allowed
	for _, stage := range list {
		w.stage(s, stage, direction)
		if stage.GetDeny() {
			end = denied
			break
		}
	}
	s.rules = append(s.rules, lines("goto "+end)...)
	s.chain = prefix + hash(strings.Join(comments(s.rules), " "))
	s.needs = append(s.needs, s.chain)
	for _, l := range s.lists {
		s.needs = append(s.needs, l.compile(w.of).objects()...)
	}
	s.sets = sorted(s.sets)
	s.needs = append(s.needs, s.sets...)
}

// stage renders adjacent lists that only allow as one block, and jumps to other lists individually.
// Missing lists have no rules.
func (w *stageWriter) stage(s *stages, stage *contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction) {
	var row []*accessList
	guard := "" // a list before may have left the packet to the next stage
	lead := func(lists ...*accessList) {
		for _, l := range lists {
			if !stage.GetDeny() && guard == "" {
				s.rules = append(s.rules, lines(clearPassed)...)
			}
			s.rules = append(s.rules, lines(guard+"jump "+l.chain())...)
			s.lists = append(s.lists, l)
			if !stage.GetDeny() {
				guard = ifNotPassed
			}
		}
	}
	flush := func() {
		if len(row) == 0 {
			return
		}
		if b, ok := w.blockOf(row, direction); ok {
			for _, l := range b.lines {
				s.rules = append(s.rules, lines(guard+l.text)...)
			}
			s.unions, s.sets = append(s.unions, b.unions...), append(s.sets, b.sets...)
		} else {
			lead(row...)
		}
		row = nil
	}
	for _, name := range stage.GetLists() {
		id := listIdent(direction, name)
		s.named[id] = true
		switch l := w.lists[id]; {
		case l == nil:
		case l.allows:
			row = append(row, l)
		default:
			flush()
			lead(l)
		}
	}
	flush()
}

var (
	clearPassed = fmt.Sprintf("meta mark set meta mark & %#08x", ^uint32(passed))
	ifNotPassed = fmt.Sprintf("meta mark & %#08x == 0 ", passed)
)

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

func (s *subject) objects() []string {
	return slices.Concat([]string{theTable}, s.in.needs, s.out.needs)
}

func (s *subject) names(lists map[string]bool) bool {
	for id := range lists {
		if s.in.named[id] || s.out.named[id] {
			return true
		}
	}
	return false
}

func (s *subject) has(unions map[string]bool) bool {
	for _, u := range slices.Concat(s.in.unions, s.out.unions) {
		if unions[u.name] {
			return true
		}
	}
	return false
}

func version(addr netip.Addr) string {
	if addr.Is4() {
		return "4"
	}
	return "6"
}

func (w *values) put(s *subject) {
	w.remove(s.name)
	w.subjects[s.name] = s
	w.need(+1, s.objects()...)
	for _, addr := range s.addrs {
		w.at[addr] = append(w.at[addr], s)
	}
}

// keep records a subject found in the table. A known one keeps its position.
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

// owner returns the subject of an address: the last one set.
func (w *values) owner(addr netip.Addr) *subject {
	if list := w.at[addr]; len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

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
