package datastore

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Peer is an address that leads to a host.
type Peer struct {
	Host string
	Addr netip.Addr
}

// ParsePeer decodes an address published by a route agent, and ignores a prefix length.
func ParsePeer(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	address, _, _ := strings.Cut(text, "/")
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return a, fmt.Errorf("%.60q is no IP address", text)
	case a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
		return a, fmt.Errorf("%s cannot lead to a host", a)
	}
	return a, nil
}

// State is the decoded datastore by key. An invalid value is missing and has a problem. It is not
// safe for concurrent use.
type State struct {
	Blocks     map[string]Block
	Affinities map[string]Affinity
	Peers      map[string]Peer
	// Given has the centre's routes, for a host that uses them.
	Given map[string]Given
	// Present holds keys that matter only by their existence.
	Present map[string]bool
	// Problems of individual values.
	Problems map[string]error
}

// NewState returns an empty State.
func NewState() *State {
	return &State{
		Blocks: make(map[string]Block), Affinities: make(map[string]Affinity), Peers: make(map[string]Peer),
		Given: make(map[string]Given), Present: make(map[string]bool), Problems: make(map[string]error),
	}
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	return &State{
		Blocks: maps.Clone(s.Blocks), Affinities: maps.Clone(s.Affinities), Peers: maps.Clone(s.Peers),
		Given: maps.Clone(s.Given), Present: maps.Clone(s.Present), Problems: maps.Clone(s.Problems),
	}
}

// Merge adds everything in other to s, replacing existing values.
func (s *State) Merge(other *State) {
	maps.Copy(s.Blocks, other.Blocks)
	maps.Copy(s.Affinities, other.Affinities)
	maps.Copy(s.Peers, other.Peers)
	maps.Copy(s.Given, other.Given)
	maps.Copy(s.Present, other.Present)
	maps.Copy(s.Problems, other.Problems)
}

// Delete removes the value of a key and reports whether that changed the state.
func (s *State) Delete(key string) (changed bool) { return s.SetProblem(key, nil) }

// forget removes the value of a key, but not its problem.
func (s *State) forget(key string) (changed bool) {
	before := s.len()
	delete(s.Blocks, key)
	delete(s.Affinities, key)
	delete(s.Peers, key)
	delete(s.Given, key)
	delete(s.Present, key)
	return s.len() != before
}

func (s *State) len() int {
	return len(s.Blocks) + len(s.Affinities) + len(s.Peers) + len(s.Given) + len(s.Present) + len(s.Problems)
}

// SetBlock sets a block with the error of DecodeBlock.
func (s *State) SetBlock(key string, b Block, problem error) (changed bool) {
	old, known := s.Blocks[key]
	s.Blocks[key] = b
	return s.note(key, problem) || !known || !old.Equal(b)
}

func (s *State) SetAffinity(key string, a Affinity) (changed bool) {
	old, known := s.Affinities[key]
	s.Affinities[key] = a
	return s.note(key, nil) || !known || old != a
}

func (s *State) SetPeer(key string, p Peer) (changed bool) {
	old, known := s.Peers[key]
	s.Peers[key] = p
	return s.note(key, nil) || !known || old != p
}

// SetProblem removes the value of a key and sets its problem, if not nil.
func (s *State) SetProblem(key string, problem error) (changed bool) {
	changed = s.forget(key)
	return s.note(key, problem) || changed
}

// note sets the problem of a key, or removes it with nil, and reports whether it changed.
func (s *State) note(key string, problem error) bool {
	old := s.Problems[key]
	if problem == nil {
		delete(s.Problems, key)
		return old != nil
	}
	s.Problems[key] = problem
	return old == nil || old.Error() != problem.Error()
}

// Apply applies an etcd key. It ignores unknown keys.
func (s *State) Apply(t Tree, key string, value []byte) (changed bool) {
	switch {
	case strings.HasPrefix(key, t.Blocks()):
		return s.applyBlock(t, key, value)
	case strings.HasPrefix(key, t.Affinities()):
		return s.applyAffinity(t, key, value)
	case strings.HasPrefix(key, PeersPrefix):
		return s.applyPeer(t, key, value)
	}
	return false
}

func (s *State) applyBlock(t Tree, key string, value []byte) bool {
	cidr, ok, err := t.parseBlockKey(key)
	if !ok {
		return false
	}
	if err != nil {
		return s.SetProblem(key, err)
	}
	b, ok, err := DecodeBlock(value)
	switch {
	case !ok && err == nil:
		return s.Delete(key)
	case ok && b.CIDR != cidr:
		return s.SetProblem(key, fmt.Errorf("the block says that it is %s", b.CIDR))
	case !ok:
		return s.SetProblem(key, err)
	}
	return s.SetBlock(key, b, err)
}

func (s *State) applyAffinity(t Tree, key string, value []byte) bool {
	host, cidr, ok, err := t.parseAffinityKey(key)
	if !ok || err == nil && !t.has(cidr) {
		return false
	}
	a := Affinity{CIDR: cidr, Host: host}
	if err == nil {
		err = checkHost(host)
	}
	if err == nil {
		a.Confirmed, err = confirmed(value)
	}
	if err != nil {
		return s.SetProblem(key, err)
	}
	return s.SetAffinity(key, a)
}

func (s *State) applyPeer(t Tree, key string, value []byte) bool {
	host, family, ok := parsePeerKey(key)
	if !ok || !slices.Contains(t.Families(), family) {
		return false
	}
	addr, err := ParsePeer(string(value))
	if err == nil && familyOf(addr) != family {
		err = fmt.Errorf("%s is no address of IPv%d", addr, family)
	}
	if err == nil {
		err = checkHost(host)
	}
	if err != nil {
		return s.SetProblem(key, err)
	}
	return s.SetPeer(key, Peer{Host: host, Addr: addr})
}
