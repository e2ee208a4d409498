package nodesync_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

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
		t.Errorf("the handlers get %v", events)
	}
	if text := events[0].String(); !strings.Contains(text, "management []\n* now") || !strings.HasSuffix(text, ", 2 pods reached by services at other interfaces than eth0") {
		t.Errorf("users see %q", text)
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

	other := nodesync.New("node2", memory.New(), nodesync.Self{}, loop, plugintest.Logger())
	without := vppNode(1, "node1", "192.168.16.1/24")
	resync(t, other, state(kubeNode("node2"), without))
	record.PodAddresses[1].Addresses = append(record.PodAddresses[1].Addresses, "\x1b", "fe80::1%eth0")
	if _, err := other.Update(ctx, &controller.KubeStateChange{Resource: "vppnode", Key: "allocatedIDs/1", PrevValue: without, NewValue: record}, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	events = loop.Take()
	if len(events) != 1 || fmt.Sprint(events[0].(*nodesync.NodeUpdate).NewState.PodAddresses) != fmt.Sprint([]nodesync.PodAddresses{a, b}) {
		t.Errorf("the other node gets %v", events)
	}
}

// Invalid interfaces and pods in another node's record are skipped, because handlers log their
// names.
func TestPodAddressesThatCannotBe(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	entry := func(namespace, name, iface string, addrs ...string) *vppnode.PodAddresses {
		return &vppnode.PodAddresses{PodNamespace: namespace, PodName: name, Interface: iface, Addresses: addrs}
	}
	var endless []string
	for i := range 1000 {
		endless = append(endless, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String())
	}
	record := vppNode(2, "node2", "192.168.16.2/24")
	record.PodAddresses = []*vppnode.PodAddresses{
		entry("default", "a", "net1", endless...),
		entry("default", "both", "net1", "10.1.2.3", "fd10::3", "fd10::4"),
		entry("default", "none", "net1", "x"),
		entry("", "a", "net1", "10.1.2.4"),
		entry("default", strings.Repeat("a", 254), "net1", "10.1.2.4"),
		entry(strings.Repeat("a", 64), "a", "net1", "10.1.2.4"),
		entry("default", "\x1b[2J", "net1", "10.1.2.4"),
		entry("default", "a", "net1\n", "10.1.2.4"),
		entry("default", "a", "sixteen-letters-", "10.1.2.4"),
		nil,
	}
	const most = 4096
	for i := range 2 * most {
		record.PodAddresses = append(record.PodAddresses, entry("many", fmt.Sprint("pod", i), "net1", "10.1.2.4"))
	}
	resync(t, n, state(kubeNode("node1"), record))
	got := n.GetAllNodes()["node2"].PodAddresses
	if len(got) < 2 || len(got) > most {
		t.Fatalf("%d entries", len(got))
	}
	if text := fmt.Sprint(got[:2]); text != "[{default a net1 [10.1.0.0]} {default both net1 [10.1.2.3 fd10::3]}]" || got[2].Namespace != "many" {
		t.Errorf("got %s, then %v", text, got[2])
	}
}

// mute is a store without answers that counts its calls.
type mute struct {
	store.Broker
	on    bool
	asked int
}

func (m *mute) Get(ctx context.Context, key string) (store.KV, bool, error) {
	if m.on {
		m.asked++
		return store.KV{}, false, errors.New("no answer in time")
	}
	return m.Broker.Get(ctx, key)
}

func TestPodAddressesDoNotWaitForTheDatabase(t *testing.T) {
	db, loop := &mute{Broker: memory.New()}, &plugintest.Loop{}
	n := nodesync.New("node1", db, nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(kubeNode("node1")))
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	var list []nodesync.PodAddresses
	publish := func() {
		t.Helper()
		list = append(list, nodesync.PodAddresses{Namespace: "default", Name: fmt.Sprint("pod", len(list)), Interface: "net1", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.3")}})
		if err := n.PublishPodAddresses(ctx, list); err != nil {
			t.Fatal(err)
		}
	}
	db.on = true
	for range 5 {
		publish()
	}
	if db.asked != 1 {
		t.Errorf("the database was asked %d times", db.asked)
	}
	if events := loop.Take(); len(events) != 5 {
		t.Errorf("the handlers of this node get %v", events)
	}
	db.on = false
	if _, err := n.Update(ctx, &nodesync.PublishAgain{}, nil); err != nil {
		t.Fatal(err)
	}
	publish()
	if got := stored(t, db.Broker, 1).GetPodAddresses(); len(got) != 6 {
		t.Errorf("stored when it answers again: %v", got)
	}
}
