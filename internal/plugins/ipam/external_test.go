package ipam_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	kubenode "github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func (n *node) addExternal(name string, addrs ...string) error {
	n.local[id(name)] = &podmanager.LocalPod{ID: id(name), ContainerID: "c-" + name}
	event := &podmanager.AddPod{Pod: id(name), ContainerID: "c-" + name}
	for _, addr := range addrs {
		event.ExternalIPs = append(event.ExternalIPs, netip.MustParseAddr(addr))
	}
	_, err := n.ipam.Update(ctx, event, plugintest.Txn{})
	if err != nil {
		delete(n.local, id(name))
	}
	return err
}

func startExternal(t tb, podCIDRs string, kube ...*pod.Pod) *node {
	t.Helper()
	n := &node{subnets: defaults, id: 1, db: memory.New(), local: podmanager.LocalPods{}, external: true, podCIDRs: strings.Fields(podCIDRs)}
	n.restart(t, kube...)
	return n
}

func TestExternalIPAM(t *testing.T) {
	n := startExternal(t, "10.1.77.0/24", kubePod("elsewhere", "10.1.77.9"))
	for _, step := range []struct{ name, addr, want string }{
		{"a", "10.1.77.5", ""},
		{"a", "10.1.77.5", ""},
		{"a", "10.1.77.6", "already has the address 10.1.77.5"},
		{"b", "10.1.77.5", "belongs to pod default/a"},
		{"b", "10.1.1.5", "in no pod subnet of this node"},
		{"b", "10.1.77.1", "not an address for pods"},
		{"b", "", `add "ipam"`},
		{"b", "10.1.77.9", ""}, // Kubernetes' report of other pods is ignored
	} {
		local := n.local[id(step.name)]
		err := n.addExternal(step.name, strings.Fields(step.addr)...)
		if local != nil {
			n.local[id(step.name)] = local
		}
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("%s with %q: %v, want %q", step.name, step.addr, err, step.want)
		}
	}
	n.restart(t, kubePod("a", "10.1.77.5"))
	if got := n.ips("a") + n.ips("b"); got != "[10.1.77.5][10.1.77.9]" {
		t.Errorf("after a restart: %s", got)
	}
	// DEL frees the address at once: the IPAM plugin may assign it to the next pod.
	n.del(t, "a")
	if err := n.addExternal("c", "10.1.77.5"); err != nil {
		t.Error(err)
	}
}

// A pod without an address from each of two pod subnets keeps none.
func TestExternalIPAMDualStack(t *testing.T) {
	n := startExternal(t, "10.1.0.0/29 fd10:0:0:9::/64")
	n.subnets = dualStack()
	n.restart(t)
	for _, step := range []struct{ name, addrs, want string }{
		{"a", "10.1.0.3 fd10:0:0:9::3", ""},
		{"a", "10.1.0.3 fd10:0:0:9::3", ""},
		{"b", "10.1.0.4", "assigned only 10.1.0.4"},
		{"b", "10.1.0.4 fd10:0:0:9::3", "belongs to pod default/a"},
		{"b", "10.1.0.4 fd10:0:0:1::4", "in no pod subnet of this node"},
		{"b", "fd10:0:0:9::4 10.1.0.4", ""},
	} {
		local := n.local[id(step.name)]
		err := n.addExternal(step.name, strings.Fields(step.addrs)...)
		if local != nil {
			n.local[id(step.name)] = local
		}
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("%s with %q: %v, want %q", step.name, step.addrs, err, step.want)
		}
		if err != nil && n.ips(step.name) != "[]" {
			t.Errorf("%s was refused and holds %s", step.name, n.ips(step.name))
		}
	}
	n.restart(t)
	if got := n.ips("a") + n.ips("b"); got != "[10.1.0.3 fd10:0:0:9::3][10.1.0.4 fd10:0:0:9::4]" {
		t.Errorf("after a restart: %s", got)
	}
}

func TestExternalAddressWithoutExternalIPAM(t *testing.T) {
	n := start(t, defaults, 1)
	if err := n.addExternal("a", "10.1.1.5"); err == nil || !strings.Contains(err.Error(), "useExternalIPAM") {
		t.Errorf("got %v", err)
	}
}

func TestPodSubnetAssignedByKubernetes(t *testing.T) {
	n := startExternal(t, "")
	plan := n.ipam.Plan()
	for _, test := range []struct{ podCIDRs, want string }{
		{"10.1.77.0/24", "10.1.77.0/24"},
		{"10.1.77.0/26", "10.1.77.0/26"},
		{"", "10.1.2.0/24"}, // none assigned yet: derived from the ID
		{"10.9.0.0/24", "outside of ipamConfig.podSubnetCIDR 10.1.0.0/16"},
		{"10.0.0.0/8", "outside of ipamConfig.podSubnetCIDR 10.1.0.0/16"},
		{"nonsense", "not a network"},
		{"fd00::/64 10.1.77.0/24", "10.1.77.0/24"},
		{"fd00::/64", "no network of the IP version"},
	} {
		subnet, err := n.ipam.PodSubnet(&plan, &nodesync.Node{ID: 2, Name: "node2", PodCIDRs: strings.Fields(test.podCIDRs)})
		if got := fmt.Sprint(subnet, err); !strings.Contains(got, test.want) {
			t.Errorf("%q: %s, want %s", test.podCIDRs, got, test.want)
		}
	}
}

func TestChangeOfThePodSubnetIsAnnounced(t *testing.T) {
	for _, external := range []bool{true, false} {
		n := startExternal(t, "")
		n.external = external
		change := &controller.KubeStateChange{Resource: "node",
			PrevValue: &kubenode.Node{Name: "node2"}, NewValue: &kubenode.Node{Name: "node2", Pod_CIDR: "10.1.77.0/24"}}
		for range 2 {
			if _, err := n.ipam.Update(ctx, change, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			change.PrevValue = change.NewValue
		}
		change.NewValue = &kubenode.Node{Name: "node2", Pod_CIDR: "10.1.77.0/24", Pod_CIDRs: []string{"10.1.77.0/24", "fd10:0:0:9::/64"}}
		if _, err := n.ipam.Update(ctx, change, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
		events := n.loop.Take()
		if external && (len(events) != 2 || !strings.Contains(events[0].String(), "now: 10.1.77.0/24") || !strings.Contains(events[1].String(), ",fd10:0:0:9::/64")) || !external && len(events) != 0 {
			t.Errorf("external IPAM %v: %v", external, events)
		}
	}
}
