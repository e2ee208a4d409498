package labtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/vishvananda/netlink"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const webWithInterfaces = `---
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
  labels: {app: web}
  annotations: {contivpp.io/custom-if: "%s", contivpp.io/service-endpoint-if: %s}
spec:
  containers: [{name: sandbox, image: contiv-lab}]
`

const onlyNear = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: only-near, namespace: default}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: near}}}]}]
`

const noEgress = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: no-egress, namespace: default}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}
`

// RequireCustomInterfaces tests the life cycle of a pod's custom interfaces with packets on node1
// of a dual-stack lab without other pods. answers is set if egress-isolated pods can reply from
// them.
func RequireCustomInterfaces(t *testing.T, l *lab.Lab, answers bool) {
	t.Helper()
	node, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := node.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	pods := AddPods(t, l, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	near, far := pods[0], pods[1]
	before := links(t, node1.Netns)
	web := AddPods(t, l, lab.PodSpec{Name: "web", Node: "node1"})[0]
	for _, p := range []lab.Pod{near, far, web} {
		TellPeers(t, p.Netns, 8080)
	}

	// New interfaces are added at once, and invalid ones fail alone.
	Apply(t, l, fmt.Sprintf(webWithInterfaces, "net1/tap,net2/veth,bare/tap/stub,old/memif", "net1"))
	addrs := map[string][]netip.Addr{}
	await.That(t, "the pod has its interfaces", func() (err error) {
		for name, want := range map[string]int{"eth0": 2, "net1": 2, "net2": 2, "bare": 0} {
			if addrs[name], err = addressesAt(web.Netns, name); err != nil || len(addrs[name]) != want {
				return fmt.Errorf("%s has %v: %w", name, addrs[name], err)
			}
		}
		return nil
	})
	everywhere := func(when string, from ...lab.Pod) {
		t.Helper()
		for _, p := range from {
			for _, name := range []string{"eth0", "net1", "net2"} {
				for _, addr := range addrs[name] {
					await.That(t, fmt.Sprintf("%s: %s reaches %s %v", when, p.Name, name, addr), func() error {
						_, _, err := AskPeer(p.Netns, "tcp", netip.AddrPortFrom(addr, 8080))
						return err
					})
				}
			}
		}
	}
	everywhere("declared later", near, far)
	for _, name := range []string{"net1", "net2"} {
		if received(t, web.Netns, name) == 0 {
			t.Errorf("%s has received nothing: its packets came another way", name)
		}
	}
	for _, addr := range addrs["net1"] { // requests leave through eth0, replies arrive through net1
		for _, server := range GlobalAddresses(t, far.Netns) {
			if server.Is6() == addr.Is6() {
				if seen, err := askFrom(web.Netns, addr, netip.AddrPortFrom(server, 8080)); err != nil || seen != addr {
					t.Errorf("a server sees %v as %v: %v", addr, seen, err)
				}
			}
		}
	}

	// The node record lets other nodes find the pod's service address.
	await.That(t, "the node's record has the addresses of net1", func() error {
		got, err := podAddresses(t, l)
		want := &vppnode.PodAddresses{PodNamespace: "default", PodName: "web", Interface: "net1"}
		for _, addr := range addrs["net1"] {
			want.Addresses = append(want.Addresses, addr.String())
		}
		if err == nil && fmt.Sprint(got) != fmt.Sprint([]*vppnode.PodAddresses{want}) {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	})

	Apply(t, l, onlyNear)
	await.That(t, "the policy denies packets from far", func() error {
		for _, name := range []string{"eth0", "net1", "net2"} {
			for _, addr := range addrs[name] {
				if _, _, err := AskPeer(far.Netns, "tcp", netip.AddrPortFrom(addr, 8080)); err == nil {
					return fmt.Errorf("%s %v answers", name, addr)
				}
			}
		}
		return nil
	})
	everywhere("with a policy", near)
	Delete(t, l, onlyNear)
	everywhere("without the policy", far)
	Apply(t, l, noEgress)
	await.That(t, "the policy denies connections of the pod", func() error {
		if _, err := askFrom(web.Netns, addrs["net1"][0], netip.AddrPortFrom(near.Address, 8080)); err == nil {
			return errors.New("it reaches near from net1's address")
		}
		return nil
	})
	_, _, err = AskPeer(near.Netns, "tcp", netip.AddrPortFrom(addrs["net1"][0], 8080))
	if (err == nil) != answers {
		t.Errorf("an egress-isolated pod answers at net1: %v, want %v: %v", err == nil, answers, err)
	}
	Delete(t, l, noEgress)
	await.That(t, "the pod is isolated no more", func() error {
		_, err := askFrom(web.Netns, addrs["net1"][0], netip.AddrPortFrom(near.Address, 8080))
		return err
	})
	everywhere("isolated no more", near)

	// A restarted agent finds nothing to do, even without the Kubernetes objects.
	RequireQuiet(t, l)
	RequireQuietRestart(t, l, "node1")
	forgetPods(t, l)
	everywhere("without Kubernetes' objects", near, far)
	if err := l.StartKSR(t.Context()); err != nil {
		t.Fatal(err)
	}

	// A changed annotation changes only the interfaces that differ.
	Apply(t, l, fmt.Sprintf(webWithInterfaces, "net2/veth,net3/tap", "eth0"))
	await.That(t, "net3 replaces net1", func() error {
		_, old := addressesAt(web.Netns, "net1")
		got, err := addressesAt(web.Netns, "net3")
		if old == nil || err != nil || len(got) != 2 {
			return fmt.Errorf("net1 is there: %v, net3: %v, %v", old == nil, got, err)
		}
		if kept, err := addressesAt(web.Netns, "net2"); err != nil || !slices.Equal(kept, addrs["net2"]) {
			return fmt.Errorf("net2 had %v, and has %v: %v", addrs["net2"], kept, err)
		}
		addrs["net1"] = got
		return nil
	})
	everywhere("changed", near, far)
	await.That(t, "services use eth0 again", func() error {
		got, err := podAddresses(t, l)
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("the node's record has %v", got)
		}
		return err
	})

	if err := l.DelPod(t.Context(), web.ID()); err != nil {
		t.Fatal(err)
	}
	await.That(t, "nothing is left", func() error {
		var report ipam.AllocationsReport
		if err := l.Agent("node1").Get(t.Context(), ipam.URL, &report); err != nil {
			return err
		}
		for _, p := range report.Pods {
			if p.PodID.Name == "web" {
				return fmt.Errorf("addresses: %+v", p)
			}
		}
		if left := links(t, node1.Netns); !slices.Equal(left, before) {
			return fmt.Errorf("links of the node: %v, and before %v", left, before)
		}
		return nil
	})
	RequireQuiet(t, l)
}

func links(t *testing.T, netns string) (names []string) {
	t.Helper()
	err := Inside(netns, func() error {
		list, err := netlink.LinkList()
		for _, link := range list {
			names = append(names, link.Attrs().Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// addressesAt returns the addresses of a device without link-local ones, IPv4 first.
func addressesAt(netns, device string) (list []netip.Addr, err error) {
	err = Inside(netns, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range addrs {
			if addr, _ := netip.AddrFromSlice(a.IP); !addr.Unmap().IsLinkLocalUnicast() {
				list = append(list, addr.Unmap())
			}
		}
		return err
	})
	slices.SortFunc(list, netip.Addr.Compare)
	return list, err
}

func received(t *testing.T, netns, device string) (packets uint64) {
	t.Helper()
	err := Inside(netns, func() error {
		link, err := netlink.LinkByName(device)
		if err == nil {
			packets = link.Attrs().Statistics.RxPackets
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packets
}

// askFrom connects to a server of TellPeers from a source address and returns the address that the
// server sees.
func askFrom(netns string, from netip.Addr, to netip.AddrPort) (seen netip.Addr, err error) {
	var c net.Conn
	err = Inside(netns, func() (err error) {
		d := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		c, err = d.Dial("tcp", to.String())
		return err
	})
	if err != nil {
		return seen, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	data := make([]byte, 100)
	n, err := c.Read(data)
	if err != nil {
		return seen, err
	}
	peer, err := netip.ParseAddrPort(string(data[:n]))
	return peer.Addr().Unmap(), err
}

func podAddresses(t *testing.T, l *lab.Lab) ([]*vppnode.PodAddresses, error) {
	t.Helper()
	etcd, err := l.Etcd()
	if err != nil {
		return nil, err
	}
	defer etcd.Close()
	answer, err := etcd.Get(t.Context(), nodesync.IDPrefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	for _, kv := range answer.Kvs {
		var record vppnode.VppNode
		if err := json.Unmarshal(kv.Value, &record); err != nil {
			return nil, err
		}
		if record.GetName() == "node1" {
			return record.GetPodAddresses(), nil
		}
	}
	return nil, fmt.Errorf("no record of node1 in %d", len(answer.Kvs))
}

// forgetPods restarts the agent of node1 while the database has no pod objects. It leaves KSR
// stopped.
func forgetPods(t *testing.T, l *lab.Lab) {
	t.Helper()
	etcd, err := l.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StopKSR(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.StartKSR(context.Background()), l.StartAgent(context.Background(), "node1")); err != nil {
			t.Error(err)
		}
	})
	answer, err := etcd.Delete(t.Context(), strings.TrimSuffix(models.KSRPrefix, "/")+"/k8s/pod/", clientv3.WithPrefix())
	if err != nil || answer.Deleted < 3 {
		t.Fatalf("%d objects of pods deleted: %v", answer.Deleted, err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
}
