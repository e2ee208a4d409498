package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
)

const everywhereManifest = `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.%[2]d
  clusterIPs: [10.96.0.%[2]d, "fd96::%[2]d"]
  ipFamilies: [IPv4, IPv6]
  externalIPs: [198.51.100.%[2]d, "fd98::%[2]d"]
  externalTrafficPolicy: %[3]s
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: %[4]d, nodePort: 300%[2]d}
  - {name: udp, protocol: UDP, port: 80, targetPort: %[4]d, nodePort: 300%[2]d}
status: {loadBalancer: {ingress: [{ip: 203.0.113.%[2]d}, {ip: "fd99::%[2]d"}]}}
`

const isolatedManifest = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: isolated, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

func (s served) everywhere() string {
	text := fmt.Sprintf(everywhereManifest, s.name, s.number, s.policy, s.port)
	for i, addr := range s.addrs {
		text += fmt.Sprintf(sliceManifest, s.name, []string{"IPv4", "IPv6"}[i], s.port, addr, s.node, []string{"ipv4", "ipv6"}[i])
	}
	return text
}

func (s served) external(ipv6 bool) (list []netip.AddrPort) {
	texts := []string{"198.51.100.%d", "203.0.113.%d"}
	if ipv6 {
		texts = []string{"fd98::%d", "fd99::%d"}
	}
	for _, text := range texts {
		list = append(list, netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf(text, s.number)), 80))
	}
	return list
}

// On a node with a single NIC, which VPP owns, processes reach services at cluster IPs, external and
// load balancer IPs, and node ports of any node, with local and remote endpoints.
func TestSingleNICServices(t *testing.T) {
	s := upSingleNIC(t, servicesConfig)
	ctx := t.Context()
	node6 := s.giveIPv6()
	s.must(s.StartAgent(ctx, "node1"))
	s.holder(journal.VSwitch)
	open := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Ports: []corev1.ContainerPort{
		{HostPort: singleNICHostPort, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {HostPort: singleNICHostPort, ContainerPort: 8080, Protocol: corev1.ProtocolUDP},
	}}}}}
	pods := addPods(t, s.Lab, lab.PodSpec{Name: "a", Node: "node1", Template: open}, lab.PodSpec{Name: "c", Node: "node2"})
	for _, p := range pods {
		labtest.TellPeers(t, p.Netns, 8080)
	}
	labtest.TellPeers(t, s.node.Netns, 8081)

	// The first connection makes VPP translate at the node's own address before any node port
	// exists.
	endpoint := served{name: "only-cluster-ip", number: 15, policy: "Cluster", port: 8080, node: "node1", addrs: globalAddresses(t, pods[0])}
	labtest.Apply(t, s.Lab, onlyClusterIP(endpoint.manifest()))
	for _, ipv6 := range []bool{false, true} {
		await.That(t, "a process of the node reaches a service without node ports", func() error {
			_, _, err := labtest.AskPeer(s.node.Netns, "tcp", endpoint.clusterIP(ipv6))
			return err
		})
	}

	local := served{name: "local", number: 24, policy: "Cluster", port: 8080, node: "node1", addrs: globalAddresses(t, pods[0])}
	far := served{name: "far", number: 21, policy: "Cluster", port: 8080, node: "node2", addrs: globalAddresses(t, pods[1])}
	onHost := served{name: "on-host", number: 22, policy: "Cluster", port: 8081, node: "node1", addrs: []netip.Addr{s.node.Address, node6}}
	keeps := local
	keeps.name, keeps.number, keeps.policy = "keeps", 23, "Local"
	all := []served{local, far, onHost, keeps}
	none := served{name: "none", number: 14, policy: "Cluster", port: 8080}
	text := none.everywhere()
	for _, to := range all {
		text += to.everywhere()
	}
	labtest.Apply(t, s.Lab, text)
	labtest.RequireQuiet(t, s.Lab)
	check := func() error {
		return errors.Join(s.asksEverywhere(all, node6), s.reachesItself(local), s.reachesItself(far))
	}
	await.That(t, "a process of the node reaches all", check) // connections are refused until the agent has processed the objects
	labtest.RequireQuietRestart(t, s.Lab, "node1")
	await.That(t, "a process of the node reaches all after a restart of the agent", check) // the host may own the NIC for a moment
	s.must(s.KillVPP(ctx, "node1"))
	s.holder(journal.VSwitch)
	labtest.RequireQuiet(t, s.Lab)
	await.That(t, "a process of the node reaches all after a restart of VPP", check) // VPP must resolve its neighbours

	labtest.Apply(t, s.Lab, isolatedManifest)
	await.That(t, "the endpoint is isolated", func() error {
		if _, _, err := labtest.AskPeer(pods[1].Netns, "tcp", local.clusterIP(false)); !isTimeout(err) {
			return fmt.Errorf("from a pod: %v", err)
		}
		return nil
	})
	for _, ipv6 := range []bool{false, true} {
		if _, _, err := labtest.AskPeer(s.node.Netns, "tcp", local.clusterIP(ipv6)); err != nil {
			t.Errorf("a process of the node, to a pod of the node that policies isolate, IPv6 %v: %v", ipv6, err)
		}
	}
	s.refuses(none)
	labtest.Delete(t, s.Lab, isolatedManifest)

	own := fmt.Sprintf(`%s/32, "%s/128"`, s.node.Address, node6)
	for _, ranges := range []string{own, `192.0.2.0/24, "fd98::/64"`, own} {
		labtest.Apply(t, s.Lab, fmt.Sprintf(balancedManifest, "Cluster", ranges)+balancedSlices(globalAddresses(t, pods[0])))
		for _, lb := range []string{"203.0.113.20", "fd16::99"} {
			for _, network := range []string{"tcp", "udp"} {
				await.That(t, fmt.Sprintf("a process of the node, %s to %s, meets the source ranges %s", network, lb, ranges), func() error {
					err := askFrom(s.node.Netns, netip.Addr{}, network, netip.AddrPortFrom(netip.MustParseAddr(lb), 80))
					if ranges != own && isTimeout(err) {
						return nil
					}
					if ranges != own {
						return fmt.Errorf("not ignored: %v", err)
					}
					return err
				})
			}
		}
	}
}

const singleNICHostPort = 8088

// refuses checks that unassigned addresses, and a service without endpoints, are refused at once
// for processes of node1 and for outside clients that route through it.
func (s *singleNIC) refuses(none served) {
	s.t.Helper()
	st, err := s.State()
	s.must(err)
	s.ip("-n " + st.Underlay() + " address add fd20::1/64 dev outside nodad")
	s.ip("-n " + s.outside.Netns + " address add fd20::10/64 dev eth0 nodad")
	for network, way := range map[string]string{"10.96.0.0/12": "203.0.113.1 192.168.16.1", "198.51.100.0/24": "203.0.113.1 192.168.16.1", "fd96::/108": "fd20::1 fd16::1", "fd98::/64": "fd20::1 fd16::1"} {
		gateway, node, _ := strings.Cut(way, " ")
		s.ip("-n " + s.outside.Netns + " route add " + network + " via " + gateway)
		s.ip("-n " + st.Underlay() + " route add " + network + " via " + node)
	}
	for who, netns := range map[string]string{"a process of the node": s.node.Netns, "a client outside": s.outside.Netns} {
		for _, ipv6 := range []bool{false, true} {
			for what, to := range map[string]netip.AddrPort{
				"the cluster IP of a service without endpoints": none.clusterIP(ipv6), "a port of no service": served{number: 99}.clusterIP(ipv6),
				"a port that a service lacks":                        netip.AddrPortFrom(none.clusterIP(ipv6).Addr(), 81),
				"an external address of a service without endpoints": none.external(ipv6)[0],
			} {
				for _, network := range []string{"tcp", "udp"} {
					if network == "udp" && to == none.external(ipv6)[0] {
						continue // follows the routes: docs/design/services.md
					}
					if err := refusedAtOnce(netns, network, to); err != nil {
						s.t.Errorf("%s, %s to %s (%v): %v, want it refused at once", who, network, what, to, err)
					}
				}
			}
		}
	}
}

// refusedAtOnce retries, because VPP sends at most one ICMP error per second and address. TCP must
// be refused by the second packet.
func refusedAtOnce(netns, network string, to netip.AddrPort) (err error) {
	for range 3 {
		begun := time.Now()
		if _, _, err = labtest.AskPeer(netns, network, to); errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ECONNREFUSED) {
			if time.Since(begun) < 1500*time.Millisecond {
				return nil
			}
		}
		err = fmt.Errorf("%w after %v", err, time.Since(begun))
	}
	return err
}

// asksEverywhere connects from a process of node1 to the services at all addresses that lead
// through VPP, and checks the source addresses that the endpoints see.
func (s *singleNIC) asksEverywhere(all []served, node6 netip.Addr) error {
	var errs []error
	for _, other := range labtest.NodeAddresses(s.t, s.Lab, "node2") {
		ipv6 := other.Is6()
		own := s.node.Address
		if ipv6 {
			own = node6
		}
		for _, to := range all {
			seen := map[netip.AddrPort]netip.Addr{to.clusterIP(ipv6): own, netip.AddrPortFrom(own, singleNICHostPort): own}
			if to.addrs[0] == s.node.Address { // the host drops packets with its own source address
				seen[to.clusterIP(ipv6)] = loopback(ipv6)
			}
			for _, addr := range to.external(ipv6) {
				seen[addr] = loopback(ipv6)
				if to.policy == "Local" {
					seen[addr] = own
				}
			}
			seen[to.nodePort(own)] = seen[to.external(ipv6)[0]]
			if to.policy != "Local" { // node2 has no endpoint of the service
				seen[to.nodePort(other)] = netip.Addr{}
			}
			for addr, want := range seen {
				for _, network := range []string{"tcp", "udp"} {
					switch _, got, err := labtest.AskPeer(s.node.Netns, network, addr); {
					case err != nil:
						errs = append(errs, fmt.Errorf("%s to %s (%s): %w", network, to.name, addr, err))
					case want.IsValid() && got != want:
						errs = append(errs, fmt.Errorf("%s to %s (%s): the endpoint sees %v, want %v", network, to.name, addr, got, want))
					}
				}
			}
		}
	}
	return errors.Join(errs...)
}

// reachesItself connects from a process of node1 to an endpoint's own addresses, like kubelet's
// probes.
func (s *singleNIC) reachesItself(to served) error {
	var errs []error
	for _, addr := range to.addrs {
		for _, network := range []string{"tcp", "udp"} {
			if _, _, err := labtest.AskPeer(s.node.Netns, network, netip.AddrPortFrom(addr, uint16(to.port))); err != nil {
				errs = append(errs, fmt.Errorf("%s to the endpoint of %s (%s): %w", network, to.name, addr, err))
			}
		}
		if _, err := lab.Ping(s.t.Context(), s.node, lab.Endpoint{Address: addr}); err != nil {
			errs = append(errs, fmt.Errorf("ping of the endpoint of %s (%s): %w", to.name, addr, err))
		}
	}
	return errors.Join(errs...)
}

func onlyClusterIP(manifest string) string {
	lines := slices.Collect(strings.Lines(manifest))
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, "type: NodePort") || strings.Contains(line, "externalTrafficPolicy:")
	})
	for i, line := range lines {
		if before, _, found := strings.Cut(line, ", nodePort:"); found {
			lines[i] = before + "}\n"
		}
	}
	return strings.Join(lines, "")
}

// giveIPv6 adds an IPv6 address and default route to the NIC of node1 and returns the address. It
// stops the agent, so that the host owns the NIC meanwhile.
func (s *singleNIC) giveIPv6() netip.Addr {
	s.t.Helper()
	s.holder(journal.VSwitch)
	s.must(s.StopAgent(s.t.Context(), "node1"))
	s.holder("")
	st, err := s.State()
	s.must(err)
	s.ip("-n " + st.Underlay() + " address add fd16::fe/112 dev nodes nodad")
	s.ip("netns exec " + st.Underlay() + " sysctl -qw net.ipv6.conf.all.forwarding=1")
	s.ip("-n " + s.node.Netns + " address add fd16::1/112 dev eth0 nodad")
	s.ip("-n " + s.node.Netns + " route add default via fd16::fe dev eth0")
	return netip.MustParseAddr("fd16::1")
}

func (s *singleNIC) ip(command string) {
	s.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %s: %v: %s", command, err, out)
	}
}
