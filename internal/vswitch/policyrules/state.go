package policyrules

import (
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"google.golang.org/protobuf/proto"
)

// Connection has the client's own address, and the destination after service translation. Port is 0
// for protocols without ports.
type Connection struct {
	Src, Dst netip.Addr
	// Protocol is an IANA number, such as TCP.
	Protocol uint8
	Port     uint16
}

// IANA protocol numbers.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
	SCTP   = 132
)

func Number(p contiv_filter.Protocol) uint8 {
	switch p {
	case contiv_filter.Protocol_UDP:
		return UDP
	case contiv_filter.Protocol_SCTP:
		return SCTP
	}
	return TCP
}

// Decision is the verdict about a connection.
type Decision struct {
	Allowed bool
	// Subject and Direction made the decision; empty if no subject is concerned.
	Subject   string
	Direction contiv_filter.AccessList_Direction
	// List and Rule (its index) made the decision; List is "" if none matched.
	List string
	Rule int
}

type endpoint struct {
	addr     netip.Addr
	protocol uint8
	port     uint16
}

// State is a set of values. It is not safe for concurrent use.
type State struct {
	addresses map[string]map[netip.Addr]bool
	endpoints map[string]map[endpoint]bool
	lists     map[string]*contiv_filter.AccessList
	subjects  map[string]*contiv_filter.Subject
	byAddr    map[netip.Addr]*contiv_filter.Subject
	// descriptions of sets, for people
	descriptions map[string]string
}

// NewState returns a state without values.
func NewState() *State {
	return &State{
		addresses: map[string]map[netip.Addr]bool{}, endpoints: map[string]map[endpoint]bool{},
		lists: map[string]*contiv_filter.AccessList{}, subjects: map[string]*contiv_filter.Subject{}, byAddr: map[netip.Addr]*contiv_filter.Subject{},
		descriptions: map[string]string{},
	}
}

// Put adds or replaces a value. It ignores values of other models.
func (s *State) Put(value proto.Message) {
	switch v := value.(type) {
	case *contiv_filter.AddressSet:
		s.addresses[v.GetName()], s.descriptions[v.GetName()] = map[netip.Addr]bool{}, v.GetDescription()
		for _, addr := range ParseAddrs(v.GetAddresses()) {
			s.addresses[v.GetName()][addr] = true
		}
	case *contiv_filter.EndpointSet:
		s.endpoints[v.GetName()], s.descriptions[v.GetName()] = map[endpoint]bool{}, v.GetDescription()
		for _, e := range v.GetEndpoints() {
			if addr, err := netip.ParseAddr(e.GetAddress()); err == nil {
				s.endpoints[v.GetName()][endpoint{addr.Unmap(), Number(e.GetProtocol()), uint16(e.GetPort())}] = true
			}
		}
	case *contiv_filter.AccessList:
		s.lists[v.GetName()] = v
	case *contiv_filter.Subject:
		s.removeSubject(v.GetName())
		s.subjects[v.GetName()] = v
		for _, addr := range ParseAddrs(v.GetAddresses()) {
			s.byAddr[addr] = v
		}
	}
}

// Remove removes the value with the same name. Tests of drivers use it.
func (s *State) Remove(value proto.Message) {
	switch v := value.(type) {
	case *contiv_filter.AddressSet:
		delete(s.addresses, v.GetName())
		delete(s.descriptions, v.GetName())
	case *contiv_filter.EndpointSet:
		delete(s.endpoints, v.GetName())
		delete(s.descriptions, v.GetName())
	case *contiv_filter.AccessList:
		delete(s.lists, v.GetName())
	case *contiv_filter.Subject:
		s.removeSubject(v.GetName())
	}
}

func (s *State) removeSubject(name string) {
	old := s.subjects[name]
	delete(s.subjects, name)
	for _, addr := range ParseAddrs(old.GetAddresses()) {
		if s.byAddr[addr] == old {
			delete(s.byAddr, addr)
		}
	}
}

// ParseAddrs returns the valid addresses.
func ParseAddrs(texts []string) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// Judge returns whether the connection may be opened: it evaluates the source's egress stages, then
// the destination's ingress stages. The fake vswitch and tests of drivers use it.
func (s *State) Judge(c Connection) Decision {
	d := Decision{Allowed: true}
	if c.Src == c.Dst {
		return d
	}
	if subject := s.byAddr[c.Src]; subject != nil && len(subject.GetEgress()) > 0 {
		d = s.stages(subject, contiv_filter.AccessList_EGRESS, subject.GetEgress(), c)
	}
	if subject := s.byAddr[c.Dst]; d.Allowed && subject != nil && len(subject.GetIngress()) > 0 {
		d = s.stages(subject, contiv_filter.AccessList_INGRESS, subject.GetIngress(), c)
	}
	return d
}

func (s *State) stages(subject *contiv_filter.Subject, direction contiv_filter.AccessList_Direction, stages []*contiv_filter.Subject_Stage, c Connection) Decision {
	d := Decision{Allowed: true, Subject: subject.GetName(), Direction: direction}
	for _, stage := range stages {
		list, rule, action, found := s.stage(stage, direction, c)
		switch {
		case found && action == contiv_filter.AccessList_PASS: // continue with the next stage
		case found:
			d.List, d.Rule, d.Allowed = list, rule, action == contiv_filter.AccessList_ALLOW
			return d
		case stage.GetDeny():
			d.Allowed = false
			return d
		}
	}
	return d
}

func (s *State) stage(stage *contiv_filter.Subject_Stage, direction contiv_filter.AccessList_Direction, c Connection) (string, int, contiv_filter.AccessList_Action, bool) {
	for _, name := range stage.GetLists() {
		list := s.lists[name]
		if list.GetDirection() != direction {
			continue
		}
		for i, r := range list.GetRules() {
			if !s.matches(r, direction, c) {
				continue
			}
			if stage.GetDeny() && r.GetAction() == contiv_filter.AccessList_PASS {
				break // continue with the next list
			}
			return name, i, r.GetAction(), true
		}
	}
	return "", 0, 0, false
}

func (s *State) matches(r *contiv_filter.AccessList_Rule, direction contiv_filter.AccessList_Direction, c Connection) bool {
	return s.isPeer(r, peerOf(direction, c)) && s.isPort(r, c)
}

// peerOf returns the end of a connection that is not the subject.
func peerOf(direction contiv_filter.AccessList_Direction, c Connection) netip.Addr {
	if direction == contiv_filter.AccessList_EGRESS {
		return c.Dst
	}
	return c.Src
}

func (s *State) isPeer(r *contiv_filter.AccessList_Rule, peer netip.Addr) bool {
	for _, name := range r.GetAddressSets() {
		if s.addresses[name][peer] {
			return true
		}
	}
	for _, network := range r.GetNetworks() {
		if p, err := netip.ParsePrefix(network); err == nil && p.Contains(peer) {
			return true
		}
	}
	return len(r.GetAddressSets()) == 0 && len(r.GetNetworks()) == 0
}

func (s *State) isPort(r *contiv_filter.AccessList_Rule, c Connection) bool {
	for _, p := range r.GetPorts() {
		if isPorts(p, c) {
			return true
		}
	}
	for _, name := range r.GetEndpointSets() {
		if s.endpoints[name][endpoint{c.Dst, c.Protocol, c.Port}] {
			return true
		}
	}
	return len(r.GetPorts()) == 0 && len(r.GetEndpointSets()) == 0
}

func isPorts(p *contiv_filter.AccessList_Ports, c Connection) bool {
	whole := p.GetFirst() == 0 && p.GetLast() == 0
	return Number(p.GetProtocol()) == c.Protocol && (whole || uint32(c.Port) >= p.GetFirst() && uint32(c.Port) <= p.GetLast())
}
