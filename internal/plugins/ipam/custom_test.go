package ipam_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

var red = ipam.CustomNetwork{Name: "red", Subnet: netip.MustParsePrefix("10.4.0.0/16"), OneNodeLen: 29}

func (n *node) mustCustom(t tb, pod, iface, network, want string) {
	t.Helper()
	if got, err := n.ipam.AllocatePodCustomIfIP(ctx, id(pod), iface, network); err != nil || strings.Trim(fmt.Sprint(got), "[]") != want {
		t.Fatal(fmt.Sprintf("interface %s of %s in network %q: %v, %v; want %s", iface, pod, network, got, err, want))
	}
}

func startCustom(t tb, networks ...ipam.CustomNetwork) *node {
	t.Helper()
	n := start(t, defaults, 2)
	n.setNetworks(t, networks...)
	return n
}

func (n *node) setNetworks(t tb, networks ...ipam.CustomNetwork) {
	t.Helper()
	for _, network := range networks {
		if err := n.ipam.SetCustomNetwork(ctx, network); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) customIfIPs(name string) string {
	for _, p := range n.ipam.Report().Pods {
		if p.PodID == id(name) {
			var list []string
			for _, iface := range slices.Sorted(maps.Keys(p.CustomIfIPs)) {
				list = append(list, iface+" "+p.CustomIfIPs[iface])
			}
			return strings.Join(list, ", ")
		}
	}
	return "none"
}

func TestCustomInterfacesGetAddresses(t *testing.T) {
	blue := ipam.CustomNetwork{Name: "blue", Subnet: netip.MustParsePrefix("fd44::/48"), OneNodeLen: 64}
	n := startCustom(t, red, blue)
	n.mustAdd(t, "a", "10.1.2.2")
	n.mustCustom(t, "a", "net1", "red", "10.4.0.18")
	n.mustCustom(t, "a", "net2", "red", "10.4.0.19")
	n.mustCustom(t, "a", "net1", "red", "10.4.0.18")
	n.mustCustom(t, "a", "net3", "blue", "fd44:0:0:2::2")
	n.mustCustom(t, "a", "net4", "", "10.1.2.3")
	n.mustAdd(t, "b", "10.1.2.4")
	if subnet, ok := n.ipam.CustomPodSubnet("red"); !ok || subnet.String() != "10.4.0.16/29" {
		t.Errorf("subnet: %v, %v", subnet, ok)
	}
	const want = "net1 10.4.0.18, net2 10.4.0.19, net3 fd44:0:0:2::2, net4 10.1.2.3"
	if got := n.customIfIPs("a"); got != want {
		t.Errorf("REST: %s", got)
	}
	if addrs := n.ipam.GetPodCustomIfIPs(id("a"), "net2", "red"); fmt.Sprint(addrs) != "[10.4.0.19]" {
		t.Errorf("got %v", addrs)
	}
	for _, of := range [][2]string{{"net2", "blue"}, {"net9", "red"}, {"net2", ""}} {
		if addrs := n.ipam.GetPodCustomIfIPs(id("a"), of[0], of[1]); len(addrs) > 0 {
			t.Errorf("%v has %v", of, addrs)
		}
	}

	// A restart keeps the addresses, even if the network becomes known later.
	n.restart(t)
	if got := n.customIfIPs("a"); got != want {
		t.Errorf("REST after a restart: %s", got)
	}
	if _, err := n.ipam.AllocatePodCustomIfIP(ctx, id("b"), "net1", "red"); !errors.Is(err, ipam.ErrNoNetwork) {
		t.Errorf("network that is not known: %v", err)
	}
	n.setNetworks(t, red, blue)
	n.mustCustom(t, "b", "net1", "red", "10.4.0.20")
	n.mustCustom(t, "a", "net2", "red", "10.4.0.19")
	n.mustCustom(t, "a", "net4", "default", "10.1.2.3")

	n.del(t, "a")
	if got := n.customIfIPs("a"); got != "none" {
		t.Errorf("REST after DEL: %s", got)
	}
	n.mustCustom(t, "b", "net2", "red", "10.4.0.21")
	n.mustCustom(t, "b", "net3", "red", "10.4.0.18")
	n.restart(t)
	if got := n.customIfIPs("a"); got != "none" {
		t.Errorf("REST after DEL and a restart: %s", got)
	}
}

func TestCustomNetworkIsExhausted(t *testing.T) {
	n := startCustom(t, red)
	n.mustAdd(t, "a", "10.1.2.2")
	for i := range 4 {
		n.mustCustom(t, "a", fmt.Sprintf("net%d", i), "red", fmt.Sprintf("10.4.0.%d", 18+i))
	}
	_, err := n.ipam.AllocatePodCustomIfIP(ctx, id("a"), "net4", "red")
	if !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "subnetOneNodePrefix of custom network red") {
		t.Errorf("got %v", err)
	}
	if err := n.ipam.ReleaseOtherPodCustomIfIPs(ctx, id("a"), func(iface, _ string) bool { return iface != "net2" }); err != nil {
		t.Fatal(err)
	}
	if events := n.loop.Take(); len(events) != 1 || events[0].(*podmanager.PodCustomIfUpdate).Pod != id("a") {
		t.Errorf("an address is free: %v, want the pod that waits for one to be told", events)
	}
	n.mustCustom(t, "a", "net4", "red", "10.4.0.20")
	n.restart(t)
	if got := n.customIfIPs("a"); got != "net0 10.4.0.18, net1 10.4.0.19, net3 10.4.0.21, net4 10.4.0.20" {
		t.Errorf("after a restart: %s", got)
	}
}

func TestCustomNetworkChanges(t *testing.T) {
	n := startCustom(t, red)
	n.mustAdd(t, "a", "10.1.2.2")
	n.mustCustom(t, "a", "net1", "red", "10.4.0.18")
	n.mustCustom(t, "a", "net2", "red", "10.4.0.19")

	larger := red
	larger.OneNodeLen = 24
	n.setNetworks(t, larger, larger)
	n.mustCustom(t, "a", "net1", "red", "10.4.2.2") // 10.4.0.18 now belongs to another node
	if got := n.customIfIPs("a"); got != "net1 10.4.2.2" {
		t.Errorf("after the change: %s", got)
	}
	wider := larger
	wider.Subnet = netip.MustParsePrefix("10.4.0.0/15")
	n.setNetworks(t, wider)
	n.mustCustom(t, "a", "net1", "red", "10.4.2.2")
	n.mustCustom(t, "a", "net2", "red", "10.4.2.3")

	n.setNetworks(t, ipam.CustomNetwork{Name: "green", Subnet: netip.MustParsePrefix("10.6.0.0/16"), OneNodeLen: 24})
	n.mustCustom(t, "a", "net1", "green", "10.6.2.2")
	if got := n.customIfIPs("a"); got != "net1 10.6.2.2, net2 10.4.2.3" {
		t.Errorf("after the move: %s", got)
	}
	if err := n.ipam.RemoveCustomNetwork(ctx, "red"); err != nil {
		t.Fatal(err)
	}
	if got := n.customIfIPs("a"); got != "net1 10.6.2.2" {
		t.Errorf("after the removal: %s", got)
	}
	if _, known := n.ipam.CustomPodSubnet("red"); known {
		t.Error("the removed network is known")
	}
	n.restart(t)
	if got := n.customIfIPs("a"); got != "net1 10.6.2.2" {
		t.Errorf("after a restart: %s", got)
	}
}

func TestCustomNetworkErrors(t *testing.T) {
	n := start(t, defaults, 2)
	for want, edit := range map[string]func(*ipam.CustomNetwork){
		"another name":              func(c *ipam.CustomNetwork) { c.Name = "default" },
		"is not a network":          func(c *ipam.CustomNetwork) { c.Subnet = netip.MustParsePrefix("10.4.0.1/16") },
		"subnetCIDR invalid Prefix": func(c *ipam.CustomNetwork) { c.Subnet = netip.Prefix{} },
		"must be from 17 to 29":     func(c *ipam.CustomNetwork) { c.OneNodeLen = 16 },
		"subnetOneNodePrefix 30":    func(c *ipam.CustomNetwork) { c.OneNodeLen = 30 },
		"out of range": func(c *ipam.CustomNetwork) {
			c.Subnet, c.OneNodeLen = netip.MustParsePrefix("10.4.0.0/28"), 29
			n.id = 9
		},
	} {
		n.id = 2
		network := red
		edit(&network)
		if err := n.ipam.SetCustomNetwork(ctx, network); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", network, err, want)
		}
	}
	n.id = 0
	if err := n.ipam.SetCustomNetwork(ctx, red); err == nil || !strings.Contains(err.Error(), "no ID yet") {
		t.Errorf("without node ID: %v", err)
	}
	if _, err := n.ipam.AllocatePodCustomIfIP(ctx, id("a"), "", "red"); err == nil {
		t.Error("interface without a name")
	}
	n.external = true
	if _, err := n.ipam.AllocatePodCustomIfIP(ctx, id("a"), "net1", ""); err == nil || !strings.Contains(err.Error(), "use the network stub") {
		t.Errorf("default network with external IPAM: %v", err)
	}
}

func TestCustomAddressesOfForgottenPods(t *testing.T) {
	n := startCustom(t, red)
	n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), ContainerID: "c-a"}
	n.mustCustom(t, "a", "net1", "red", "10.4.0.18")
	if _, err := n.ipam.Update(ctx, &podmanager.AddPod{Pod: id("a"), ContainerID: "c-a"}, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	delete(n.local, id("a"))
	n.resync(t)
	if got := n.customIfIPs("a"); got != "none" {
		t.Errorf("left: %s", got)
	}
}

func TestCustomAddressesOfBothVersions(t *testing.T) {
	n := start(t, dualStack(), 1)
	n.mustAdd(t, "a", "10.1.0.10")
	n.mustCustom(t, "a", "net1", "", "10.1.0.11 fd10:0:0:1::3")
	n.mustCustom(t, "a", "net2", "", "10.1.0.12 fd10:0:0:1::4")
	n.mustAdd(t, "b", "10.1.0.13")
	n.restart(t)
	n.mustCustom(t, "a", "net2", "", "10.1.0.12 fd10:0:0:1::4")
	if _, err := n.ipam.AllocatePodCustomIfIP(ctx, id("b"), "net1", ""); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("in a full subnet: %v", err)
	}
	n.del(t, "a")
	if events := n.loop.Take(); len(events) != 1 || events[0].(*podmanager.PodCustomIfUpdate).Pod != id("b") {
		t.Errorf("addresses are free: %v, want the pod that waits for one to be told", events)
	}
	n.mustCustom(t, "b", "net1", "", "10.1.0.10 fd10:0:0:1::6")
}
