package nodesync_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func socket(protocol, at string) nodesync.Socket {
	addr := netip.MustParseAddrPort(at)
	return nodesync.Socket{Protocol: protocol, Addr: addr.Addr(), Port: addr.Port()}
}

func TestHostIsPublished(t *testing.T) {
	db, loop := memory.New(), &plugintest.Loop{}
	n := nodesync.New("node1", db, nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(kubeNode("node1")))
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	host := nodesync.NewHost(addrs("192.168.16.1", "10.9.0.1", "127.0.0.1", "fe80::1%eth1", "fd09::1", "::", "224.0.0.1", "10.9.0.1"),
		[]nodesync.Socket{socket("TCP", "[::]:443"), socket("TCP", "0.0.0.0:22"), socket("TCP", "127.0.0.1:9999"), socket("UDP", "[fe80::1%eth1]:546"), socket("TCP", "0.0.0.0:22")})
	for range 2 {
		if _, err := n.Update(ctx, &nodesync.HostChange{Host: host}, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	if events := loop.Take(); len(events) != 1 || events[0].(*nodesync.NodeUpdate).NodeName != "node1" {
		t.Errorf("events %v", events)
	}
	want := &vppnode.VppNode{Id: 1, Name: "node1", IpAddresses: []string{"192.168.16.1/24"},
		HostAddresses: []string{"10.9.0.1", "192.168.16.1", "fd09::1"}, PortsInUse: []string{"0.0.0.0:22/TCP", "[::]:443/TCP"}}
	record := stored(t, db, 1)
	if !proto.Equal(record, want) {
		t.Errorf("the record is %v, want %v", record, want)
	}
	resync(t, n, state(kubeNode("node1"), record))
	if got := n.GetAllNodes()["node1"].Host; fmt.Sprint(got) != fmt.Sprint(host) {
		t.Errorf("after a resync: %v", got)
	}
	if err := n.PublishPodAddresses(ctx, nil); err != nil || !proto.Equal(stored(t, db, 1), want) {
		t.Errorf("afterwards: %v, %v", err, stored(t, db, 1))
	}
}

// A record of another node may be older than the fields, or contain anything.
func TestHostOfAnotherNode(t *testing.T) {
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	older, hostile := vppNode(2, "node2", "192.168.16.2/24"), vppNode(3, "node3", "192.168.16.3/24")
	hostile.HostAddresses = []string{"", "10.9.0.300", "127.0.0.1", "::1", "0.0.0.0", "192.168.16.3", "::ffff:10.9.0.3", "192.168.16.1", "192.168.16.2", "203.0.113.2"}
	hostile.PortsInUse = []string{"", "22", "22/TCP", "0.0.0.0:22/tcp", "0.0.0.0:0/TCP", "0.0.0.0:70000/TCP", "127.0.0.1:22/TCP", "0.0.0.0:22/TCP"}
	for i := range 2000 {
		hostile.HostAddresses = append(hostile.HostAddresses, fmt.Sprintf("172.16.%d.%d", i/250, i%250))
		hostile.PortsInUse = append(hostile.PortsInUse, fmt.Sprintf("0.0.0.0:%d/UDP", 1000+i))
	}
	resync(t, n, state(older, hostile, vppNode(1, "node1", "192.168.16.1/24"), kubeNode("node2", "203.0.113.2")))
	nodes := n.GetAllNodes()
	if h := nodes["node2"].Host; len(h.Addresses)+len(h.InUse) > 0 {
		t.Errorf("of an older agent: %v", h)
	}
	h := nodes["node3"].Host
	if len(h.Addresses) != 128 || len(h.InUse) != 512 || h.InUse[0] != socket("TCP", "0.0.0.0:22") {
		t.Errorf("%d addresses, %d ports: %v", len(h.Addresses), len(h.InUse), h)
	}
	for _, addr := range addrs("192.168.16.1", "192.168.16.2", "203.0.113.2", "127.0.0.1") {
		if slices.Contains(h.Addresses, addr) {
			t.Errorf("node3 has %v", addr)
		}
	}
	if !slices.Contains(h.Addresses, netip.MustParseAddr("10.9.0.3")) {
		t.Errorf("node3 lacks 10.9.0.3: %v", h.Addresses)
	}

	next := proto.CloneOf(older)
	next.HostAddresses, next.PortsInUse = []string{"10.9.0.2"}, []string{"0.0.0.0:22/TCP"}
	loop := &plugintest.Loop{}
	n = nodesync.New("node1", memory.New(), nodesync.Self{}, loop, plugintest.Logger())
	resync(t, n, state(older))
	for range 2 {
		if _, err := n.Update(ctx, &controller.KubeStateChange{Resource: "vppnode", Key: "allocatedIDs/2", PrevValue: older, NewValue: next}, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	if events := loop.Take(); len(events) != 1 || len(events[0].(*nodesync.NodeUpdate).NewState.Host.InUse) != 1 {
		t.Errorf("events %v", events)
	}
}

// Short-lived sockets are not published: two readings in a row must agree, except the first.
func TestHostIsWatched(t *testing.T) {
	readings, pushed := make(chan nodesync.Host), make(chan nodesync.Host, 10)
	loop := &pushes{pushed: pushed}
	n := nodesync.New("node1", memory.New(), nodesync.Self{Host: func() (nodesync.Host, error) {
		h, open := <-readings
		if !open {
			return h, errors.New("no more readings")
		}
		return h, nil
	}}, loop, plugintest.Logger())
	resync(t, n, state(kubeNode("node1")))
	watching, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.WatchHost(watching, time.Millisecond)
	}()
	host := func(ports ...string) nodesync.Host {
		var list []nodesync.Socket
		for _, p := range ports {
			list = append(list, socket("TCP", "0.0.0.0:"+p))
		}
		return nodesync.NewHost(nil, list)
	}
	apply := func(want nodesync.Host) {
		t.Helper()
		got := <-pushed
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("published %v, want %v", got, want)
		}
		if _, err := n.Update(ctx, &nodesync.HostChange{Host: got}, plugintest.Txn{}); err != nil {
			t.Error(err)
		}
	}
	readings <- host("22")
	apply(host("22"))
	readings <- host("22")
	readings <- host("22", "5000")
	readings <- host("22")
	readings <- host("22", "80")
	readings <- host("22", "80")
	apply(host("22", "80"))
	cancel()
	close(readings)
	<-done
	if len(pushed) > 0 {
		t.Errorf("published %v, too", <-pushed)
	}
}

type pushes struct {
	controller.EventLoop
	pushed chan nodesync.Host
}

func (p *pushes) PushEvent(_ context.Context, event controller.Event) error {
	if change, ok := event.(*nodesync.HostChange); ok {
		p.pushed <- change.Host
	}
	return nil
}
