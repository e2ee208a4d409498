package main

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/plugins/podmanager"
)

func TestIdentities(t *testing.T) {
	id := func(name string) podmanager.PodID { return podmanager.PodID{Name: name, Namespace: "default"} }
	known, wired := podmanager.Pods{}, podmanager.LocalPods{}
	add := func(name, node, uid, ip string) *podmanager.Pod {
		p := &podmanager.Pod{ID: id(name), NodeName: node, UID: uid}
		if ip != "" {
			p.IPs = []netip.Addr{netip.MustParseAddr(ip)}
		}
		known[p.ID] = p
		return p
	}
	var lost error
	var refused []string
	i := identities{
		known: func() podmanager.Pods { return known }, wired: func() podmanager.LocalPods { return wired },
		podOf: func(l *podmanager.LocalPod) (*podmanager.Pod, bool) {
			p := known[l.ID]
			return p, p != nil && p.Runs("node1", l.UID)
		},
		addresses: func(podmanager.PodID) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.1.2")} },
		refused:   func() []string { return refused }, connected: func() error { return lost },
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wired[id("web")] = &podmanager.LocalPod{ID: id("web"), ContainerID: "c1", UID: "u1"}
	expect(i.sandboxes(t.Context()))
	add("web", "node1", "u1", "")
	add("other", "node2", "u3", "10.1.2.2")
	expect(i.sandboxes(t.Context()))
	expect(i.claims(t.Context()))

	add("thief", "node2", "u4", "10.1.1.2")
	thieves := "default/thief, default/web claim the same address 10.1.1.2"
	expect(i.claims(t.Context()), thieves)
	add("web", "node1", "u1", "10.1.1.2")
	expect(i.claims(t.Context()), thieves)
	known[id("thief")].Terminating = true
	expect(i.claims(t.Context()))
	*known[id("thief")] = podmanager.Pod{ID: id("thief"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.2")}, Finished: true}
	expect(i.claims(t.Context()))
	*known[id("thief")] = podmanager.Pod{ID: id("thief"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.2")}}
	expect(i.claims(t.Context()), thieves)

	add("web", "node2", "u2", "10.1.2.9")
	refused = []string{"a sandbox was refused"}
	former := "sandbox c1 on this node is no longer pod default/web, which is on node node2, UID u2"
	expect(i.sandboxes(t.Context()), refused[0], former)
	expect(i.claims(t.Context())) // the address is not the pod's
	lost = errors.New("no etcd")
	expect(i.sandboxes(t.Context()), refused[0])
}
