package linux

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestLinks(t *testing.T) {
	n := newNode(t)
	n.addTap("vpp-tap-1")
	n.ip("link", "add", "nic0", "mtu", "1400", "type", "veth", "peer", "name", "nic1")
	n.ip("link", "set", "nic0", "up")
	n.ip("link", "set", "nic1", "up")
	n.ip("addr", "add", "192.168.1.1/24", "dev", "nic0")
	n.ip("addr", "add", "fd00::1/64", "dev", "nic0", "nodad")
	n.ip("route", "add", "default", "via", "192.168.1.254")
	n.ip("route", "add", "default", "via", "fd00::fe")
	n.ip("route", "add", "default", "dev", "nic1", "metric", "10")
	nic0, err := n.namespaces.Own.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.namespaces.Own.AddAddress(addressOn(nic0.Attrs().Index, netip.MustParsePrefix("192.168.1.2/24"), false)); err != nil {
		t.Fatal(err)
	}
	links, err := Links(pathOf(n.name))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]HostLink{}
	for _, l := range links {
		var global []netip.Prefix
		for _, a := range l.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				global = append(global, a)
			}
		}
		l.Addresses = global
		found[l.Name] = l
	}
	want := map[string]HostLink{
		"lo": {Name: "lo", MTU: 65536, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}},
		"nic0": {Name: "nic0", MTU: 1400, Up: true, DefaultGateways: []netip.Addr{netip.MustParseAddr("192.168.1.254"), netip.MustParseAddr("fd00::fe")},
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.1/24"), netip.MustParsePrefix("192.168.1.2/24"), netip.MustParsePrefix("fd00::1/64")},
			Assigned:  []netip.Prefix{netip.MustParsePrefix("192.168.1.2/24")}},
		"nic1": {Name: "nic1", MTU: 1500, Up: true, DefaultGateways: []netip.Addr{netip.IPv4Unspecified()}},
	}
	for name := range found {
		if _, ok := want[name]; !ok && name[:4] == "tap-" {
			delete(found, name) // the TAP end that waits for its pod
		}
	}
	if diff := cmp.Diff(want, found, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

// Reads many pods in one pass and prints the time; see also the benchmark.
func TestManyNamespacesInOnePass(t *testing.T) {
	const pods = 100
	n, expected := newPods(t, pods)
	n.restart()
	start := time.Now()
	found := n.retrieve(expected...)
	t.Logf("%d values in %d namespaces were retrieved in %v", len(found), pods, time.Since(start))
	found.hasExactly(t, expected...)
}

func BenchmarkRetrieve100Namespaces(b *testing.B) {
	n, expected := newPods(b, 100)
	for b.Loop() {
		if found := n.retrieve(expected...); len(found) != len(expected) {
			b.Fatalf("%d values, want %d", len(found), len(expected))
		}
	}
}
