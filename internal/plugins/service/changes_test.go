package service_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

func TestChangesAreDescribedAndSmall(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	other := webService()
	other.Name, other.ClusterIp, other.ClusterIps, other.LbIngressIps, other.Port[0].NodePort = "other", "10.96.0.11", nil, nil, 30081
	configured := resync(t, s, state(other))
	moved := *c.nodes["node1"]
	moved.MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.99.1"), netip.MustParseAddr("fd00::1")}
	for _, step := range []struct {
		event  controller.Event
		before func()
		want   string
		keys   int
	}{
		{event: kubeChange(nil, webSlice("a", "10.1.1.2@node1"))},
		{event: kubeChange(nil, webService()), want: "add service 'default/web'", keys: 2},
		{event: kubeChange(webService(), webService())},
		{event: kubeChange(webSlice("a", "10.1.1.2@node1"), webSlice("a", "10.1.1.3@node1")), want: "update service 'default/web'", keys: 1},
		{event: &nodesync.NodeUpdate{NodeName: "node2"}},
		{event: &nodesync.NodeUpdate{NodeName: "node1"}, before: func() { c.nodes = nodesync.Nodes{"node1": &moved} }, want: "update nodeport services", keys: 2},
		{event: zoneOf("node1", "b")},
		{event: kubeChange(webService(), nil), want: "delete service 'default/web'", keys: 2},
	} {
		if step.before != nil {
			step.before()
		}
		var txn plugintest.Txn
		var what string
		configured, txn, what = change(t, s, step.event, configured)
		if what != step.want || len(txn) != step.keys {
			t.Errorf("%v: %q with %d values, want %q with %d: %v", step.event, what, len(txn), step.want, step.keys, txn)
		}
	}
	if len(configured) != 3+1 { // the other service has IPv4 only
		t.Errorf("left: %v", configured)
	}
}

func zoneOf(name, zone string) *controller.KubeStateChange {
	return &controller.KubeStateChange{Resource: kubestate.Node, Key: kubestate.NodeKey(name), NewValue: &node.Node{Name: name, Labels: map[string]string{"topology.kubernetes.io/zone": zone}}}
}

func TestChangesOfSeveralServices(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	var all []proto.Message
	for i := range 7 {
		svc := webService()
		svc.Name, svc.ClusterIp, svc.LbIngressIps, svc.LoadbalancerSourceRanges = fmt.Sprint("web", i), fmt.Sprint("10.96.0.2", i), nil, nil
		svc.ClusterIps, svc.ServiceType, svc.Port[0].NodePort = []string{svc.ClusterIp}, "ClusterIP", 0
		slice := webSlice(svc.Name, "10.1.1.2@node1", "10.1.2.2@node2")
		slice.Service = svc.Name
		slice.Endpoints[0].ForZones, slice.Endpoints[1].ForZones = []string{"a"}, []string{"b"}
		all = append(all, svc, slice)
	}
	configured := resync(t, s, state(all[:4]...))
	configured, _, what := change(t, s, zoneOf("node1", "a"), configured)
	if want := "update service 'default/web0', update service 'default/web1'"; what != want {
		t.Errorf("%q, want %q", what, want)
	}
	for _, m := range all[4:] {
		configured, _, _ = change(t, s, kubeChange(nil, m), configured)
	}
	if _, _, what = change(t, s, zoneOf("node1", "b"), configured); what != "update 7 services" {
		t.Errorf("%q", what)
	}
}

func TestUpdatesEndInTheSameConfigurationAsAResync(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := newCluster()
		s := c.plugin(t, "services: vswitch")
		configured := resync(t, s, state())
		now := map[string]proto.Message{}
		for range 30 {
			var next proto.Message
			switch name := fmt.Sprint(r.IntN(3)); r.IntN(4) {
			case 0:
				svc := webService()
				svc.ClusterIps, svc.SessionAffinity, svc.SessionAffinityTimeout = svc.ClusterIps[r.IntN(2):], []string{"None", "ClientIP"}[r.IntN(2)], 60
				svc.ExternalTrafficPolicy = []string{"Cluster", "Local"}[r.IntN(2)]
				next = svc
			case 1:
				n := r.IntN(4)
				next = ofPods(webSlice("v4-"+name, []string{"10.1.1.2@node1", "10.1.2.2@node2", "10.1.1.3@node1"}[:n]...), []string{"a", "c", "b"}[:n]...)
			case 2:
				n := 1 + r.IntN(2)
				next = ofPods(webSlice("v6-"+name, []string{"fd10:0:0:1::2@node1", "fd10:0:0:2::2@node2"}[:n]...), []string{"a", "c"}[:n]...)
			case 3:
				node := 1 + r.IntN(2)
				at := []string{fmt.Sprintf("10.1.%d.9", node), fmt.Sprintf("fd10:0:0:%d::9", node)}[r.IntN(2):]
				configured, _, _ = change(t, s, c.publish(uint32(node), fmt.Sprintf("node%d", node), []string{"a", "b", "c"}[r.IntN(3)], at[:r.IntN(len(at)+1)]...), configured)
				continue
			}
			e := kubeChange(nil, next)
			if prev, ok := now[e.Key]; ok {
				e.PrevValue = prev
				if r.IntN(3) == 0 {
					e.NewValue = nil
				}
			}
			if now[e.Key] = next; e.NewValue == nil {
				delete(now, e.Key)
			}
			configured, _, _ = change(t, s, e, configured)
		}
		var all []proto.Message
		for _, m := range now {
			all = append(all, m)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, want := plugintest.Render(configured), plugintest.Render(resync(t, c.plugin(t, "services: vswitch"), state(all...))); got != want {
			t.Fatalf("seed %d: after updates\n%s\nafter a resync\n%s", seed, got, want)
		}
	}
}
