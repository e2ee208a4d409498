package nodesync_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/store/memory"
	"google.golang.org/protobuf/proto"
)

// Where services reach pods is in the record of their node, and told to the handlers of all
// nodes, once for each change.
func TestPodAddresses(t *testing.T) {
	db, loop := memory.New(), &plugintest.Loop{}
	n := nodesync.New("node1", db, nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(kubeNode("node1")))
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	a := nodesync.PodAddresses{Namespace: "default", Name: "a", Interface: "net1", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.3"), netip.MustParseAddr("fd10::3")}}
	b := nodesync.PodAddresses{Namespace: "default", Name: "b", Interface: "net2", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.5")}}
	publish := func(list ...nodesync.PodAddresses) {
		t.Helper()
		if err := n.PublishPodAddresses(ctx, list); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	if events := loop.Take(); len(events) != 0 {
		t.Errorf("nothing changed: %v", events)
	}
	publish(b, a)
	events := loop.Take()
	if len(events) != 1 || fmt.Sprint(events[0].(*nodesync.NodeUpdate).NewState.PodAddresses) != fmt.Sprint([]nodesync.PodAddresses{a, b}) {
		t.Errorf("the handlers are told %v", events)
	}
	record := stored(t, db, 1)
	want := &vppnode.VppNode{Id: 1, Name: "node1", IpAddresses: []string{"192.168.16.1/24"}, PodAddresses: []*vppnode.PodAddresses{
		{PodNamespace: "default", PodName: "a", Interface: "net1", Addresses: []string{"10.1.1.3", "fd10::3"}},
		{PodNamespace: "default", PodName: "b", Interface: "net2", Addresses: []string{"10.1.1.5"}},
	}}
	if !proto.Equal(record, want) {
		t.Errorf("the record is %v, want %v", record, want)
	}
	publish(a, b)
	if events := loop.Take(); len(events) != 0 {
		t.Errorf("in another order: %v", events)
	}
	resync(t, n, state(kubeNode("node1"), record))
	if got := n.GetAllNodes()["node1"].PodAddresses; len(got) != 2 {
		t.Errorf("after a resync: %v", got)
	}

	// Another node learns it with the record; what is no address is left out.
	other := nodesync.New("node2", memory.New(), nodesync.Self{}, loop, plugintest.Logger())
	without := vppNode(1, "node1", "192.168.16.1/24")
	resync(t, other, state(kubeNode("node2"), without))
	record.PodAddresses[1].Addresses = append(record.PodAddresses[1].Addresses, "\x1b", "fe80::1%eth0")
	if _, err := other.Update(ctx, &controller.KubeStateChange{Resource: "vppnode", Key: "allocatedIDs/1", PrevValue: without, NewValue: record}, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	events = loop.Take()
	if len(events) != 1 || fmt.Sprint(events[0].(*nodesync.NodeUpdate).NewState.PodAddresses) != fmt.Sprint([]nodesync.PodAddresses{a, b}) {
		t.Errorf("the other node is told %v", events)
	}
}
