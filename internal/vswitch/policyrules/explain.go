package policyrules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// Explanation is the verdict of a subject on a connection in one direction, with the reason.
type Explanation struct {
	Decision
	// Asked are the evaluated lists in order, up to the deciding one.
	Asked []*contiv_filter.AccessList
	// Peer and Port describe the match of the deciding rule, for people. Port is empty if the rule
	// applies to all ports.
	Peer, Port string
	// Near are rules that almost allow the connection: either the peer or the port matches.
	Near []Near
}

// Near is a rule of the named list, with the reason why it does not allow a connection.
type Near struct{ List, Text string }

// Explain is Judge with reasons. It returns the verdict of each end that is a subject,
// independently of the other: first egress of the source, then ingress of the destination.
func (s *State) Explain(c Connection) (list []Explanation) {
	if c.Src == c.Dst {
		return nil
	}
	if subject := s.byAddr[c.Src]; len(subject.GetEgress()) > 0 {
		list = append(list, s.explain(subject, contiv_filter.AccessList_EGRESS, subject.GetEgress(), c))
	}
	if subject := s.byAddr[c.Dst]; len(subject.GetIngress()) > 0 {
		list = append(list, s.explain(subject, contiv_filter.AccessList_INGRESS, subject.GetIngress(), c))
	}
	return list
}

func (s *State) explain(subject *contiv_filter.Subject, direction contiv_filter.AccessList_Direction, stages []*contiv_filter.Subject_Stage, c Connection) Explanation {
	e := Explanation{Decision: s.stages(subject, direction, stages, c)}
	for _, stage := range stages {
		for _, name := range stage.GetLists() {
			list := s.lists[name]
			if list.GetDirection() != direction {
				continue
			}
			e.Asked = append(e.Asked, list)
			if name != e.List {
				e.Near = append(e.Near, s.near(list, c)...)
				continue
			}
			rule := list.GetRules()[e.Rule]
			e.Peer, e.Port = s.peerText(rule, peerOf(direction, c)), s.portText(rule, c)
			if e.Allowed {
				e.Near = nil
			}
			return e
		}
		if stage.GetDeny() {
			break
		}
	}
	if e.Allowed {
		e.Near = nil
	}
	return e
}

// near returns the allowing rules of a list with the conditions that the connection does not meet.
func (s *State) near(list *contiv_filter.AccessList, c Connection) (found []Near) {
	for _, r := range list.GetRules() {
		isPeer, isPort := s.isPeer(r, peerOf(list.GetDirection(), c)), s.isPort(r, c)
		switch name := fmt.Sprintf("rule %s of %s", r.GetName(), TitleOf(list)); {
		case r.GetAction() != contiv_filter.AccessList_ALLOW || isPeer == isPort:
		case isPeer:
			found = append(found, Near{list.GetName(), fmt.Sprintf("%s allows this peer, but only at %s", name, s.portsText(r))})
		default:
			found = append(found, Near{list.GetName(), fmt.Sprintf("%s allows this port, but only for %s", name, s.peersText(r))})
		}
	}
	return found
}

// TitleOf names a list for people.
func TitleOf(list *contiv_filter.AccessList) string {
	if list.GetDescription() != "" {
		return list.GetDescription()
	}
	return "list " + list.GetName()
}

func (s *State) setText(name string) string {
	if description := s.descriptions[name]; description != "" {
		return fmt.Sprintf("%q (set %s)", description, name)
	}
	return "set " + name
}

func (s *State) peerText(r *contiv_filter.AccessList_Rule, peer netip.Addr) string {
	for _, name := range r.GetAddressSets() {
		if s.addresses[name][peer] {
			return fmt.Sprintf("%v is in %s", peer, s.setText(name))
		}
	}
	for _, network := range r.GetNetworks() {
		if p, err := netip.ParsePrefix(network); err == nil && p.Contains(peer) {
			return fmt.Sprintf("%v is in %v", peer, p)
		}
	}
	return "it applies to all peers"
}

func (s *State) portText(r *contiv_filter.AccessList_Rule, c Connection) string {
	for _, p := range r.GetPorts() {
		if isPorts(p, c) {
			return portsText(p)
		}
	}
	for _, name := range r.GetEndpointSets() {
		if s.endpoints[name][endpoint{c.Dst, c.Protocol, c.Port}] {
			return "port in " + s.setText(name)
		}
	}
	return ""
}

// many limits the named sets, networks or ports of a rule.
const many = 5

func someOf(texts []string) string {
	if n := len(texts) - many; n > 0 {
		texts = append(slices.Clone(texts[:many]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, ", ")
}

func (s *State) peersText(r *contiv_filter.AccessList_Rule) string {
	var texts []string
	for _, name := range r.GetAddressSets() {
		texts = append(texts, s.setText(name))
	}
	return someOf(append(texts, r.GetNetworks()...))
}

func (s *State) portsText(r *contiv_filter.AccessList_Rule) string {
	var texts []string
	for _, p := range r.GetPorts() {
		texts = append(texts, portsText(p))
	}
	for _, name := range r.GetEndpointSets() {
		texts = append(texts, s.setText(name))
	}
	return someOf(texts)
}

func portsText(p *contiv_filter.AccessList_Ports) string {
	protocol := strings.ToLower(p.GetProtocol().String())
	switch {
	case p.GetLast() == 0:
		return protocol
	case p.GetFirst() == p.GetLast():
		return fmt.Sprintf("port %d/%s", p.GetFirst(), protocol)
	}
	return fmt.Sprintf("ports %d-%d/%s", p.GetFirst(), p.GetLast(), protocol)
}
