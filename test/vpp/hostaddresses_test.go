package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// nodeWithBoth is node1 with addresses of the host of both IP versions.
const nodeWithBoth = `apiVersion: v1
kind: Node
metadata: {name: node1, labels: {kubernetes.io/hostname: node1}}
status:
  addresses: [{type: InternalIP, address: %s}, {type: InternalIP, address: %s}, {type: Hostname, address: node1}]
  conditions: [{type: Ready, status: "True"}]
`

const denyAll = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default}
spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress]}
`

// Node ports at addresses of the host's own network card, for each kind of client: the host's kernel sends connections to VPP. Where
// kube-proxy translates for the host, it does not.
func TestServicesAtAddressesOfTheHost(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp", "kernel")
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	a, b, c := pods[0], pods[1], pods[2]
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	underlay, node2 := st.Underlay(), l.Name()+"-node2"
	host := []netip.Addr{node1.Address.Addr(), netip.MustParseAddr("fd17::1")}
	for netns, device := range map[string]string{node1.Netns: "eth0", node2: "eth0", underlay: "nodes"} {
		addr := map[string]string{node1.Netns: "fd17::1/112", node2: "fd17::2/112", underlay: "fd17::fe/112"}[netns]
		if out, err := exec.Command("ip", "-n", netns, "address", "add", addr, "dev", device, "nodad").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	changed := filepath.Join(t.TempDir(), "node1")
	if err := os.WriteFile(changed, fmt.Appendf(nil, nodeWithBoth, host[0], host[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(changed, l.Path("manifests", "node_node1.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := l.Agent("node1").Post(t.Context(), "/controller/resync", nil); err != nil { // VPP gets its route to the new address
		t.Fatal(err)
	}
	const port = 8080
	for _, p := range []lab.Pod{a, c} {
		labtest.TellPeers(t, p.Netns, port)
	}
	local := served{name: "local", number: 10, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, a)}
	far := served{name: "far", number: 11, policy: "Cluster", port: port, node: "node2", addrs: globalAddresses(t, c)}
	keeps := local
	keeps.name, keeps.number, keeps.policy = "keeps", 12, "Local"
	none := served{name: "none", number: 14, policy: "Cluster", port: port}
	lacks := far
	lacks.name, lacks.number, lacks.policy = "lacks", 15, "Local"
	apply(t, l, local, far, keeps, none, lacks)

	clients := map[string]string{"outside": underlay, "a process of the node": node1.Netns, "another node": node2, "a pod of the node": b.Netns}
	refused := func(when string, to served) {
		t.Helper()
		for who, netns := range clients {
			for _, addr := range host {
				for _, network := range []string{"tcp", "udp"} {
					begun := time.Now()
					_, _, err := labtest.AskPeer(netns, network, to.nodePort(addr))
					for again := 0; network == "udp" && errors.Is(err, os.ErrDeadlineExceeded) && again < 3; again++ { // the kernel tells few in a second
						begun = time.Now()
						_, _, err = labtest.AskPeer(netns, network, to.nodePort(addr))
					}
					if took := time.Since(begun); !errors.Is(err, syscall.ECONNREFUSED) || took > time.Second {
						t.Errorf("%s: %s, %s to %s (%s): %v after %v, want it refused at once", when, who, network, to.name, to.nodePort(addr), err, took)
					}
				}
			}
		}
	}
	check := func(when string) {
		t.Helper()
		for who, netns := range clients {
			for _, to := range []served{local, far, keeps} {
				for _, addr := range host {
					for _, network := range []string{"tcp", "udp"} {
						_, seen, err := labtest.AskPeer(netns, network, to.nodePort(addr))
						if want := seenThroughHost(addr.Is6(), netns == node1.Netns); err != nil || seen != want {
							t.Errorf("%s: %s, %s to %s (%s): %v, the endpoint sees %v, want %v", when, who, network, to.name, to.nodePort(addr), err, seen, want)
						}
					}
				}
			}
		}
		refused(when, none)
		refused(when, lacks)
	}
	awaitPort := func(what string, want bool) {
		t.Helper()
		for _, addr := range host {
			for _, to := range []served{far, keeps} {
				await.That(t, what, func() error {
					_, _, err := labtest.AskPeer(underlay, "tcp", to.nodePort(addr))
					if (err == nil) != want {
						return fmt.Errorf("%s at %s: %v", to.name, to.nodePort(addr), err)
					}
					return nil
				})
			}
		}
		labtest.RequireQuiet(t, l)
	}
	awaitPort("node ports are open at addresses of the host", true)
	check("at first")
	wantWhy(t, l, host, "b", "192.168.16.254", local, none)

	labtest.RequireQuietRestart(t, l, "node1")
	check("after a restart of the agent")

	nft(t, node1.Netns, "delete table ip contiv-host")
	nft(t, node1.Netns, "flush chain ip6 contiv-host postrouting")
	awaitPort("others' changes are repaired", true)
	check("after others' changes")

	applyText(t, l, denyAll)
	await.That(t, "a policy refuses clients outside", func() error {
		if _, _, err := labtest.AskPeer(underlay, "tcp", local.nodePort(host[0])); err == nil {
			return errors.New("one arrives")
		}
		return nil
	})
	for _, addr := range host {
		if _, _, err := labtest.AskPeer(underlay, "tcp", keeps.nodePort(addr)); err == nil {
			t.Errorf("a client outside gets past a policy by %s", addr)
		}
		if _, _, err := labtest.AskPeer(node1.Netns, "tcp", keeps.nodePort(addr)); err != nil {
			t.Errorf("the node does not reach its own pod by %s: %v", addr, err)
		}
	}

	nft(t, node1.Netns, "add table ip kube-proxy")
	awaitPort("beside kube-proxy, node ports at addresses of the host are its", false)
	refused("beside kube-proxy", far)
	nft(t, node1.Netns, "delete table ip kube-proxy")
	for _, addr := range host {
		await.That(t, "after kube-proxy, they are open again", func() error {
			_, _, err := labtest.AskPeer(underlay, "tcp", far.nodePort(addr))
			return err
		})
	}
}

// seenThroughHost is the address that endpoints see of whom the host of node 1 sends to VPP: the host itself, or all others.
func seenThroughHost(ipv6, ofHost bool) netip.Addr {
	list := []string{"172.30.1.3", "172.30.1.2"}
	if ipv6 {
		list = []string{"fd17:30:0:1::3", "fd17:30:0:1::2"}
	}
	if ofHost {
		return netip.MustParseAddr(list[1])
	}
	return netip.MustParseAddr(list[0])
}

func nft(t *testing.T, netns, command string) {
	t.Helper()
	args := append([]string{"netns", "exec", netns, "nft"}, strings.Fields(command)...)
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("nft %s: %v: %s", command, err, out)
	}
}

// applyText creates objects, or changes them.
func applyText(t *testing.T, l *lab.Lab, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}
