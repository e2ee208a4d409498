package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
)

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

// hostCard is a lab in which the first node, on VPP, has a host NIC with addresses that VPP does not have.
type hostCard struct {
	*lab.Lab
	t testing.TB
	// Network namespaces of the first node, of the second node, which uses the kernel, and of the
	// outside host.
	node1, node2, outside string
	host                  []netip.Addr // addresses of the host NIC
}

func upHostCard(t *testing.T, services string) *hostCard {
	t.Helper()
	l := upServices(t, servicesConfig, services, "vpp", "kernel")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostCard{l, t, node1.Netns, l.Name() + "-node2", st.Underlay(), []netip.Addr{node1.Address.Addr(), netip.MustParseAddr("fd17::1")}}
	h.addAddress(h.node2, "fd17::2/112", "eth0")
	h.addAddress(h.outside, "fd17::fe/112", "nodes")
	h.addAddress(h.node1, "fd17::1/112", "eth0")
	changed := filepath.Join(t.TempDir(), "node1")
	if err := os.WriteFile(changed, fmt.Appendf(nil, nodeWithBoth, h.host[0], h.host[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(changed, l.Path("manifests", "node_node1.yaml")); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the agent knows the new address", func() error {
		events, err := l.Agent("node1").Events(t.Context())
		if err == nil && !slices.ContainsFunc(events, func(e *controller.EventRecord) bool {
			return strings.HasPrefix(e.Description, "Node Update: node1") && strings.Contains(e.Description, h.host[1].String())
		}) {
			err = errors.New("no event says so")
		}
		return err
	})
	return h
}

func (h *hostCard) addAddress(netns, addr, device string) {
	h.t.Helper()
	if out, err := exec.Command("ip", "-n", netns, "address", "add", addr, "dev", device, "nodad").CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
}

func (h *hostCard) clients(pod lab.Pod) map[string]string {
	return map[string]string{"outside": h.outside, "a process of the node": h.node1, "another node": h.node2, "a pod of the node": pod.Netns}
}

// Node ports at addresses of the host's NIC, for each kind of client: the host's kernel forwards
// connections to VPP unless kube-proxy translates them.
func TestServicesAtAddressesOfTheHost(t *testing.T) {
	h := upHostCard(t, "services: vswitch\n")
	l, underlay, host := h.Lab, h.outside, h.host
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	a, b, c := pods[0], pods[1], pods[2]
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

	clients := h.clients(b)
	refused := func(when string, to served) {
		t.Helper()
		for who, netns := range clients {
			for _, addr := range host {
				for _, network := range []string{"tcp", "udp"} {
					begun := time.Now()
					_, _, err := labtest.AskPeer(netns, network, to.nodePort(addr))
					for again := 0; network == "udp" && errors.Is(err, os.ErrDeadlineExceeded) && again < 3; again++ { // the kernel limits ICMP errors per second
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
						if want := seenThroughHost(addr.Is6(), netns == h.node1); err != nil || seen != want {
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

	nft(t, h.node1, "delete table ip contiv-host")
	nft(t, h.node1, "flush chain ip6 contiv-host postrouting")
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
		if _, _, err := labtest.AskPeer(h.node1, "tcp", keeps.nodePort(addr)); err != nil {
			t.Errorf("the node does not reach its own pod by %s: %v", addr, err)
		}
	}

	nft(t, h.node1, kubeProxyRules)
	awaitPort("with kube-proxy, node ports at addresses of the host are its", false)
	refused("beside kube-proxy", far)
	nft(t, h.node1, "delete table ip kube-proxy")
	for _, addr := range host {
		await.That(t, "after kube-proxy, they are open again", func() error {
			_, _, err := labtest.AskPeer(underlay, "tcp", far.nodePort(addr))
			return err
		})
	}
}

// Host ports at addresses of the host's NIC, for each kind of client and for the pod itself: only
// at hostIP, together with kube-proxy, across a restart of the agent, and until the pod is deleted.
func TestHostPortsAtAddressesOfTheHost(t *testing.T) {
	h := upHostCard(t, "services: vswitch\n")
	const port, hostPort, only4, only6 = 8080, 80, 8084, 8086
	open := func(name string, ports ...corev1.ContainerPort) lab.PodSpec {
		return lab.PodSpec{Name: name, Node: "node1", Template: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Ports: ports}}}}}
	}
	specs := []lab.PodSpec{open("ingress",
		corev1.ContainerPort{HostPort: hostPort, ContainerPort: port, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: hostPort, ContainerPort: port, Protocol: corev1.ProtocolUDP},
		corev1.ContainerPort{HostIP: h.host[0].String(), HostPort: only4, ContainerPort: port, Protocol: corev1.ProtocolTCP},
	), open("other",
		corev1.ContainerPort{HostIP: h.host[1].String(), HostPort: only6, ContainerPort: port, Protocol: corev1.ProtocolTCP},
		corev1.ContainerPort{HostIP: labtest.NodeAddresses(t, h.Lab, "node1")[0].String(), HostPort: only4, ContainerPort: port, Protocol: corev1.ProtocolTCP},
	), {Name: "client", Node: "node1"}}
	pods := addPods(t, h.Lab, specs...)
	for _, p := range pods {
		labtest.TellPeers(t, p.Netns, port)
	}
	clients := h.clients(pods[2])
	clients["the pod itself"] = pods[0].Netns
	check := func(when string, open bool) {
		t.Helper()
		for who, netns := range clients {
			for _, addr := range h.host {
				for _, test := range []struct {
					network string
					port    uint16
					open    bool
				}{{"tcp", hostPort, true}, {"udp", hostPort, true}, {"tcp", only4, addr.Is4()}, {"tcp", only6, addr.Is6()}, {"tcp", 8087, false}} {
					what := fmt.Sprintf("%s: %s, %s to %s port %d", when, who, test.network, addr, test.port)
					_, seen, err := labtest.AskPeer(netns, test.network, netip.AddrPortFrom(addr, test.port))
					switch want := seenThroughHost(addr.Is6(), netns == h.node1); {
					case !test.open || !open:
						if !errors.Is(err, syscall.ECONNREFUSED) {
							t.Errorf("%s: %v, want it refused", what, err)
						}
					case err != nil || seen != want:
						t.Errorf("%s: %v, the pod sees %v, want %v", what, err, seen, want)
					}
				}
			}
		}
	}
	check("at first", true)
	labtest.RequireQuietRestart(t, h.Lab, "node1")
	check("after a restart of the agent", true)
	web := served{name: "web", number: 10, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, pods[2])}
	apply(t, h.Lab, web)
	nodePort := func(open bool) {
		t.Helper()
		await.That(t, fmt.Sprintf("node ports at addresses of the host are open: %v", open), func() error {
			if _, _, err := labtest.AskPeer(h.outside, "tcp", web.nodePort(h.host[0])); (err == nil) != open {
				return fmt.Errorf("they are not: %v", err)
			}
			return nil
		})
	}
	nodePort(true)
	nft(t, h.node1, kubeProxyRules)
	nodePort(false)
	check("beside kube-proxy", true)
	nft(t, h.node1, "delete table ip kube-proxy")

	applyText(t, h.Lab, strings.Replace(denyAll, "{app: a}", "{}", 1))
	await.That(t, "a policy refuses clients outside", func() error {
		if _, _, err := labtest.AskPeer(h.outside, "tcp", netip.AddrPortFrom(h.host[0], hostPort)); err == nil {
			return errors.New("one arrives")
		}
		return nil
	})
	for _, addr := range h.host {
		if _, _, err := labtest.AskPeer(h.outside, "tcp", netip.AddrPortFrom(addr, hostPort)); err == nil {
			t.Errorf("a client outside gets past a policy by %s", addr)
		}
		if _, _, err := labtest.AskPeer(h.node1, "tcp", netip.AddrPortFrom(addr, hostPort)); err != nil {
			t.Errorf("the node does not reach its own pod by %s: %v", addr, err)
		}
	}
	for _, p := range pods[:2] {
		if err := h.DelPod(t.Context(), p.Namespace+"/"+p.Name); err != nil {
			t.Fatal(err)
		}
	}
	delete(clients, "the pod itself")
	check("after DEL", false)
}

const byCardManifest = `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.%[2]d
  clusterIPs: [10.96.0.%[2]d, "fd96::%[2]d"]
  ipFamilies: [IPv4, IPv6]
  externalIPs: [%[6]s]
  externalTrafficPolicy: %[3]s
  allocateLoadBalancerNodePorts: %[5]t
  loadBalancerSourceRanges: [%[7]s]
  ports:
  - {name: tcp, protocol: TCP, port: 80%[2]d, targetPort: %[4]d%[8]s}
  - {name: udp, protocol: UDP, port: 80%[2]d, targetPort: %[4]d%[8]s}
status: {loadBalancer: {ingress: [{ip: 100.64.9.%[2]d}, {ip: "fd99::%[2]d"}]}}
`

// byCard returns the manifest of a service with external IPs and a load balancer IP of each
// version.
func (s served) byCard(nodePorts bool, external []netip.Addr, ranges string) string {
	var texts []string
	for _, a := range external {
		texts = append(texts, fmt.Sprintf("%q", a))
	}
	nodePort := ""
	if nodePorts {
		nodePort = fmt.Sprintf(", nodePort: 300%d", s.number)
	}
	text := fmt.Sprintf(byCardManifest, s.name, s.number, s.policy, s.port, nodePorts, strings.Join(texts, ", "), ranges, nodePort)
	for i, addr := range s.addrs {
		text += fmt.Sprintf(sliceManifest, s.name, []string{"IPv4", "IPv6"}[i], s.port, addr, s.node, []string{"ipv4", "ipv6"}[i])
	}
	return text
}

// External IPs that are host addresses, and load balancer IPs that are announced at the host's NIC.
// The outside host has routes to them.
func TestExternalIPsAtAddressesOfTheHost(t *testing.T) {
	h := upHostCard(t, "services: vswitch\n")
	for _, route := range []string{ // the node has a default route only for IPv4
		h.outside + " route add 100.64.9.0/24 via " + h.host[0].String(), h.outside + " route add fd99::/64 via " + h.host[1].String(), h.node1 + " route add fd99::/64 via fd17::fe",
	} {
		if out, err := exec.Command("ip", append([]string{"-n"}, strings.Fields(route)...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	pods := addPods(t, h.Lab, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	const port = 8080
	for _, p := range []lab.Pod{pods[0], pods[2]} {
		labtest.TellPeers(t, p.Netns, port)
	}
	far := served{name: "far", number: 11, policy: "Cluster", port: port, node: "node2", addrs: globalAddresses(t, pods[2])}
	keeps := served{name: "keeps", number: 12, policy: "Local", port: port, node: "node1", addrs: globalAddresses(t, pods[0])}
	plain := keeps // without node ports
	plain.name, plain.number, plain.policy = "plain", 13, "Cluster"
	ranges, lacks := far, far
	ranges.name, ranges.number = "ranges", 14
	lacks.name, lacks.number, lacks.policy = "lacks", 15, "Local"
	applyText(t, h.Lab, far.byCard(true, h.host, "")+keeps.byCard(true, h.host, "")+plain.byCard(false, h.host, "")+
		ranges.byCard(true, nil, `172.30.0.0/16, "fd17:30::/48"`)+lacks.byCard(true, h.host, ""))
	addresses := func(s served, ipv6 bool) (own, balanced netip.AddrPort) {
		own, balanced = netip.AddrPortFrom(h.host[0], uint16(8000+s.number)), netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("100.64.9.%d", s.number)), uint16(8000+s.number))
		if ipv6 {
			own, balanced = netip.AddrPortFrom(h.host[1], own.Port()), netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("fd99::%d", s.number)), own.Port())
		}
		return own, balanced
	}
	check := func(when string) {
		t.Helper()
		for who, netns := range map[string]string{"outside": h.outside, "a process of the node": h.node1, "a pod of the node": pods[1].Netns} {
			for _, ipv6 := range []bool{false, true} {
				for _, to := range []served{far, keeps, plain} {
					own, balanced := addresses(to, ipv6)
					for _, addr := range []netip.AddrPort{own, balanced} {
						for _, network := range []string{"tcp", "udp"} {
							from, seen, err := labtest.AskPeer(netns, network, addr)
							want := seenThroughHost(ipv6, netns == h.node1)
							if addr == balanced && netns == pods[1].Netns { // by VPP alone
								want = from
							}
							if err != nil || seen != want {
								t.Errorf("%s: %s, %s to %s (%s): %v, the endpoint sees %v, want %v", when, who, network, to.name, addr, err, seen, want)
							}
						}
					}
				}
				if own, _ := addresses(lacks, ipv6); netns != pods[1].Netns {
					if _, _, err := labtest.AskPeer(netns, "tcp", own); !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("%s: %s to an external IP without endpoint on the node (%s): %v, want it refused", when, who, own, err)
					}
				}
			}
		}
		for _, ipv6 := range []bool{false, true} {
			if _, balanced := addresses(ranges, ipv6); askFrom(h.outside, netip.Addr{}, "tcp", balanced) == nil {
				t.Errorf("%s: a client outside gets past the source ranges of %s", when, balanced)
			}
		}
	}
	await.That(t, "the host redirects", func() error {
		own, _ := addresses(plain, true)
		_, _, err := labtest.AskPeer(h.outside, "tcp", own)
		return err
	})
	labtest.RequireQuiet(t, h.Lab)
	check("at first")
	labtest.RequireQuietRestart(t, h.Lab, "node1")
	check("after a restart of the agent")
	nft(t, h.node1, kubeProxyRules)
	for _, ipv6 := range []bool{false, true} {
		own, balanced := addresses(far, ipv6)
		await.That(t, "with kube-proxy, they are its", func() error {
			for _, addr := range []netip.AddrPort{own, balanced} {
				if err := askFrom(h.outside, netip.Addr{}, "tcp", addr); err == nil {
					return fmt.Errorf("%s answers", addr)
				}
			}
			return nil
		})
	}
	nft(t, h.node1, "delete table ip kube-proxy")
}

// seenThroughHost returns the source address that endpoints see of connections forwarded by the
// host of node 1. ofHost selects connections of the host itself.
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
