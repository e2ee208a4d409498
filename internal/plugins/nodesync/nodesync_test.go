package nodesync_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var ctx = context.Background()

func vppNode(id uint32, name string, ips ...string) *vppnode.VppNode {
	return &vppnode.VppNode{Id: id, Name: name, IpAddresses: ips}
}

func kubeNode(name string, ips ...string) *node.Node {
	n := &node.Node{Name: name}
	for _, ip := range ips {
		n.Addresses = append(n.Addresses, &node.NodeAddress{Type: node.NodeAddress_NodeInternalIP, Address: ip})
	}
	return n
}

func state(values ...proto.Message) controller.KubeState {
	s := controller.KubeState{"node": {}, "vppnode": {}}
	for _, value := range values {
		switch v := value.(type) {
		case *vppnode.VppNode:
			s["vppnode"][fmt.Sprint("allocatedIDs/", v.Id)] = v
		case *node.Node:
			s["node"]["k8s/node/"+v.Name] = v
		}
	}
	return s
}

func resync(t testing.TB, n *nodesync.NodeSync, s controller.KubeState) {
	t.Helper()
	if err := n.Resync(ctx, &controller.DBResync{State: s}, s, 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func stored(t testing.TB, db store.Broker, id uint32) *vppnode.VppNode {
	t.Helper()
	kv, ok, err := db.Get(ctx, fmt.Sprint(nodesync.IDPrefix, id))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	v := &vppnode.VppNode{}
	if err := protojson.Unmarshal(kv.Value, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAgentsRaceForIDs(t *testing.T) {
	for name, db := range map[string]store.Broker{"memory": memory.New(), "etcd": etcdBroker(t)} {
		t.Run(name, func(t *testing.T) {
			const agents = 50
			ids := make([]uint32, agents)
			var wg sync.WaitGroup
			for i := range agents {
				wg.Go(func() {
					n := nodesync.New(fmt.Sprintf("node-%d", i), db, nodesync.Self{}, nil, plugintest.Logger())
					s := state()
					if err := n.Resync(ctx, &controller.DBResync{}, s, 1, plugintest.Txn{}); err != nil {
						t.Error(err)
					}
					ids[i] = n.GetNodeID()
				})
			}
			wg.Wait()
			owner := make(map[uint32]int)
			for i, id := range ids {
				if other, twice := owner[id]; twice {
					t.Errorf("agents %d and %d both have ID %d", i, other, id)
				}
				owner[id] = i
				if id < 1 || id > agents {
					t.Errorf("agent %d has ID %d", i, id)
				} else if v := stored(t, db, id); v.GetName() != fmt.Sprintf("node-%d", i) {
					t.Errorf("ID %d is stored for %q", id, v.GetName())
				}
			}
		})
	}
}

func TestFirstFreeIDIsTaken(t *testing.T) {
	db := memory.New()
	for _, id := range []int{1, 2, 4} {
		if err := db.Put(ctx, fmt.Sprint(nodesync.IDPrefix, id), []byte(fmt.Sprintf(`{"id":%d,"name":"other-%d"}`, id, id))); err != nil {
			t.Fatal(err)
		}
	}
	n := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
	resync(t, n, state())
	if id := n.GetNodeID(); id != 3 {
		t.Errorf("ID %d, want 3", id)
	}
	again := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
	resync(t, again, state())
	if id := again.GetNodeID(); id != 3 {
		t.Errorf("ID after a restart that lost the local state: %d, want 3", id)
	}
}

func TestWithoutStore(t *testing.T) {
	db := memory.New()
	db.SetAvailable(false)

	t.Run("a known ID suffices", func(t *testing.T) {
		n := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
		resync(t, n, state(vppNode(7, "node1", "192.168.16.7/24")))
		if id := n.GetNodeID(); id != 7 {
			t.Errorf("ID %d, want 7", id)
		}
		if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.7/24"), false); err != nil {
			t.Error(err)
		}
	})
	t.Run("without an ID, nothing works", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 1)
		defer cancel()
		n := nodesync.New("node2", db, nodesync.Self{}, nil, plugintest.Logger())
		err := n.Resync(short, &controller.DBResync{}, state(), 1, plugintest.Txn{})
		if !errors.Is(err, nodesync.ErrNoNodeID) || !strings.Contains(err.Error(), "check that etcd is up") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPublishNodeIPs(t *testing.T) {
	db := memory.New()
	n := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
	resync(t, n, state())
	publish := func(ipv6 bool, addresses ...string) {
		t.Helper()
		if err := n.PublishNodeIPs(ctx, prefixes(addresses...), ipv6); err != nil {
			t.Fatal(err)
		}
	}
	want := func(addresses ...string) {
		t.Helper()
		if v := stored(t, db, 1); !proto.Equal(v, vppNode(1, "node1", addresses...)) {
			t.Errorf("stored %v, want addresses %v", v, addresses)
		}
	}
	publish(false, "192.168.16.1/24", "192.168.16.1/24")
	want("192.168.16.1/24")
	publish(true, "fd00::1/64")
	want("192.168.16.1/24", "fd00::1/64")
	publish(false, "192.168.16.9/24")
	want("192.168.16.9/24", "fd00::1/64")

	_, before, _ := db.List(ctx, nodesync.IDPrefix)
	publish(false, "192.168.16.9/24")
	if _, after, _ := db.List(ctx, nodesync.IDPrefix); after != before {
		t.Error("unchanged addresses were written again")
	}

	t.Run("during an outage: published by the next resync", func(t *testing.T) {
		db.SetAvailable(false)
		publish(false, "192.168.16.10/24")
		db.SetAvailable(true)
		want("192.168.16.9/24", "fd00::1/64")
		resync(t, n, state(vppNode(1, "node1", "192.168.16.9/24", "fd00::1/64")))
		want("192.168.16.10/24", "fd00::1/64")
	})
	t.Run("a lost ID is not overwritten", func(t *testing.T) {
		if err := db.Put(ctx, nodesync.IDPrefix+"1", []byte(`{"id":1,"name":"thief"}`)); err != nil {
			t.Fatal(err)
		}
		err := n.PublishNodeIPs(ctx, prefixes("192.168.16.11/24"), false)
		if !errors.Is(err, nodesync.ErrNoNodeID) || !strings.Contains(err.Error(), "now used by node thief") {
			t.Errorf("got %v", err)
		}
	})
}

// If a record of the own ID names another node, the agent ends only if that node has no other ID.
// Then both would have the same pod subnet.
func TestIDThatNamesAnotherNode(t *testing.T) {
	for name, test := range map[string]struct {
		others []proto.Message
		fatal  bool
	}{
		"the node is unknown":                 {nil, false},
		"that node has an ID of its own":      {[]proto.Message{vppNode(2, "other"), kubeNode("other", "192.168.16.2")}, false},
		"that node joined and has this ID":    {[]proto.Message{kubeNode("other", "192.168.16.2")}, true},
		"that node is not one of Kubernetes'": {[]proto.Message{vppNode(2, "other")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db := memory.New()
			n := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
			resync(t, n, state(append(test.others, kubeNode("node1", "192.168.16.1"))...))
			id := n.GetNodeID()
			if err := db.Put(ctx, fmt.Sprint(nodesync.IDPrefix, id), fmt.Appendf(nil, `{"id":%d,"name":"other"}`, id)); err != nil {
				t.Fatal(err)
			}
			err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false)
			if !errors.Is(err, nodesync.ErrNoNodeID) {
				t.Fatalf("got %v", err)
			}
			if _, fatal := errors.AsType[*controller.FatalError](err); fatal != test.fatal {
				t.Errorf("fatal: %v, want %v: %v", fatal, test.fatal, err)
			}
		})
	}
}

func TestAddressMovesFromTheHostToTheVSwitch(t *testing.T) {
	db := memory.New()
	before := vppNode(4, "node1", "192.168.16.9/24")
	data, err := protojson.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put(ctx, fmt.Sprint(nodesync.IDPrefix, 4), data); err != nil {
		t.Fatal(err)
	}
	n := nodesync.New("node1", db, nodesync.Self{HostAddresses: func() []netip.Prefix { return prefixes("192.168.16.9/24") }}, nil, plugintest.Logger())
	resync(t, n, state(before, kubeNode("node1", "192.168.16.9")))
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.109/24"), false); err != nil {
		t.Error(err)
	}
}

// An agent of another machine must not take over a node's identity. NodeUpdate is only sent for
// changes.
func TestNameOfAnotherNode(t *testing.T) {
	for name, test := range map[string]struct {
		stored, kube []string
		taken        bool
	}{
		"new node":     {nil, []string{"192.168.16.1"}, false},
		"same address": {[]string{"192.168.16.1/24"}, []string{"192.168.16.1"}, false},
		"same address, Kubernetes knows another one":    {[]string{"192.168.16.1/24"}, []string{"10.9.9.9"}, false},
		"address changed, Kubernetes knows the new one": {[]string{"192.168.16.9/24"}, []string{"192.168.16.1"}, false},
		"address changed, Kubernetes knows both":        {[]string{"192.168.16.9/24"}, []string{"192.168.16.9", "192.168.16.1"}, false},
		"address changed, Kubernetes knows other ones":  {[]string{"192.168.16.9/24"}, []string{"10.9.9.9"}, false},
		"address changed, Kubernetes knows of nothing":  {[]string{"192.168.16.9/24"}, nil, false},
		"another machine":                                {[]string{"192.168.16.9/24"}, []string{"192.168.16.9"}, true},
		"another machine with several addresses":         {[]string{"192.168.16.9/24", "192.168.17.9/24"}, []string{"192.168.17.9"}, true},
		"stored address is of the other IP version only": {[]string{"fd00::9/64"}, []string{"fd00::9"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db := memory.New()
			before := vppNode(4, "node1", test.stored...)
			data, err := protojson.Marshal(before)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Put(ctx, fmt.Sprint(nodesync.IDPrefix, 4), data); err != nil {
				t.Fatal(err)
			}
			n := nodesync.New("node1", db, nodesync.Self{}, nil, plugintest.Logger())
			resync(t, n, state(before, kubeNode("node1", test.kube...)))
			err = n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false)
			if !test.taken {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, nodesync.ErrNameTaken) || !strings.Contains(err.Error(), "--node-name") {
				t.Errorf("got error %v", err)
			}
			if after := stored(t, db, 4); !proto.Equal(before, after) {
				t.Errorf("stored is %v, before %v", after, before)
			}
		})
	}
}

func TestAddressMayChangeWhileTheAgentRuns(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, nil, plugintest.Logger())
	resync(t, n, state(kubeNode("node1", "192.168.16.1")))
	for _, address := range []string{"192.168.16.1/24", "192.168.16.2/24"} {
		if err := n.PublishNodeIPs(ctx, prefixes(address), false); err != nil {
			t.Error(err)
		}
	}
}

func TestNodeUpdate(t *testing.T) {
	mgmt := func(addresses ...string) proto.Message { return kubeNode("node2", addresses...) }
	for _, test := range []struct {
		name       string
		before     controller.KubeState
		resource   string
		prev, next proto.Message
		want       string
	}{
		{"other node joins", state(kubeNode("node2", "10.0.0.2")), "vppnode", nil, vppNode(2, "node2", "192.168.16.2/24"),
			"node2: none -> ID 2, vswitch [192.168.16.2/24], management [10.0.0.2]"},
		{"other node leaves", state(vppNode(2, "node2", "192.168.16.2/24")), "vppnode", vppNode(2, "node2", "192.168.16.2/24"), nil,
			"node2: ID 2, vswitch [192.168.16.2/24], management [] -> none"},
		{"vswitch addresses of another node change", state(vppNode(2, "node2", "192.168.16.2/24")), "vppnode",
			vppNode(2, "node2", "192.168.16.2/24"), vppNode(2, "node2", "192.168.16.3/24"),
			"node2: ID 2, vswitch [192.168.16.2/24], management [] -> ID 2, vswitch [192.168.16.3/24], management []"},
		{"management addresses of another node change", state(vppNode(2, "node2"), mgmt("10.0.0.2")), "node", mgmt("10.0.0.2"), mgmt("10.0.0.3"),
			"node2: ID 2, vswitch [], management [10.0.0.2] -> ID 2, vswitch [], management [10.0.0.3]"},
		{"their order does not matter", state(vppNode(2, "node2"), mgmt("10.0.0.2", "10.0.0.3")), "node", mgmt("10.0.0.2", "10.0.0.3"), mgmt("10.0.0.3", "10.0.0.2"), ""},
		{"other node without an ID", state(mgmt("10.0.0.2")), "node", mgmt("10.0.0.2"), mgmt("10.0.0.3"), ""},
		{"nothing of interest changes", state(vppNode(2, "node2", "192.168.16.2/24")), "vppnode",
			vppNode(2, "node2", "192.168.16.2/24"), vppNode(2, "node2", "192.168.16.2/24"), ""},
		{"an ID changes hands", state(vppNode(2, "node2")), "vppnode", vppNode(2, "node2"), vppNode(2, "node3"),
			"node2: ID 2, vswitch [], management [] -> none; node3: none -> ID 2, vswitch [], management []"},
		{"an ID that is no longer used is removed", state(vppNode(2, "node2"), vppNode(5, "node2")), "vppnode", vppNode(5, "node2"), nil, ""},
		{"own management addresses change", state(kubeNode("node1", "10.0.0.1")), "node", kubeNode("node1", "10.0.0.1"), kubeNode("node1", "10.0.0.9"),
			"node1: ID 1, vswitch [], management [10.0.0.1] -> ID 1, vswitch [], management [10.0.0.9]"},
		{"own vswitch addresses change", state(), "vppnode", vppNode(1, "node1"), vppNode(1, "node1", "192.168.16.1/24"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var loop plugintest.Loop
			n := nodesync.New("node1", memory.New(), nodesync.Self{}, &loop, plugintest.Logger())
			resync(t, n, test.before)
			change := &controller.KubeStateChange{Resource: test.resource, PrevValue: test.prev, NewValue: test.next}
			if !n.HandlesEvent(change) {
				t.Fatal("not handled")
			}
			if _, err := n.Update(ctx, change, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, event := range loop.Take() {
				u := event.(*nodesync.NodeUpdate)
				got = append(got, fmt.Sprintf("%s: %v -> %v", u.NodeName, u.PrevState, u.NewState))
			}
			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func TestReleasedIDIsReclaimed(t *testing.T) {
	db := memory.New()
	n := nodesync.New("node1", db, nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	resync(t, n, state(kubeNode("node1", "10.0.0.1")))
	update := func(resource string, prev, next proto.Message) {
		t.Helper()
		if _, err := n.Update(ctx, &controller.KubeStateChange{Resource: resource, PrevValue: prev, NewValue: next}, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	update("node", kubeNode("node1", "10.0.0.1"), nil)
	if err := db.Delete(ctx, nodesync.IDPrefix+"1"); err != nil {
		t.Fatal(err)
	}
	update("vppnode", vppNode(1, "node1"), nil)
	resync(t, n, state())
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	if v := stored(t, db, 1); v != nil {
		t.Errorf("the ID of a deleted node was claimed: %v", v)
	}
	update("node", nil, kubeNode("node1", "10.0.0.1"))
	if v := stored(t, db, 1); v.GetName() != "node1" || fmt.Sprint(v.GetIpAddresses()) != "[192.168.16.1/24]" {
		t.Errorf("stored %v", v)
	}
}

// A record may be overwritten: KSR repairs a record to ID and name.
func TestOverwrittenAddressesArePublishedAgain(t *testing.T) {
	db, loop := memory.New(), &plugintest.Loop{}
	n := nodesync.New("node1", db, nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(kubeNode("node1")))
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	published := stored(t, db, 1)
	if err := db.Put(ctx, nodesync.IDPrefix+"1", []byte(`{"id":1,"name":"node1"}`)); err != nil {
		t.Fatal(err)
	}
	change := &controller.KubeStateChange{Resource: "vppnode", Key: "allocatedIDs/1", PrevValue: published, NewValue: vppNode(1, "node1")}
	if _, err := n.Update(ctx, change, nil); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, db, 1); !proto.Equal(got, published) {
		t.Errorf("got %v, want %v", got, published)
	}
}

func TestGetAllNodes(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, nil, plugintest.Logger())
	if nodes := n.GetAllNodes(); len(nodes) != 0 || n.GetNodeID() != 0 {
		t.Errorf("before the first resync: %v", nodes)
	}
	resync(t, n, state(vppNode(2, "node2"), kubeNode("node3", "10.0.0.3"), kubeNode("node1", "10.0.0.1")))
	nodes := n.GetAllNodes()
	if len(nodes) != 2 || nodes["node1"].ID != 1 || nodes["node2"].ID != 2 {
		t.Errorf("got %v: want the nodes with an ID", nodes)
	}
}

func TestGetAllNodesIsASnapshot(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	resync(t, n, state(vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node2", "10.0.0.2")))
	before := n.GetAllNodes()
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	for _, change := range []*controller.KubeStateChange{
		{Resource: "vppnode", PrevValue: vppNode(2, "node2", "192.168.16.2/24"), NewValue: vppNode(2, "node2", "192.168.16.22/24")},
		{Resource: "node", PrevValue: kubeNode("node2", "10.0.0.2"), NewValue: kubeNode("node2", "10.0.0.22")},
		{Resource: "vppnode", NewValue: vppNode(3, "node3")},
	} {
		if _, err := n.Update(ctx, change, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(before) != 2 || len(before["node1"].VPPIPs) != 0 || fmt.Sprint(before["node2"]) != "ID 2, vswitch [192.168.16.2/24], management [10.0.0.2]" {
		t.Errorf("before: %v", before)
	}
	after := n.GetAllNodes()
	if len(after) != 3 || fmt.Sprint(after["node1"].VPPIPs) != "[192.168.16.1/24]" || fmt.Sprint(after["node2"]) != "ID 2, vswitch [192.168.16.22/24], management [10.0.0.22]" {
		t.Errorf("after: %v", after)
	}
}

func TestREST(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, nil, plugintest.Logger())
	get := func(method string) (int, string) {
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, httptest.NewRequest(method, nodesync.NodesURL, nil))
		return w.Code, strings.Join(strings.Fields(w.Body.String()), "")
	}
	if code, body := get("GET"); code != 503 || !strings.Contains(body, `"Error"`) {
		t.Errorf("before the first resync: %d %s", code, body)
	}
	resync(t, n, state(vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node3", "10.0.0.3")))
	want := `{"thisNode":"node1","nodes":[{"id":1,"name":"node1","vppIPs":[],"mgmtIPs":[]},` +
		`{"id":2,"name":"node2","vppIPs":["192.168.16.2/24"],"mgmtIPs":[]},{"id":0,"name":"node3","vppIPs":[],"mgmtIPs":["10.0.0.3"]}]}`
	if code, body := get("GET"); code != 200 || body != want {
		t.Errorf("got %d %s\nwant %s", code, body, want)
	}
	if code, _ := get("POST"); code != 405 {
		t.Errorf("POST: %d", code)
	}
}

func etcdBroker(t testing.TB) store.Broker { return etcdtest.Start(t).Store() }

// Nodes publish whether their vswitch has its own network stack, even if their addresses were
// published without it or for another vswitch.
func TestOwnStackIsPublished(t *testing.T) {
	db := memory.New()
	const before = `{"id":1,"name":"node1","ip_addresses":["192.168.16.1/24"]}`
	if err := db.Put(ctx, nodesync.IDPrefix+"1", []byte(before)); err != nil {
		t.Fatal(err)
	}
	for _, own := range []bool{true, false} {
		n := nodesync.New("node1", db, nodesync.Self{OwnStack: &own}, nil, plugintest.Logger())
		resync(t, n, state(stored(t, db, 1), kubeNode("node1", "192.168.16.1")))
		if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
			t.Fatal(err)
		}
		if v := stored(t, db, 1); v.OwnNetworkStack == nil || v.GetOwnNetworkStack() != own {
			t.Errorf("stored: %v, want %v", v, own)
		}
		resync(t, n, state(kubeNode("node1", "192.168.16.1")))
		if v := stored(t, db, 1); v.OwnNetworkStack == nil || v.GetOwnNetworkStack() != own {
			t.Errorf("stored after a resync: %v, want %v", v, own)
		}
		if report, _ := n.Report(); report.Nodes[0].OwnStack == nil || *report.Nodes[0].OwnStack != own {
			t.Errorf("reported: %+v, want %v", report.Nodes[0], own)
		}
	}
}

// A change of a node's vswitch is announced, even with the same addresses. Without its report,
// nothing is known.
func TestOwnStackOfOthers(t *testing.T) {
	says := func(own *bool) *vppnode.VppNode {
		v := vppNode(2, "node2", "192.168.16.2/24")
		v.OwnNetworkStack = own
		return v
	}
	loop := &plugintest.Loop{}
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, loop, plugintest.Logger())
	prev := says(nil)
	resync(t, n, state(vppNode(1, "node1"), prev))
	for _, own := range []*bool{nil, proto.Bool(true), proto.Bool(true), proto.Bool(false), nil} {
		next := says(own)
		changed := (prev.OwnNetworkStack == nil) != (own == nil) || prev.GetOwnNetworkStack() != next.GetOwnNetworkStack()
		change := &controller.KubeStateChange{Resource: "vppnode", Key: "allocatedIDs/2", PrevValue: prev, NewValue: next}
		if _, err := n.Update(ctx, change, nil); err != nil {
			t.Fatal(err)
		}
		if events := loop.Take(); (len(events) == 1) != changed {
			t.Errorf("%v, then %v: announced %v", prev, next, events)
		}
		if got := n.GetAllNodes()["node2"].OwnStack; (got == nil) != (own == nil) || got != nil && *got != *own {
			t.Errorf("%v: known is %v", next, got)
		}
		prev = next
	}
}
