package pods

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func TestPodsThatKubernetesKnowsOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := func(name string) podmanager.PodID { return podmanager.PodID{Namespace: "default", Name: name} }
		known := podmanager.Pods{}
		add := func(name, node, ip string) *podmanager.Pod {
			p := &podmanager.Pod{ID: id(name), NodeName: node}
			if ip != "" {
				p.IPs = []netip.Addr{netip.MustParseAddr(ip)}
			}
			known[id(name)] = p
			return p
		}
		add("right", "node1", "10.1.1.2")
		add("moved", "node1", "10.1.1.3")
		add("stranger", "node1", "10.9.9.9")
		add("starting", "node1", "")
		add("elsewhere", "node2", "10.1.2.2")
		add("host", "node1", "192.168.16.1").HostNetwork = true
		add("ended", "node1", "10.1.1.7").Finished = true
		wired := ipnet.PodsReport{Pods: []ipnet.PodReport{
			{Namespace: "default", Name: "right", IPs: []string{"10.1.1.2/32", "fd10::2/128"}},
			{Namespace: "default", Name: "moved", IPs: []string{"10.1.1.4/32"}},
			{Namespace: "default", Name: "starting", IPs: []string{"10.1.1.5/32"}},
		}}
		var lost error
		check := Connected("node1", func() podmanager.Pods { return known }, func() (ipnet.PodsReport, error) { return wired, nil }, func() error { return lost })
		expect := func(want ...string) {
			t.Helper()
			got := check.Look(t.Context())
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		expect() // within settleTime
		time.Sleep(settleTime)
		moved := "pod default/moved has the address 10.1.1.3 in Kubernetes, but 10.1.1.4 on this node"
		stranger := "pod default/stranger has the address 10.9.9.9 in Kubernetes, but Contiv did not connect it"
		expect(moved, stranger)
		lost = errors.New("no etcd")
		expect()
		lost = nil
		expect() // a new observation
		time.Sleep(settleTime)
		expect(moved, stranger)
		wired.Pods[1].IPs = []string{"10.1.1.3/32"}
		expect(stranger)
		wired.Pods[0].CustomInterfaces = []ipnet.CustomIfReport{{Name: "net1"}, {Name: "net2", Problem: "the subnet is full"}}
		expect(stranger)
		time.Sleep(settleTime)
		expect("pod default/right lacks its interface net2: the subnet is full", stranger)
		wired.Pods[0].CustomInterfaces = nil
		for _, name := range []string{"a", "b", "c"} {
			add(name, "node1", "10.9.9.1")
		}
		expect(stranger)
		time.Sleep(settleTime)
		expect("pod default/a ", "pod default/b ", "pod default/c ", "1 more pods have the same problem")
	})
}
