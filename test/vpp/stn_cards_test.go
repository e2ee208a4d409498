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

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
)

// managedNIC is a lab in which the first node shares one NIC with VPP and has a second one that belongs to
// the host. Kubernetes knows the addresses of the second NIC. A client on its network is not
// reachable from VPP:
//
//	client ── mgmt0, host ── vpp1 ══ VPP ── eth0 ── other nodes, outside
type managedNIC struct {
	*singleNIC
	shared, own []netip.Addr // addresses of the NICs, IPv4 first
	client      string       // network namespace
	clientIPs   []netip.Addr
	services    []served
	clients     []managedClient
}

type managedClient struct{ who, netns string }

func upManagedNIC(t *testing.T) *managedNIC {
	s := upSingleNIC(t, servicesConfig)
	m := &managedNIC{
		singleNIC: s, shared: []netip.Addr{s.node.Address, s.giveIPv6()}, client: s.Name() + "-mgmt",
		own:       []netip.Addr{netip.MustParseAddr("10.0.17.1"), netip.MustParseAddr("fd17::1")},
		clientIPs: []netip.Addr{netip.MustParseAddr("10.0.17.9"), netip.MustParseAddr("fd17::9")},
	}
	m.ip("netns add " + m.client)
	t.Cleanup(func() { exec.Command("ip", "netns", "delete", m.client).Run() })
	st, err := s.State()
	s.must(err)
	m.ip("-n " + m.client + " link add eth0 type veth peer name mgmt0 netns " + s.node.Netns)
	m.ip("-n " + m.client + " link set eth0 up")
	m.ip("-n " + s.node.Netns + " link set mgmt0 up")
	for i, length := range []int{24, 112} {
		m.ip(fmt.Sprintf("-n %s address add %s/%d dev eth0 nodad", m.client, m.clientIPs[i], length))
		m.ip(fmt.Sprintf("-n %s address add %s/%d dev mgmt0 nodad", s.node.Netns, m.own[i], length))
	}
	m.ip("-n " + st.Underlay() + " address add fd20::1/64 dev outside nodad")
	m.ip("-n " + s.outside.Netns + " address add fd20::10/64 dev eth0 nodad")
	router := []string{"203.0.113.1", "fd20::1"}
	for i, announced := range [][]string{{"198.51.100.0/24", "203.0.113.16/28"}, {"fd98::/64", "fd99::/64"}} { // at both NICs
		for _, network := range announced {
			m.ip(fmt.Sprintf("-n %s route add %s via %s", m.client, network, m.own[i]))
			m.ip(fmt.Sprintf("-n %s route add %s via %s", s.outside.Netns, network, router[i]))
			m.ip(fmt.Sprintf("-n %s route add %s via %s", st.Underlay(), network, m.shared[i]))
		}
		m.ip(fmt.Sprintf("-n %s route add %s via %s", m.client, m.shared[i], m.own[i])) // the route to the other NIC
		m.ip(fmt.Sprintf("-n %s route add %s via %s", s.outside.Netns, m.own[i], router[i]))
		m.ip(fmt.Sprintf("-n %s route add %s via %s", st.Underlay(), m.own[i], m.shared[i]))
	}
	m.ip("-n " + s.outside.Netns + " route add fd16::/112 via fd20::1")
	changed := filepath.Join(t.TempDir(), "node1")
	s.must(os.WriteFile(changed, fmt.Appendf(nil, nodeWithBoth, m.own[0], m.own[1]), 0o600))
	s.must(os.Rename(changed, s.Path("manifests", "node_node1.yaml")))
	s.must(s.StartAgent(t.Context(), "node1"))
	s.holder(journal.VSwitch)
	return m
}

// On a node with a shared NIC and a host NIC, each kind of client reaches services at cluster IPs,
// node ports and host ports of both NICs, and at external and load balancer IPs announced at either
// NIC.
func TestSingleNICBesideAnother(t *testing.T) {
	m := upManagedNIC(t)
	const port, onHostPort = 8080, 8081
	open := func(name string, ports ...corev1.ContainerPort) lab.PodSpec {
		return lab.PodSpec{Name: name, Node: "node1", Template: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Ports: ports}}}}}
	}
	pods := addPods(t, m.Lab, open("a",
		corev1.ContainerPort{HostPort: managedHostPort, ContainerPort: port, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: managedHostPort, ContainerPort: port, Protocol: corev1.ProtocolUDP},
		corev1.ContainerPort{HostIP: m.own[0].String(), HostPort: managedHostPort + 1, ContainerPort: port, Protocol: corev1.ProtocolTCP},
	), lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	for _, p := range pods {
		labtest.TellPeers(t, p.Netns, port)
	}
	labtest.TellPeers(t, m.node.Netns, onHostPort)
	local := served{name: "local", number: 24, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, pods[0])}
	far := served{name: "far", number: 21, policy: "Cluster", port: port, node: "node2", addrs: globalAddresses(t, pods[2])}
	onHost := served{name: "on-host", number: 22, policy: "Cluster", port: onHostPort, node: "node1", addrs: m.own} // like pods on the host network
	keeps, none := local, served{name: "none", number: 25, policy: "Cluster", port: port}
	keeps.name, keeps.number, keeps.policy = "keeps", 23, "Local"
	m.services = []served{local, far, onHost, keeps}
	text := none.everywhere()
	for _, to := range m.services {
		text += to.everywhere()
	}
	labtest.Apply(t, m.Lab, text)
	labtest.RequireQuiet(t, m.Lab)
	m.clients = []managedClient{
		{"a client by the host's card", m.client}, {"a client by VPP's card", m.outside.Netns},
		{"a process of the node", m.node.Netns}, {"a pod of the node", pods[1].Netns}, {"a pod of another node", pods[2].Netns},
	}
	await.That(t, "all reach all", m.asks) // connections are refused until the agent has processed the objects
	labtest.RequireQuietRestart(t, m.Lab, "node1")
	await.That(t, "all reach all after a restart of the agent", m.asks) // the host may own the NIC for a moment
	m.must(m.KillVPP(t.Context(), "node1"))
	m.holder(journal.VSwitch)
	labtest.RequireQuiet(t, m.Lab)
	await.That(t, "all reach all after a restart of VPP", m.asks)

	for _, at := range m.own {
		for _, netns := range []string{m.client, m.node.Netns} {
			if _, _, err := labtest.AskPeer(netns, "tcp", none.nodePort(at)); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("from %s to a node port without endpoint at %s: %v, want it refused", netns, at, err)
			}
		}
	}
	m.explains(local, keeps)

	labtest.Apply(t, m.Lab, isolatedManifest)
	refused := []netip.AddrPort{keeps.nodePort(m.own[0]), keeps.nodePort(m.shared[1]), keeps.external(false)[0], keeps.external(true)[0], netip.AddrPortFrom(m.own[1], managedHostPort)}
	for _, at := range refused {
		await.That(t, "a policy refuses clients by the host's card", func() error {
			if err := askFrom(m.client, netip.Addr{}, "tcp", at); !isTimeout(err) {
				return fmt.Errorf("to %s: %v", at, err)
			}
			return nil
		})
		if _, _, err := labtest.AskPeer(m.node.Netns, "tcp", at); err != nil {
			t.Errorf("the node does not reach its own isolated pod by %s: %v", at, err)
		}
	}
	labtest.Delete(t, m.Lab, isolatedManifest)

	labtest.Apply(t, m.Lab, fmt.Sprintf(balancedManifest, "Cluster", `10.0.17.0/24, "fd17::/112"`)+balancedSlices(globalAddresses(t, pods[0])))
	labtest.AwaitNote(t, m.Lab, binaries, "node1", "VPP does not see their addresses; services: default/balanced")
	if err := askFrom(m.client, netip.Addr{}, "tcp", netip.MustParseAddrPort("203.0.113.20:80")); !isTimeout(err) {
		t.Errorf("a client through the host's card, with an address hidden from VPP, to a load balancer's IP with source ranges: %v", err)
	}

	nft(t, m.node.Netns, kubeProxyRules)
	openAtHost := func(want bool) {
		t.Helper()
		for _, at := range []netip.AddrPort{local.nodePort(m.own[0]), local.nodePort(m.own[1]), local.external(false)[0]} {
			await.That(t, fmt.Sprintf("clients by the host's card reach services: %v", want), func() error {
				if err := askFrom(m.client, netip.Addr{}, "tcp", at); (err == nil) != want {
					return fmt.Errorf("to %s: %v", at, err)
				}
				return nil
			})
		}
	}
	openAtHost(false)
	nft(t, m.node.Netns, "delete table ip kube-proxy")
	openAtHost(true)
}

// managedHostPort is a host port of a pod of node1. The next port is bound to one host address.
const managedHostPort = 8088

// asks connects from all clients to the services at all addresses and checks the source addresses
// that the endpoints see.
func (m *managedNIC) asks() error {
	failed := make(chan error)
	for _, from := range m.clients {
		go func() {
			var errs []error
			for i := range m.own {
				errs = append(errs, m.asksFrom(from, i))
			}
			failed <- errors.Join(errs...)
		}()
	}
	var errs []error
	for range m.clients {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

func (m *managedNIC) asksFrom(from managedClient, version int) error {
	var errs []error
	own, shared := m.own[version], m.shared[version]
	process, otherNode := from.netns == m.node.Netns, from.netns == m.clients[4].netns
	ask := func(to served, what string, at netip.AddrPort, want netip.Addr) {
		for _, network := range []string{"tcp", "udp"} {
			if network == "udp" && to.name == "on-host" { // the server would have to reply from its requested address: docs/user/vpp-limits.md
				continue
			}
			client, seen, err := labtest.AskPeer(from.netns, network, at)
			switch what = fmt.Sprintf("%s, %s to %s %s (%s)", from.who, network, to.name, what, at); {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			case otherNode && at.Addr() != own: // docs/design/services.md describes this path
			case want.IsValid() && seen != want, !want.IsValid() && seen != client:
				errs = append(errs, fmt.Errorf("%s: the endpoint sees %v, want %v, of the client's own %v", what, seen, want, client))
			}
		}
	}
	// The source addresses that endpoints see with and without preserved client addresses. The zero
	// Addr is the client's. VPP always preserves the address of a local pod.
	var kept, hidden netip.Addr
	atHost := seenThroughHost(own.Is6(), false)
	switch {
	case process:
		kept, hidden, atHost = shared, loopback(own.Is6()), shared
	case from.netns == m.client:
		kept, hidden = atHost, loopback(own.Is6())
	case from.netns == m.outside.Netns:
		hidden = loopback(own.Is6())
	}
	for _, to := range m.services {
		seen, seenAtHost := hidden, loopback(own.Is6())
		if to.policy == "Local" {
			seen, seenAtHost = kept, atHost
		}
		if from.netns != m.client && from.netns != m.outside.Netns {
			of := kept
			if process && to.name == "on-host" { // the host drops packets with its own source address
				of = hidden
			}
			ask(to, "at its cluster IP", to.clusterIP(own.Is6()), of)
		}
		ask(to, "at the node port of the host's card", to.nodePort(own), seenAtHost)
		ask(to, "at the node port of VPP's card", to.nodePort(shared), seen)
		for _, addr := range to.external(own.Is6()) {
			ask(to, "at an external address", addr, seen)
		}
	}
	pod := served{name: "a pod"}
	ask(pod, "at the host port of the host's card", netip.AddrPortFrom(own, managedHostPort), atHost)
	ask(pod, "at the host port of VPP's card", netip.AddrPortFrom(shared, managedHostPort), kept)
	if at := netip.AddrPortFrom(own, managedHostPort+1); own.Is4() {
		if _, seen, err := labtest.AskPeer(from.netns, "tcp", at); err != nil || seen != atHost {
			errs = append(errs, fmt.Errorf("%s, to a host port of the host's card alone (%s): %v, the pod sees %v, want %v", from.who, at, err, seen, atHost))
		}
	}
	return errors.Join(errs...)
}

// explains checks the output of contivctl why for services with an endpoint on the node.
func (m *managedNIC) explains(hides, keeps served) {
	m.t.Helper()
	for i, own := range m.own {
		byHost, process := seenThroughHost(own.Is6(), false), m.shared[i]
		for _, test := range []struct {
			from string
			to   netip.AddrPort
			code int
			want []string
			not  string
		}{
			{"node1", hides.nodePort(own), 0, []string{"its kernel sends connections to", fmt.Sprintf("see %v, not", loopback(own.Is6()))}, ""},
			{"node1", keeps.nodePort(m.shared[i]), 0, []string{"its kernel sends connections to", fmt.Sprintf("VPP sees %v as the client", process)}, ""},
			{"b", keeps.nodePort(own), 0, []string{"its kernel sends connections to", fmt.Sprintf("see %v, not", byHost)}, ""},
			{"b", keeps.nodePort(m.shared[i]), 0, nil, "its kernel sends connections to"},
			{"b", keeps.external(own.Is6())[0], 0, nil, "its kernel sends connections to"},
			{m.clientIPs[i].String(), keeps.nodePort(own), 2, []string{"its kernel sends connections to", fmt.Sprintf("see %v, not", byHost)}, ""},
		} {
			a, code := labtest.AskWhy(m.t, m.Lab, binaries, test.from, test.to.Addr().String(), fmt.Sprint(test.to.Port()))
			text := fmt.Sprintf("%+v", a)
			if code != test.code {
				m.t.Errorf("why from %s to %s ends with %d, want %d: %s", test.from, test.to, code, test.code, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					m.t.Errorf("why from %s to %s: no %q in %s", test.from, test.to, want, text)
				}
			}
			if test.not != "" && strings.Contains(text, test.not) {
				m.t.Errorf("why from %s to %s: %q in %s", test.from, test.to, test.not, text)
			}
		}
	}
}
