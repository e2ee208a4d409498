package pods

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/podmanager"
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
	i := Identities{
		Known: func() podmanager.Pods { return known }, Wired: func() podmanager.LocalPods { return wired },
		PodOf: func(l *podmanager.LocalPod) (*podmanager.Pod, bool) {
			p := known[l.ID]
			return p, p != nil && p.Runs("node1", l.UID)
		},
		Addresses: func(podmanager.PodID) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.1.2")} },
		Refused:   func() []string { return refused }, Connected: func() error { return lost },
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wired[id("web")] = &podmanager.LocalPod{ID: id("web"), ContainerID: "c1", UID: "u1"}
	expect(i.Sandboxes(t.Context()))
	add("web", "node1", "u1", "")
	add("other", "node2", "u3", "10.1.2.2")
	expect(i.Sandboxes(t.Context()))
	expect(i.AddressConflicts(t.Context()))

	add("clone", "node2", "u4", "10.1.1.2")
	conflict := "default/clone, default/web claim the same address 10.1.1.2"
	expect(i.AddressConflicts(t.Context()), conflict)
	add("web", "node1", "u1", "10.1.1.2")
	expect(i.AddressConflicts(t.Context()), conflict)
	known[id("clone")].Terminating = true
	expect(i.AddressConflicts(t.Context()))
	*known[id("clone")] = podmanager.Pod{ID: id("clone"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.2")}, Finished: true}
	expect(i.AddressConflicts(t.Context()))
	*known[id("clone")] = podmanager.Pod{ID: id("clone"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.2")}}
	expect(i.AddressConflicts(t.Context()), conflict)

	add("web", "node2", "u2", "10.1.2.9")
	refused = []string{"a sandbox was refused"}
	former := "sandbox c1 on this node is no longer pod default/web, which is on node node2, UID u2"
	expect(i.Sandboxes(t.Context()), refused[0], former)
	expect(i.AddressConflicts(t.Context())) // the address is not the pod's
	lost = errors.New("no etcd")
	expect(i.Sandboxes(t.Context()), refused[0])
}
