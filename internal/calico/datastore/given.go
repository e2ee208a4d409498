package datastore

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// CentrePrefix is the prefix of the keys of the instances that calculate routes for all hosts, or
// stand by.
const CentrePrefix = "/vpp-calico/centre"

// GivenPrefix is the prefix of the routes that the centre has calculated for a host.
func GivenPrefix(host string) string { return PeersPrefix + host + "/routes/" }

// CompleteKey exists once the centre has written all routes of a host.
func CompleteKey(host string) string { return GivenPrefix(host) + "complete" }

// GivenKey is the key of a route of a host.
func GivenKey(host string, dst netip.Prefix) string {
	return fmt.Sprintf("%sipv%d/%s-%d", GivenPrefix(host), familyOf(dst.Addr()), dst.Addr(), dst.Bits())
}

// Given is a route that the centre has calculated.
type Given struct {
	Destination netip.Prefix
	// Via is invalid for routes that drop packets.
	Via netip.Addr
	// Host is the destination of the packets.
	Host string
}

type givenJSON struct {
	Via  string `json:"via,omitempty"`
	Host string `json:"host"`
}

// Encode returns the value of a route.
func (g Given) Encode() []byte {
	v := givenJSON{Host: g.Host}
	if g.Via.IsValid() {
		v.Via = g.Via.String()
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail for two strings
	}
	return data
}

// parseGivenKey returns the host and destination of a centre's route; ok is false for other keys.
func parseGivenKey(key string) (host string, dst netip.Prefix, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, PeersPrefix), "/")
	if len(parts) != 4 || parts[1] != "routes" {
		return "", dst, false
	}
	i := strings.LastIndexByte(parts[3], '-')
	if i < 0 {
		return "", dst, false
	}
	dst, err := parseCIDR(parts[3][:i] + "/" + parts[3][i+1:])
	family, known := parseFamily(parts[2])
	return parts[0], dst, err == nil && known && family == familyOf(dst.Addr())
}

// ParseGiven decodes a centre's route; ok is false for other keys. An invalid value becomes an
// empty route.
func ParseGiven(key string, value []byte) (host string, g Given, ok bool) {
	if host, g.Destination, ok = parseGivenKey(key); ok {
		_ = g.decode(value) // the centre writes it again
	}
	return host, g, ok
}

func (g *Given) decode(value []byte) error {
	var v givenJSON
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("the route is not as the centre writes it: %w", err)
	}
	if v.Via != "" {
		via, err := ParsePeer(v.Via)
		if err != nil {
			return err
		}
		g.Via = via
	}
	g.Host = v.Host
	return nil
}

// ApplyGiven applies a key to the state of a host that uses the centre's routes.
func (s *State) ApplyGiven(t Tree, host, key string, value []byte) (changed bool) {
	switch {
	case strings.HasPrefix(key, CentrePrefix+"/"), key == CompleteKey(host):
		known := s.Present[key]
		s.Present[key] = true
		return !known
	case !strings.HasPrefix(key, GivenPrefix(host)):
		return false
	}
	_, dst, ok := parseGivenKey(key)
	switch {
	case !ok:
		return s.SetProblem(key, fmt.Errorf("the key names no route: it is not like %sipv4/10.0.0.0-26", GivenPrefix(host)))
	case !slices.Contains(t.Families(), familyOf(dst.Addr())):
		return false
	}
	g := Given{Destination: dst}
	if err := g.decode(value); err != nil {
		return s.SetProblem(key, err)
	}
	old, known := s.Given[key]
	s.Given[key] = g
	return s.note(key, nil) || !known || old != g
}

// HasCentre reports whether a centre calculates the host's routes, and has written all of them.
func (s *State) HasCentre(host string) bool {
	complete := s.Present[CompleteKey(host)]
	return complete && len(s.Present) > 1
}
