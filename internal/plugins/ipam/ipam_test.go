package ipam_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"pgregory.net/rapid"
)

var ctx = context.Background()

type node struct {
	subnets  contivconf.Subnets
	id       uint32
	db       *memory.Store
	pods     *podmanager.PodManager
	local    podmanager.LocalPods
	ipam     *ipam.IPAM
	resyncs  int
	loop     plugintest.Loop
	external bool
	podCIDRs []string
}

func (n *node) NodeName() string             { return "node1" }
func (n *node) Subnets() contivconf.Subnets  { return n.subnets }
func (n *node) StaticGateways() []netip.Addr { return nil }
func (n *node) ExternalIPAM() bool           { return n.external }
func (n *node) GetAllNodes() nodesync.Nodes {
	return nodesync.Nodes{"node1": {ID: n.id, Name: "node1", PodCIDRs: n.podCIDRs}}
}
func (n *node) GetNodeID() uint32                               { return n.id }
func (n *node) LocalPods() podmanager.LocalPods                 { return n.local }
func (n *node) Pods() podmanager.Pods                           { return n.pods.Pods() }
func (n *node) Pod(id podmanager.PodID) (*podmanager.Pod, bool) { return n.pods.Pod(id) }
func (n *node) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	p, ok := n.local[id]
	return p, ok
}

type tb interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}

func start(t tb, s contivconf.Subnets, id uint32, kube ...*pod.Pod) *node {
	t.Helper()
	n := &node{subnets: s, id: id, db: memory.New(), local: podmanager.LocalPods{}}
	n.restart(t, kube...)
	return n
}

func (n *node) restart(t tb, kube ...*pod.Pod) {
	t.Helper()
	n.pods = podmanager.New("node1", memory.New(), podmanager.KernelNamespaces, "", nil, plugintest.Logger())
	n.ipam = ipam.New(n, n, n, &n.loop, n.db, plugintest.Logger())
	n.resyncs = 0
	n.resync(t, kube...)
}

func (n *node) resync(t tb, kube ...*pod.Pod) {
	t.Helper()
	n.resyncs++
	state := controller.KubeState{"pod": {}}
	for _, p := range kube {
		state["pod"][p.Namespace+"/"+p.Name] = p
	}
	for _, h := range []controller.EventHandler{n.pods, n.ipam} {
		if err := h.Resync(ctx, &controller.DBResync{}, state, n.resyncs, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
}

func id(name string) podmanager.PodID { return podmanager.PodID{Name: name, Namespace: "default"} }

// add imitates podmanager and the event loop for ADD.
func (n *node) add(name string) (string, error) {
	if n.local[id(name)] == nil {
		n.local[id(name)] = &podmanager.LocalPod{ID: id(name), ContainerID: "c-" + name}
	}
	event := &podmanager.AddPod{Pod: id(name), ContainerID: "c-" + name}
	if _, err := n.ipam.Update(ctx, event, plugintest.Txn{}); err != nil {
		delete(n.local, id(name))
		return "", err
	}
	return n.ip(name), nil
}

func (n *node) ip(name string) string {
	for _, addr := range n.ipam.GetPodIPs(id(name)) {
		return addr.String()
	}
	return ""
}

func (n *node) mustAdd(t tb, name, want string) {
	t.Helper()
	if got, err := n.add(name); err != nil || got != want {
		t.Errorf("address of %s: %s, %v; want %s", name, got, err, want)
	}
}

func (n *node) del(t tb, name string) {
	t.Helper()
	if _, err := n.ipam.Update(ctx, &podmanager.DeletePod{Pod: id(name), ContainerID: "c-" + name}, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	delete(n.local, id(name))
}

func (n *node) kube(t tb, prev, next *pod.Pod) {
	t.Helper()
	change := &controller.KubeStateChange{Resource: "pod"}
	handlers := []controller.EventHandler{n.pods, n.ipam}
	if prev != nil {
		change.PrevValue = prev
	}
	if next != nil {
		change.NewValue = next
	} else {
		handlers = []controller.EventHandler{n.ipam, n.pods}
	}
	for _, h := range handlers {
		if _, err := h.Update(ctx, change, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) allocations() string {
	var list []string
	for _, p := range n.ipam.Report().Pods {
		list = append(list, fmt.Sprintf("%s=%s%v", p.PodID.Name, p.MainIP, p.HeldBy))
	}
	return strings.Join(list, " ")
}

func kubePod(name, ip string) *pod.Pod {
	return &pod.Pod{Name: name, Namespace: "default", IpAddress: ip, NodeName: "node1"}
}

func withUID(p *pod.Pod, uid string) *pod.Pod {
	p.Uid = uid
	return p
}

var defaults = subnets("10.1.0.0/16", 24, "172.30.0.0/16", 24, "", "192.168.30.0/24")

func TestAddressesAreAssignedInOrder(t *testing.T) {
	n := start(t, ipv4, 1)
	n.mustAdd(t, "a", "1.2.128.10")
	n.mustAdd(t, "b", "1.2.128.11")
	n.mustAdd(t, "c", "1.2.128.12")
	n.mustAdd(t, "b", "1.2.128.11")

	n.del(t, "b")
	n.mustAdd(t, "d", "1.2.128.13")
	n.mustAdd(t, "e", "1.2.128.11")
}

func TestCapacity(t *testing.T) {
	for _, test := range []struct {
		subnets  contivconf.Subnets
		id       uint32
		capacity int
		last     string
	}{
		{defaults, 1, 252, "10.1.1.253"},
		{ipv4, 1, 4, "1.2.128.13"},
		{subnets("10.0.0.0/14", 22, "172.30.0.0/16", 24, "", "192.168.30.0/24"), 2, 1020, "10.0.11.253"},
		{ipv6, 1, 252, "fe10:f00d::1fd"},
	} {
		n := start(t, test.subnets, test.id)
		var last string
		for i := range test.capacity {
			ip, err := n.add(fmt.Sprint("pod-", i))
			if err != nil {
				t.Fatal(err)
			}
			last = ip
		}
		if last != test.last {
			t.Errorf("%v: last address %s, want %s", test.subnets.Pods, last, test.last)
		}
		if used, capacity := n.ipam.Usage(); used != capacity || capacity != uint64(test.capacity) {
			t.Errorf("%v: %d of %d used, want %d", test.subnets.Pods, used, capacity, test.capacity)
		}
		if _, err := n.add("one-more"); !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "podSubnetOneNodePrefixLen") {
			t.Errorf("%v: full subnet: %v", test.subnets.Pods, err)
		}
		n.del(t, "pod-0")
		if _, err := n.add("one-more"); err != nil {
			t.Errorf("%v: released address is not used: %v", test.subnets.Pods, err)
		}
	}
}

func TestWideIPv6Subnet(t *testing.T) {
	n := start(t, subnets("2001::/48", 60, "2002::/48", 64, "", "2003::/112"), 1)
	n.mustAdd(t, "a", "2001:0:0:10::2")
	n.mustAdd(t, "b", "2001:0:0:10::3")
}

func TestHolding(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(t *testing.T, n *node)
		want  string
	}{
		"wired, unknown to Kubernetes": {func(t *testing.T, n *node) {
			n.mustAdd(t, "a", "10.1.1.2")
		}, "a=10.1.1.2[local]"},
		"a restarting sandbox keeps its address": {func(t *testing.T, n *node) {
			n.kube(t, nil, kubePod("a", ""))
			n.mustAdd(t, "a", "10.1.1.2")
			n.del(t, "a")
			n.mustAdd(t, "b", "10.1.1.3")
			n.mustAdd(t, "a", "10.1.1.2")
		}, "a=10.1.1.2[local kubernetes] b=10.1.1.3[local]"},
		"object deleted first": {func(t *testing.T, n *node) {
			n.kube(t, nil, kubePod("a", ""))
			n.mustAdd(t, "a", "10.1.1.2")
			n.kube(t, kubePod("a", ""), nil)
		}, "a=10.1.1.2[local]"},
		"both gone": {func(t *testing.T, n *node) {
			n.kube(t, nil, kubePod("a", ""))
			n.mustAdd(t, "a", "10.1.1.2")
			n.del(t, "a")
			n.kube(t, kubePod("a", ""), nil)
		}, ""},
		"finished pods need no address": {func(t *testing.T, n *node) {
			n.kube(t, nil, kubePod("a", ""))
			n.mustAdd(t, "a", "10.1.1.2")
			n.del(t, "a")
			done := kubePod("a", "10.1.1.2")
			done.Phase = pod.Pod_SUCCEEDED
			n.kube(t, kubePod("a", ""), done)
		}, ""},
		"a pod of the same name on another node": {func(t *testing.T, n *node) {
			n.mustAdd(t, "a", "10.1.1.2")
			elsewhere := kubePod("a", "10.1.2.2")
			elsewhere.NodeName = "node2"
			n.kube(t, nil, elsewhere)
			n.del(t, "a")
		}, ""},
		"learned from Kubernetes": {func(t *testing.T, n *node) {
			n.kube(t, nil, kubePod("a", "10.1.1.77"))
			n.kube(t, nil, kubePod("elsewhere", "10.1.2.3"))
			host := kubePod("host", "10.1.1.78")
			host.HostNetwork = true
			n.kube(t, nil, host)
			n.kube(t, nil, kubePod("thief", "10.1.1.77"))
			n.kube(t, nil, kubePod("gateway", "10.1.1.1"))
			n.kube(t, nil, kubePod("nat", "10.1.1.254"))
		}, "a=10.1.1.77[kubernetes]"},
		"made again with another UID: the address was the former pod's": {func(t *testing.T, n *node) {
			n.kube(t, nil, withUID(kubePod("a", ""), "u1"))
			n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), UID: "u1", ContainerID: "c-a"}
			n.mustAdd(t, "a", "10.1.1.2")
			n.kube(t, withUID(kubePod("a", "10.1.1.2"), "u1"), withUID(kubePod("a", ""), "u2"))
			n.del(t, "a")
			n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), UID: "u2", ContainerID: "c-a"}
			n.mustAdd(t, "a", "10.1.1.3")
		}, "a=10.1.1.3[local kubernetes]"},
		"made again with another UID after its sandbox was removed": {func(t *testing.T, n *node) {
			n.kube(t, nil, withUID(kubePod("a", "10.1.1.2"), "u1"))
			n.kube(t, withUID(kubePod("a", "10.1.1.2"), "u1"), withUID(kubePod("a", ""), "u2"))
		}, ""},
		"made again with another UID before the former sandbox is removed": {func(t *testing.T, n *node) {
			n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), UID: "u1", ContainerID: "c-a"}
			n.mustAdd(t, "a", "10.1.1.2")
			n.kube(t, nil, withUID(kubePod("a", ""), "u2"))
		}, "a=10.1.1.2[local]"},
		"a new sandbox of the same pod": {func(t *testing.T, n *node) {
			n.kube(t, nil, withUID(kubePod("a", ""), "u1"))
			n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), UID: "u1", ContainerID: "c-a"}
			n.mustAdd(t, "a", "10.1.1.2")
			n.del(t, "a")
			n.local[id("a")] = &podmanager.LocalPod{ID: id("a"), UID: "u1", ContainerID: "c-a"}
			n.mustAdd(t, "a", "10.1.1.2")
		}, "a=10.1.1.2[local kubernetes]"},
		"DEL of an old container": {func(t *testing.T, n *node) {
			n.mustAdd(t, "a", "10.1.1.2")
			if _, err := n.ipam.Update(ctx, &podmanager.DeletePod{Pod: id("a"), ContainerID: "older"}, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
		}, "a=10.1.1.2[local]"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, defaults, 1)
			test.steps(t, n)
			if got := n.allocations(); got != test.want {
				t.Errorf("allocations: %s\nwant: %s", got, test.want)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	t.Run("allocations and their order are kept", func(t *testing.T) {
		n := start(t, defaults, 1)
		n.mustAdd(t, "a", "10.1.1.2")
		n.mustAdd(t, "b", "10.1.1.3")
		n.mustAdd(t, "c", "10.1.1.4")
		n.del(t, "a")
		n.restart(t)
		n.mustAdd(t, "b", "10.1.1.3")
		n.mustAdd(t, "d", "10.1.1.5")
	})
	t.Run("the address of a pod that has just gone is not the next one", func(t *testing.T) {
		n := start(t, defaults, 1)
		n.mustAdd(t, "a", "10.1.1.2")
		n.mustAdd(t, "b", "10.1.1.3")
		n.del(t, "b")
		n.restart(t)
		n.restart(t)
		n.mustAdd(t, "c", "10.1.1.4")
		n.del(t, "c")
		n.mustAdd(t, "d", "10.1.1.5")
		n.mustAdd(t, "e", "10.1.1.6")
		n.restart(t)
		n.mustAdd(t, "f", "10.1.1.7")
	})
	t.Run("pods that ended meanwhile are released", func(t *testing.T) {
		n := start(t, defaults, 1)
		n.mustAdd(t, "a", "10.1.1.2")
		n.mustAdd(t, "b", "10.1.1.3")
		delete(n.local, id("a"))
		n.restart(t, kubePod("b", "10.1.1.3"))
		if got, want := n.allocations(), "b=10.1.1.3[local kubernetes]"; got != want {
			t.Errorf("allocations %s, want %s", got, want)
		}
	})
	t.Run("without the local store, Kubernetes knows", func(t *testing.T) {
		n := start(t, defaults, 1)
		n.mustAdd(t, "a", "10.1.1.2")
		n.db.Wipe()
		n.restart(t, kubePod("a", "10.1.1.2"), kubePod("z", "10.1.1.9"))
		n.mustAdd(t, "a", "10.1.1.2")
		n.mustAdd(t, "b", "10.1.1.10")
	})
	t.Run("another pod subnet", func(t *testing.T) {
		n := start(t, defaults, 1)
		n.mustAdd(t, "a", "10.1.1.2")
		n.id = 7
		n.restart(t)
		n.mustAdd(t, "a", "10.1.7.2")
	})
	t.Run("garbage in the store", func(t *testing.T) {
		n := start(t, defaults, 1)
		if err := n.db.Put(ctx, ipam.StorePrefix+"default/x", []byte("{")); err != nil {
			t.Fatal(err)
		}
		n.restart(t)
		if _, exists, _ := n.db.Get(ctx, ipam.StorePrefix+"default/x"); exists {
			t.Error("unusable record was kept")
		}
	})
}

func TestStoreFailureFailsADD(t *testing.T) {
	n := start(t, defaults, 1)
	n.db.SetAvailable(false)
	if _, err := n.add("a"); err == nil || !strings.Contains(err.Error(), "persist the address") {
		t.Errorf("got %v", err)
	}
	n.db.SetAvailable(true)
	if got := n.allocations(); got != "" {
		t.Errorf("allocations after the failure: %s", got)
	}
}

func TestREST(t *testing.T) {
	n := start(t, defaults, 1)
	n.mustAdd(t, "a", "10.1.1.2")
	w := httptest.NewRecorder()
	n.ipam.Handler().ServeHTTP(w, httptest.NewRequest("GET", ipam.URL, nil))
	want := `{"Pods":[{"PodID":{"Name":"a","Namespace":"default"},"MainIP":"10.1.1.2","IPs":["10.1.1.2"],"CustomIfIPs":{},"HeldBy":["local"]}]}`
	if got := strings.Join(strings.Fields(w.Body.String()), ""); w.Code != 200 || got != want {
		t.Errorf("got %d %s\nwant %s", w.Code, got, want)
	}
}

// No two pods share an address, a held pod keeps its own, and the subnet can be filled completely.
func TestPoolProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := start(t, ipv4, 1)
		const capacity = 4
		wired, known := map[string]bool{}, map[string]bool{}
		held := map[string]string{} // pod -> address
		object := func(name string) *pod.Pod {
			if known[name] {
				return kubePod(name, "")
			}
			return nil
		}
		settle := func(name string) {
			if !wired[name] && !known[name] {
				delete(held, name)
			}
		}
		pods := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				name := pods.Draw(t, "pod")
				ip, err := n.add(name)
				if old, has := held[name]; has {
					if err != nil || ip != old {
						t.Fatalf("%s had %s, and now %s, %v", name, old, ip, err)
					}
				} else if (err != nil) != (len(held) >= capacity) {
					t.Fatalf("%s with %d of %d in use: %v", name, len(held), capacity, err)
				}
				if err == nil {
					wired[name], held[name] = true, ip
				}
			},
			"del": func(t *rapid.T) {
				name := pods.Draw(t, "pod")
				n.del(t, name)
				wired[name] = false
				settle(name)
			},
			"object appears": func(t *rapid.T) {
				name := pods.Draw(t, "pod")
				prev := object(name)
				known[name] = true
				n.kube(t, prev, object(name))
			},
			"object disappears": func(t *rapid.T) {
				name := pods.Draw(t, "pod")
				if prev := object(name); prev != nil {
					n.kube(t, prev, nil)
				}
				known[name] = false
				settle(name)
			},
			"restart": func(t *rapid.T) {
				var objects []*pod.Pod
				for name, exists := range known {
					if exists {
						objects = append(objects, kubePod(name, ""))
					}
				}
				n.restart(t, objects...)
			},
			"": func(t *rapid.T) {
				owner := map[string]string{}
				for name, ip := range held {
					if other, twice := owner[ip]; twice {
						t.Fatalf("%s and %s both have %s", name, other, ip)
					}
					owner[ip] = name
					if got := n.ip(name); got != ip {
						t.Fatalf("%s has %v, want %s", name, got, ip)
					}
				}
				if got := len(n.ipam.Report().Pods); got != len(held) {
					t.Fatalf("%d addresses in use, want %d: %s", got, len(held), n.allocations())
				}
			},
		})
	})
}
