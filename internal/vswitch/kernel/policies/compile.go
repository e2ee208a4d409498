package policies

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

type accessList struct {
	id   string
	list *contiv_filter.AccessList
	// allows: all rules allow, so their order does not matter.
	allows bool
	last   *program
}

func newList(list *contiv_filter.AccessList) *accessList {
	other := func(r *contiv_filter.AccessList_Rule) bool { return r.GetAction() != contiv_filter.AccessList_ALLOW }
	return &accessList{id: listIdent(list.GetDirection(), list.GetName()), list: list, allows: !slices.ContainsFunc(list.GetRules(), other)}
}

func (l *accessList) chain() string { return listChain + l.id }

type program struct {
	of    ipVersions
	chain string
	// content names the chain with the rules; other rules have another chain.
	content string
	lines   []line
	sets    []string
}

func (l *accessList) compile(of ipVersions) *program {
	if l.last != nil && l.last.of == of {
		return l.last
	}
	var w writing
	for _, r := range l.list.GetRules() {
		w.rule(l.list.GetDirection(), r, of, verdictOf(l.list.GetDirection(), r.GetAction()))
	}
	l.last = &program{of: of, chain: l.chain(), content: rulesChain + l.id + "/" + hash(strings.Join(comments(w.lines), " ")), lines: w.lines, sets: sorted(w.sets)}
	return l.last
}

func (p *program) entry() []line { return lines("goto " + p.content) }

func (p *program) objects() []string { return append([]string{p.chain, p.content}, p.sets...) }

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

type ip struct{ number, addr string }

var versions = []ip{{"4", "ip"}, {"6", "ip6"}}

// condition is a part of a rule; version "" fits both.
type condition struct{ version, text string }

// ipVersions holds the IP versions of the subjects' addresses. Connections of other versions reach
// no list, so other versions need no rules or sets.
type ipVersions struct{ four, six bool }

func (p ipVersions) with(addrs ...netip.Addr) ipVersions {
	for _, addr := range addrs {
		p.four, p.six = p.four || addr.Is4(), p.six || addr.Is6()
	}
	return p
}

func (p ipVersions) list() (list []ip) {
	for i, present := range []bool{p.four, p.six} {
		if present {
			list = append(list, versions[i])
		}
	}
	return list
}

func (p ipVersions) setsOf(kind, id string) (names []string) {
	for _, v := range p.list() {
		names = append(names, kind+v.number+"-"+id)
	}
	return names
}

type writing struct {
	lines []line
	sets  []string
}

func (w *writing) add(words ...string) {
	w.lines = append(w.lines, lines(strings.Join(strings.Fields(strings.Join(words, " ")), " "))...)
}

func (w *writing) rule(direction contiv_filter.AccessList_Direction, r *contiv_filter.AccessList_Rule, of ipVersions, verdict string) {
	for _, peer := range w.peers(direction, r, of) {
		for _, port := range w.ports(r, of) {
			if peer.version == "" || port.version == "" || peer.version == port.version {
				w.add(peer.text, port.text, verdict)
			}
		}
	}
}

// verdictOf returns the verdict of a rule. Allowed egress is still judged at the destination. A
// pass is marked for the following lists of the stage: see stages.
func verdictOf(direction contiv_filter.AccessList_Direction, action contiv_filter.AccessList_Action) string {
	egress := direction == contiv_filter.AccessList_EGRESS
	switch {
	case action == contiv_filter.AccessList_PASS:
		return fmt.Sprintf("meta mark set meta mark | %#08x return", passed)
	case action == contiv_filter.AccessList_DENY && egress:
		return "goto denied-out"
	case action == contiv_filter.AccessList_DENY:
		return "goto denied-in"
	case egress:
		return "goto incoming"
	}
	return "goto pass"
}

func (w *writing) peers(direction contiv_filter.AccessList_Direction, r *contiv_filter.AccessList_Rule, of ipVersions) (list []condition) {
	side := peerSide(direction)
	networks := map[string][]string{}
	for _, p := range disjoint(r.GetNetworks()) {
		version := "4"
		if p.Addr().Is6() {
			version = "6"
		}
		networks[version] = append(networks[version], p.String())
	}
	for _, v := range of.list() {
		peer := fmt.Sprintf("ct %s %s saddr", side, v.addr)
		for _, set := range r.GetAddressSets() {
			name := addressSet + v.number + "-" + setIdent(set)
			w.sets = append(w.sets, name)
			list = append(list, condition{v.number, peer + " @" + name})
		}
		switch n := networks[v.number]; {
		case len(n) == 1 && strings.HasSuffix(n[0], "/0"):
			list = append(list, condition{v.number, "meta nfproto ipv" + v.number})
		case len(n) > 0:
			list = append(list, condition{v.number, peer + " " + oneOf(n)})
		}
	}
	if len(r.GetAddressSets()) == 0 && len(r.GetNetworks()) == 0 {
		return []condition{{}}
	}
	return list
}

// peerSide returns the conntrack direction whose source is the peer.
func peerSide(direction contiv_filter.AccessList_Direction) string {
	if direction == contiv_filter.AccessList_EGRESS {
		return "reply"
	}
	return "original"
}

// disjoint sorts networks and removes subnets of others.
func disjoint(texts []string) (left []netip.Prefix) {
	var networks []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, p.Masked())
		}
	}
	slices.SortFunc(networks, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	for _, p := range networks {
		if n := len(left); n == 0 || !left[n-1].Overlaps(p) {
			left = append(left, p)
		}
	}
	return left
}

var protocolNames = map[contiv_filter.Protocol]string{
	contiv_filter.Protocol_TCP: "tcp", contiv_filter.Protocol_UDP: "udp", contiv_filter.Protocol_SCTP: "sctp",
}

// serverPort is the port that a connection was translated to, in packets of both directions.
const serverPort = "ct reply proto-src"

// portEnds match the server port where nft (1.0) does not accept serverPort: as a part of a key.
var portEnds = []string{"ct direction original %s th dport %s", "ct direction reply %s th sport %s"}

func (w *writing) ports(r *contiv_filter.AccessList_Rule, of ipVersions) (list []condition) {
	var whole []string
	ranges := map[string][][2]uint32{}
	for _, p := range r.GetPorts() {
		name := protocolNames[p.GetProtocol()]
		if p.GetFirst() == 0 {
			whole = append(whole, name)
		} else {
			ranges[name] = append(ranges[name], [2]uint32{p.GetFirst(), p.GetLast()})
		}
	}
	slices.Sort(whole)
	if whole = slices.Compact(whole); len(whole) > 0 {
		list = append(list, condition{text: "meta l4proto " + oneOf(whole)})
	}
	for _, name := range []string{"sctp", "tcp", "udp"} {
		if len(ranges[name]) == 0 || slices.Contains(whole, name) {
			continue
		}
		list = append(list, condition{text: fmt.Sprintf("meta l4proto %s %s %s", name, serverPort, rangesText(ranges[name]))})
	}
	for _, set := range r.GetEndpointSets() {
		for _, v := range of.list() {
			name := endpointSet + v.number + "-" + setIdent(set)
			w.sets = append(w.sets, name)
			for _, end := range portEnds {
				list = append(list, condition{v.number, fmt.Sprintf(end, fmt.Sprintf("ct reply %s saddr . meta l4proto .", v.addr), "@"+name)})
			}
		}
	}
	if len(r.GetPorts()) == 0 && len(r.GetEndpointSets()) == 0 {
		return []condition{{}}
	}
	return list
}

func rangesText(ranges [][2]uint32) string {
	slices.SortFunc(ranges, func(a, b [2]uint32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var joined [][2]uint32
	for _, r := range ranges {
		if n := len(joined); n > 0 && r[0] <= joined[n-1][1]+1 {
			joined[n-1][1] = max(joined[n-1][1], r[1])
			continue
		}
		joined = append(joined, r)
	}
	texts := make([]string, len(joined))
	for i, r := range joined {
		texts[i] = fmt.Sprint(r[0])
		if r[1] > r[0] {
			texts[i] = fmt.Sprintf("%d-%d", r[0], r[1])
		}
	}
	return oneOf(texts)
}

// oneOf avoids a set for a single value, because the cost of an anonymous set grows with their
// number.
func oneOf(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}
