package integration

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A client with a node's certificate writes as much as etcd accepts. The other node and KSR keep
// working, and the status names the user.
func TestStolenNodeCannotFillEtcd(t *testing.T) {
	require(t)
	l := labtest.Up(t, options("fill"))
	first := pod(t, l, "first", "node1")
	evil, err := l.EtcdAs("node:node2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { evil.Close() })
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		key := "/vnf-agent/node2/fill/" + fmt.Sprint(i)
		if i%2 > 0 {
			key = "/vnf-agent/node2/fill/same"
		}
		if _, err := evil.Put(t.Context(), key, value); err != nil {
			if !strings.Contains(err.Error(), "node:node2 reached its limit") {
				t.Fatalf("write %d: %v", i, err)
			}
			break
		}
		if i > 500 {
			t.Fatalf("%d MiB were written", i)
		}
	}
	requireConnected(t, l, first, pod(t, l, "second", "node1")) // needs KSR and the other node
	await.That(t, "status names the user", func() error {
		if out := statusOf(l); !strings.Contains(out, "node:node2 reached its limit in etcd") {
			return fmt.Errorf("status is\n%s", out)
		}
		return nil
	})
}

func say(t *testing.T, from lab.Pod, to netip.Addr, text string) {
	t.Helper()
	if err := labtest.Inside(from.Netns, func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A client with a node's certificate publishes a pod's address as the node's tunnel end. That pod gets no
// packets for the pods of the node. The status names the address.
func TestTunnelEndOfAStolenNode(t *testing.T) {
	require(t)
	l := labtest.Up(t, options("ends"))
	client, far := pod(t, l, "client", "node1"), pod(t, l, "far", "node2")
	near := labtest.Wire(t, pod(t, l, "near", "node1"))
	requireConnected(t, l, client, far)
	evil, err := l.EtcdAs("node:node2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { evil.Close() })
	if err := l.StopAgent(t.Context(), "node2"); err != nil { // otherwise it corrects its record
		t.Fatal(err)
	}
	records, err := evil.Get(t.Context(), nodesync.IDPrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range records.Kvs {
		resource, _ := kubestate.ForKey(strings.TrimPrefix(string(kv.Key), models.KSRPrefix))
		value, err := resource.Unmarshal(kv.Value)
		if err != nil {
			t.Fatal(err)
		}
		record := value.(*vppnode.VppNode)
		if record.GetName() != "node2" {
			continue
		}
		record.IpAddresses = []string{near.Of(false).String() + "/24"}
		data, err := kubestate.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := evil.Put(t.Context(), string(kv.Key), string(data)); err != nil {
			t.Fatal(err)
		}
	}
	refused := fmt.Sprintf("node node2 publishes the address %v for its vswitch and does not get it, because it is in podSubnetCIDR", near.Of(false))
	await.That(t, "status names the address", func() error {
		if out := statusOf(l); !strings.Contains(out, refused) {
			return fmt.Errorf("status is\n%s", out)
		}
		return nil
	})
	near.Wire.Drain()
	say(t, client, far.Address, "for the other node")
	say(t, client, near.Of(false), "for this pod")
	seen := near.Wire.Receive(await.Patience, frames.Containing("for this pod"))
	if seen == nil {
		t.Error("the pod does not get its own packets")
	}
	for _, frame := range seen {
		if frames.Containing("for the other node")(frame) {
			t.Error("the pod gets packets for a pod of the other node")
		}
	}
	if err := l.StartAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	requireConnected(t, l, client, far)
	await.That(t, "status forgets the address", func() error {
		if out := statusOf(l); strings.Contains(out, refused) {
			return fmt.Errorf("status is\n%s", out)
		}
		return nil
	})
}
