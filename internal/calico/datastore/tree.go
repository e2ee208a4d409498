package datastore

import (
	"fmt"
	"net/netip"
	"strings"
)

// DefaultTree is the subtree with the blocks of both families.
const DefaultTree = "/calico/ipam/v2/assignment"

// PeersPrefix is the prefix of the keys shared by route agents.
const PeersPrefix = "/vpp-calico/hosts/"

const (
	assignment   = "/ipam/v2/assignment"
	bothFamilies = 0
)

// Tree is a subtree of etcd in which Calico keeps its blocks.
type Tree struct {
	root   string // "/calico"
	family int    // 4, 6 or bothFamilies
}

// ParseTree accepts the tree of one family, "calico/ipam/v2/assignment/ipv4/block", or of both,
// "calico/ipam/v2/assignment". Slashes at either end are ignored.
func ParseTree(text string) (Tree, error) {
	path := "/" + strings.Trim(text, "/")
	root, rest, found := strings.Cut(path, assignment)
	t := Tree{root: root}
	switch rest {
	case "":
	case "/ipv4", "/ipv4/block":
		t.family = 4
	case "/ipv6", "/ipv6/block":
		t.family = 6
	default:
		found = false
	}
	if !found || root == "" {
		return Tree{}, fmt.Errorf("%q is no tree of Calico's blocks: use calico/ipam/v2/assignment/ipv4/block, …/ipv6/block, or calico/ipam/v2/assignment for both", text)
	}
	return t, nil
}

// Families returns the families of the tree: 4, 6 or both.
func (t Tree) Families() []int {
	if t.family == bothFamilies {
		return []int{4, 6}
	}
	return []int{t.family}
}

// Blocks returns the prefix of the keys of blocks.
func (t Tree) Blocks() string {
	if t.family == bothFamilies {
		return t.root + assignment + "/"
	}
	return fmt.Sprintf("%s%s/ipv%d/block/", t.root, assignment, t.family)
}

// Affinities returns the prefix of the keys of affinities.
func (t Tree) Affinities() string { return t.root + "/ipam/v2/host/" }

// Prefixes returns the key prefixes needed to calculate routes.
func (t Tree) Prefixes() []string { return []string{t.Blocks(), t.Affinities(), PeersPrefix} }

func (t Tree) has(p netip.Prefix) bool {
	return t.family == bothFamilies || t.family == familyOf(p.Addr())
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// PeerKey returns the key of a host's address of the family, 4 or 6.
func PeerKey(host string, family int) string {
	return fmt.Sprintf("%s%s/peerip/ipv%d/1", PeersPrefix, host, family)
}

// parsePeerKey returns ok=false for keys of other objects.
func parsePeerKey(key string) (host string, family int, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, PeersPrefix), "/")
	if len(parts) != 4 || parts[0] == "" || parts[1] != "peerip" || parts[3] != "1" {
		return "", 0, false
	}
	family, ok = parseFamily(parts[2])
	return parts[0], family, ok
}

// parseAffinityKey parses <host>/ipv4/block/<cidr>; ok is false for keys of other objects.
func (t Tree) parseAffinityKey(key string) (host string, cidr netip.Prefix, ok bool, err error) {
	parts := strings.Split(strings.TrimPrefix(key, t.Affinities()), "/")
	if len(parts) != 4 || parts[0] == "" || parts[2] != "block" {
		return "", cidr, false, nil
	}
	cidr, err = parseKeyCIDR(parts[1], parts[3])
	return parts[0], cidr, true, err
}

// parseBlockKey parses ipv4/block/<cidr>; ok is false for keys of other objects.
func (t Tree) parseBlockKey(key string) (cidr netip.Prefix, ok bool, err error) {
	parts := strings.Split(strings.TrimPrefix(key, t.root+assignment+"/"), "/")
	if len(parts) != 3 || parts[1] != "block" {
		return cidr, false, nil
	}
	cidr, err = parseKeyCIDR(parts[0], parts[2])
	return cidr, true, err
}

func parseFamily(text string) (int, bool) {
	switch text {
	case "ipv4":
		return 4, true
	case "ipv6":
		return 6, true
	}
	return 0, false
}

// parseKeyCIDR parses a CIDR in a key, with "-" for the slash.
func parseKeyCIDR(family, text string) (netip.Prefix, error) {
	i := strings.LastIndexByte(text, '-')
	if i < 0 {
		return netip.Prefix{}, fmt.Errorf("the key names no block: %q is not like 192.168.0.0-26", text)
	}
	cidr, err := parseCIDR(text[:i] + "/" + text[i+1:])
	if err != nil {
		return netip.Prefix{}, err
	}
	if f, ok := parseFamily(family); !ok || f != familyOf(cidr.Addr()) {
		return netip.Prefix{}, fmt.Errorf("the key has the block %s under %s", cidr, family)
	}
	return cidr, nil
}

// Minimum prefix lengths of blocks that Calico accepts.
const (
	minLength4, minLength6 = 20, 116
)

// parseCIDR refuses blocks that Calico does not create: one that is too large could override routes
// unrelated to pods.
func parseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no block: %w", text, err)
	}
	least := minLength6
	if p.Addr().Is4() {
		least = minLength4
	}
	a := p.Addr()
	switch {
	case p != p.Masked():
		return p, fmt.Errorf("%s is no block: the address has bits beyond its prefix", p)
	case a.Is4In6():
		return p, fmt.Errorf("%s is no block: write it as IPv4", p)
	case p.Bits() < least:
		return p, fmt.Errorf("%s is no block: blocks of this family have prefixes of at least %d bits", p, least)
	case a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast():
		return p, fmt.Errorf("%s is no block of addresses for pods", p)
	}
	return p, nil
}
