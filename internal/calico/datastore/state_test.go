package datastore

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compare = []cmp.Option{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

const (
	blocks4 = "/calico/ipam/v2/assignment/ipv4/block/"
	blocks6 = "/calico/ipam/v2/assignment/ipv6/block/"
	hosts   = "/calico/ipam/v2/host/"
)

// Values of several Calico versions.
const (
	// 3.0: with strictAffinity, without attributes of nodes for tunnel addresses.
	v30 = `{"cidr":"192.168.0.0/30","affinity":"host:worker1","strictAffinity":false,
		"allocations":[0,null,1,null],"unallocated":[1,3],
		"attributes":[{"handle_id":"ipip-tunnel-addr-worker1","secondary":null},
		{"handle_id":"k8s-pod-network.0af3","secondary":{"namespace":"default","node":"worker1","pod":"web-0"}}]}`
	// 3.20: with deleted; one address is borrowed.
	v320 = `{"cidr":"192.168.0.4/30","affinity":"host:worker2","allocations":[0,1,null,2],"unallocated":[2],
		"attributes":[{"handle_id":"windows-reserved-ipam-handle","secondary":{"note":"windows host rsvd"}},
		{"handle_id":"k8s-pod-network.9ab0","secondary":{"namespace":"default","node":"worker3","pod":"web-1","timestamp":"2021-09-01 10:00:00 +0000 UTC"}},
		{"handle_id":"vxlan-tunnel-addr-worker2","secondary":{"node":"worker2","type":"vxlanTunnelAddress"}}],"deleted":false}`
	// 3.31: with sequence numbers, times and, while a virtual machine migrates, a second owner.
	v331 = `{"cidr":"fd00:10::/122","affinity":"host:worker1","affinity_claim_time":"2025-10-01T08:00:00Z","allocations":[null,null,0],
		"unallocated":[0,1],"attributes":[{"handle_id":"k8s-pod-network.77","secondary":{"node":"worker2","pod":"virt-launcher-a","namespace":"vms"},
		"alternate":{"node":"worker3","pod":"virt-launcher-b","namespace":"vms"}}],
		"sequenceNumber":1759305600000000012,"sequenceNumberForAllocation":{"2":1759305600000000011},"deleted":false}`
	// Before 3: hostAffinity.
	v2 = `{"cidr":"192.168.0.8/30","hostAffinity":"worker1","allocations":[null,null,null,null],"attributes":[],"unallocated":[0,1,2,3]}`
	// Released, with an address still in use.
	released = `{"cidr":"192.168.0.12/30","affinity":null,"allocations":[null,0],"attributes":[{"secondary":{"node":"worker2"}}]}`
	virtual  = `{"cidr":"192.168.0.16/30","affinity":"virtual:load-balancer","allocations":[0],"attributes":[{"handle_id":"lb-a","secondary":{"service":"web","namespace":"default"}}]}`
)

func apply(t *testing.T, tree string, pairs ...string) *State {
	t.Helper()
	parsed, err := ParseTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	for i := 0; i < len(pairs); i += 2 {
		s.Apply(parsed, pairs[i], []byte(pairs[i+1]))
	}
	return s
}

func TestBlocksOfAllVersions(t *testing.T) {
	s := apply(t, DefaultTree,
		blocks4+"192.168.0.0-30", v30, blocks4+"192.168.0.4-30", v320, blocks6+"fd00:10::-122", v331,
		blocks4+"192.168.0.8-30", v2, blocks4+"192.168.0.12-30", released, blocks4+"192.168.0.16-30", virtual,
		blocks4+"192.168.0.20-30", `{"cidr":"192.168.0.20/30","affinity":"host:gone","deleted":true}`)
	borrowed := func(addr, host string) map[netip.Addr]string {
		return map[netip.Addr]string{netip.MustParseAddr(addr): host}
	}
	want := map[string]Block{
		blocks4 + "192.168.0.0-30":  {netip.MustParsePrefix("192.168.0.0/30"), "worker1", nil},
		blocks4 + "192.168.0.4-30":  {netip.MustParsePrefix("192.168.0.4/30"), "worker2", borrowed("192.168.0.5", "worker3")},
		blocks6 + "fd00:10::-122":   {netip.MustParsePrefix("fd00:10::/122"), "worker1", borrowed("fd00:10::2", "worker2")},
		blocks4 + "192.168.0.8-30":  {netip.MustParsePrefix("192.168.0.8/30"), "worker1", nil},
		blocks4 + "192.168.0.12-30": {netip.MustParsePrefix("192.168.0.12/30"), "", borrowed("192.168.0.13", "worker2")},
		blocks4 + "192.168.0.16-30": {netip.MustParsePrefix("192.168.0.16/30"), "", nil},
	}
	if diff := cmp.Diff(want, s.Blocks, compare...); diff != "" || len(s.Problems) > 0 {
		t.Errorf("problems %v, (-want +got)\n%s", s.Problems, diff)
	}
}

func TestAffinitiesAndPeers(t *testing.T) {
	s := apply(t, "calico/ipam/v2/assignment/ipv4/block",
		hosts+"w1/ipv4/block/192.168.0.0-26", `{"state":"confirmed"}`,
		hosts+"w2/ipv4/block/192.168.0.64-26", "", // Calico 2
		hosts+"w3/ipv4/block/192.168.0.128-26", `{"state":"pending"}`,
		hosts+"w4/ipv4/block/192.168.0.192-26", `{"state":"pendingDeletion"}`,
		hosts+"w5/ipv4/block/192.168.1.0-26", `{"state":"confirmed","deleted":true}`,
		hosts+"w6/ipv6/block/fd00::-122", `{"state":"confirmed"}`, // not in the tree
		hosts+"w7/config", "not about blocks",
		PeerKey("w1", 4), "192.0.2.1",
		PeerKey("w2", 4), " 192.0.2.2/24\n",
		PeerKey("w1", 6), "2001:db8::1", // not in the tree
		PeersPrefix+"w1/routes/ipv4/192.168.0.0-26", "{}")
	var affinities []string
	for _, a := range s.Affinities {
		affinities = append(affinities, fmt.Sprint(a.Host, " ", a.CIDR, " ", a.Confirmed))
	}
	want := []string{"w1 192.168.0.0/26 true", "w2 192.168.0.64/26 true", "w3 192.168.0.128/26 false", "w4 192.168.0.192/26 false", "w5 192.168.1.0/26 false"}
	if diff := cmp.Diff(want, affinities, cmpopts.SortSlices(strings.Compare)); diff != "" || len(s.Problems) > 0 {
		t.Errorf("problems %v, (-want +got)\n%s", s.Problems, diff)
	}
	wantPeers := map[string]Peer{
		PeerKey("w1", 4): {"w1", netip.MustParseAddr("192.0.2.1")}, PeerKey("w2", 4): {"w2", netip.MustParseAddr("192.0.2.2")},
	}
	if diff := cmp.Diff(wantPeers, s.Peers, compare...); diff != "" {
		t.Error(diff)
	}
}

// An invalid value fails alone, and its problem states the reason.
func TestBadValues(t *testing.T) {
	huge := "[" + strings.Repeat("null,", 64) + "null]"
	for value, want := range map[string]string{
		``:                          "not as Calico writes it",
		`[]`:                        "not as Calico writes it",
		`null`:                      `"" is no block`,
		`{"cidr":7}`:                "not as Calico writes it",
		`{"cidr":"x"}`:              `"x" is no block`,
		`{"cidr":"192.168.1.0/26"}`: "says that it is 192.168.1.0/26",
		`{"cidr":"192.168.0.0/26","affinity":"worker1"}`:                                      "not like host:NAME",
		`{"cidr":"192.168.0.0/26","affinity":"host:"}`:                                        "no name of a host",
		`{"cidr":"192.168.0.0/26","affinity":"host:a/b"}`:                                     "no name of a host",
		`{"cidr":"192.168.0.0/26","affinity":"host:` + strings.Repeat("a", 300) + `"}`:        "no name of a host",
		`{"cidr":"192.168.0.0/26","affinity":"host:a","allocations":` + huge + `}`:            "65 allocations but 64 addresses",
		`{"cidr":"192.168.0.0/26","affinity":"host:a","allocations":[5]}`:                     "192.168.0.0: its attributes have number 5 of 0",
		`{"cidr":"192.168.0.0/26","affinity":"host:a","allocations":[-1,-1,-1]}`:              "number -1 of 0, and 2 more",
		`{"cidr":"192.168.0.0/26","allocations":[0],"attributes":[{"secondary":{"node":7}}]}`: "its node is 7",
	} {
		s := apply(t, DefaultTree, blocks4+"192.168.0.0-26", value, blocks4+"192.168.0.128-26", `{"cidr":"192.168.0.128/26","affinity":"host:b"}`)
		err := s.Problems[blocks4+"192.168.0.0-26"]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: problem %v, want %q", value, err, want)
		}
		if s.Blocks[blocks4+"192.168.0.128-26"].Host != "b" {
			t.Errorf("%.80s: the other block is missing", value)
		}
	}
	for key, want := range map[string]string{
		blocks4 + "0.0.0.0-0":                        "at least 20 bits",
		blocks4 + "192.168.0.1-26":                   "beyond its prefix",
		blocks4 + "127.0.0.0-26":                     "no block of addresses for pods",
		blocks4 + "fd00::-122":                       "under ipv4",
		blocks6 + "fd00::-64":                        "at least 116 bits",
		blocks6 + "::ffff:10.0.0.0-122":              "write it as IPv4",
		blocks4 + "nonsense":                         "names no block",
		hosts + "w1/ipv4/block/nonsense":             "names no block",
		hosts + "w 1/ipv4/block/10.0.0.0-26":         "no name of a host",
		PeersPrefix + "w1/peerip/ipv4/1":             "is no IP address",
		"/calico/ipam/v2/host/w/ipv4/block/x.0.0-26": "is no block",
	} {
		s := apply(t, DefaultTree, key, "x")
		if err := s.Problems[key]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: problem %v, want %q", key, err, want)
		}
	}
	for _, address := range []string{"0.0.0.0", "127.0.0.1", "224.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::1"} {
		if s := apply(t, DefaultTree, PeerKey("w", 4), address); len(s.Peers) > 0 || len(s.Problems) != 1 {
			t.Errorf("%s: peers %v, problems %v", address, s.Peers, s.Problems)
		}
	}
}

// Allocations come and go without counting as changes, since they do not affect routes.
func TestRelevantChanges(t *testing.T) {
	tree, _ := ParseTree(DefaultTree)
	s, key := NewState(), blocks4+"192.168.0.0-26"
	put := func(value string) bool { return s.Apply(tree, key, []byte(value)) }
	block := func(host, node string) string {
		return fmt.Sprintf(`{"cidr":"192.168.0.0/26","affinity":"host:%s","allocations":[0],"attributes":[{"secondary":{"node":"%s"}}]}`, host, node)
	}
	for i, step := range []struct {
		do   func() bool
		want bool
	}{
		{func() bool { return put(block("a", "a")) }, true},
		{func() bool { return put(`{"cidr":"192.168.0.0/26","affinity":"host:a"}`) }, false},
		{func() bool { return put(block("a", "b")) }, true},
		{func() bool { return put(block("a", "c")) }, true},
		{func() bool { return put(block("b", "c")) }, true},
		{func() bool { return put("{") }, true},
		{func() bool { return put(block("b", "c")) }, true},
		{func() bool { return s.Delete(key) }, true},
		{func() bool { return s.Delete(key) }, false},
		{func() bool { return s.Apply(tree, "/calico/other", nil) }, false},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("step %d: changed %v, want %v", i, got, step.want)
		}
	}
}

func TestParseTree(t *testing.T) {
	for text, want := range map[string]string{
		"calico/ipam/v2/assignment/ipv4/block":   "/calico/ipam/v2/assignment/ipv4/block/ /calico/ipam/v2/host/",
		"/calico/ipam/v2/assignment/ipv6/block/": "/calico/ipam/v2/assignment/ipv6/block/ /calico/ipam/v2/host/",
		"/calico/ipam/v2/assignment":             "/calico/ipam/v2/assignment/ /calico/ipam/v2/host/",
		"/my/calico/ipam/v2/assignment/ipv4":     "/my/calico/ipam/v2/assignment/ipv4/block/ /my/calico/ipam/v2/host/",
	} {
		tree, err := ParseTree(text)
		if got := tree.Blocks() + " " + tree.Affinities(); got != want || err != nil {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "calico", "/ipam/v2/assignment", "calico/ipam/v2/assignment/ipv5/block", "calico/ipam/v2/assignmentx"} {
		if _, err := ParseTree(text); err == nil || !strings.Contains(err.Error(), "no tree of Calico's blocks") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAffinityResource(t *testing.T) {
	for spec, want := range map[string]string{
		`{"cidr":"10.0.0.0/26","node":"w1","state":"confirmed","deleted":"false"}`:           "10.0.0.0/26 w1 true",
		`{"cidr":"10.0.0.0/26","node":"w1","state":"confirmed","deleted":"true"}`:            "10.0.0.0/26 w1 false",
		`{"cidr":"10.0.0.0/26","node":"w1","state":"pending","type":"host"}`:                 "10.0.0.0/26 w1 false",
		`{"cidr":"10.0.0.0/26","node":"load-balancer","state":"confirmed","type":"virtual"}`: "",
		`{"cidr":"10.0.0.0/26","node":"w1","state":"maybe"}`:                                 `the state "maybe" of the affinity is not known`,
		`{"cidr":"10.0.0.0/6","node":"w1"}`:                                                  "10.0.0.0/6 is no block: the address has bits beyond its prefix",
		`{"cidr":"10.0.0.0/26","node":""}`:                                                   `"" is no name of a host`,
	} {
		a, ok, err := DecodeAffinitySpec([]byte(spec))
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case ok:
			got = fmt.Sprint(a.CIDR, " ", a.Host, " ", a.Confirmed)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", spec, got, want)
		}
	}
}

// No input panics, and accepted values are consistent.
func FuzzApply(f *testing.F) {
	for _, value := range []string{v30, v320, v331, v2, released, virtual, `{"state":"confirmed"}`, "192.0.2.1"} {
		f.Add(blocks4+"192.168.0.0-30", []byte(value))
		f.Add(hosts+"w/ipv6/block/fd00::-122", []byte(value))
		f.Add(PeerKey("w", 4), []byte(value))
	}
	tree, err := ParseTree(DefaultTree)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		s := NewState()
		s.Apply(tree, key, value)
		for _, b := range s.Blocks {
			if b.CIDR != b.CIDR.Masked() || b.CIDR.Addr().Is4() && b.CIDR.Bits() < 20 || b.CIDR.Addr().Is6() && b.CIDR.Bits() < 116 {
				t.Errorf("block %v", b.CIDR)
			}
			for addr := range b.Borrowed {
				if !b.CIDR.Contains(addr) {
					t.Errorf("block %v lends %v", b.CIDR, addr)
				}
			}
		}
		if s.Apply(tree, key, value) && json.Valid(value) {
			t.Error("the same value is a change")
		}
		s.Delete(key)
		if s.len() != 0 {
			t.Errorf("left: %v", s)
		}
	})
}
