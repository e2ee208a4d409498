package vpp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const balancedManifest = `---
apiVersion: v1
kind: Service
metadata: {name: balanced, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.20
  clusterIPs: [10.96.0.20, "fd96::20"]
  ipFamilies: [IPv4, IPv6]
  externalTrafficPolicy: %s
  loadBalancerSourceRanges: [%s]
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080, nodePort: 30020}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080, nodePort: 30020}
status: {loadBalancer: {ingress: [{ip: 203.0.113.20}, {ip: "fd16::99"}]}}
`

// Clients outside of loadBalancerSourceRanges are dropped only at the addresses of the load
// balancer: outside hosts, pods, and processes of the node.
func TestSourceRanges(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node1"})
	a, b, c := pods[0], pods[1], pods[2]
	labtest.TellPeers(t, a.Netns, 8080)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	outside, vppIP := st.Underlay(), labtest.NodeAddresses(t, l, "node1")
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", append([]string{"-n", outside}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	// A client inside the ranges, one outside of them, the load balancer's address, and the cluster
	// IP.
	type client struct{ good, bad, lb, cluster netip.Addr }
	clients := []client{
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.17"), netip.MustParseAddr("203.0.113.20"), netip.MustParseAddr("10.96.0.20")},
		{netip.MustParseAddr("fd16::1fe"), netip.MustParseAddr("fd16::2fe"), netip.MustParseAddr("fd16::99"), netip.MustParseAddr("fd96::20")},
	}
	ofHost := toVPP(t, node1.Netns, []netip.Addr{clients[0].lb, clients[1].lb}, []netip.Addr{clients[0].cluster, clients[1].cluster})
	ofPod := globalAddresses(t, c)
	for i, c := range clients {
		for _, addr := range []netip.Addr{c.good, c.bad} {
			if addr.Is4() {
				ip("address", "add", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "lo")
			} else { // addresses of the nodes' network
				ip("address", "add", addr.String()+"/112", "dev", "nodes", "nodad")
			}
		}
		ip("route", "add", netip.PrefixFrom(c.lb, c.lb.BitLen()).String(), "via", vppIP[i].String())
	}
	endpointSlices := balancedSlices(globalAddresses(t, a))
	apply := func(policy, ranges string) {
		t.Helper()
		labtest.Apply(t, l, fmt.Sprintf(balancedManifest, policy, ranges)+endpointSlices)
	}
	check := func(when string, restricted bool) {
		t.Helper()
		for i, family := range clients {
			lb, nodePort := netip.AddrPortFrom(family.lb, 80), netip.AddrPortFrom(vppIP[i], 30020)
			for _, network := range []string{"tcp", "udp"} {
				await.That(t, when+": a client in the ranges reaches "+network+" "+lb.String(), func() error { return askFrom(outside, family.good, network, lb) })
				switch err := askFrom(outside, family.bad, network, lb); {
				case !restricted && err != nil:
					t.Errorf("%s: %s from %v to %v: %v", when, network, family.bad, lb, err)
				case restricted && !isTimeout(err):
					t.Errorf("%s: %s from %v to %v: %v, want it ignored", when, network, family.bad, lb, err)
				}
				await.That(t, when+": a client in no range reaches "+network+" "+nodePort.String(), func() error { return askFrom(outside, family.bad, network, nodePort) })
				await.That(t, when+": a pod in the ranges reaches "+network+" "+lb.String(), func() error { return askFrom(c.Netns, netip.Addr{}, network, lb) })
				for who, netns := range map[string]string{"a pod": b.Netns, "the endpoint": a.Netns, "a process of the node": node1.Netns} {
					switch err := askFrom(netns, netip.Addr{}, network, lb); {
					case !restricted && err != nil:
						t.Errorf("%s: %s from %s to %v: %v", when, network, who, lb, err)
					case restricted && !isTimeout(err):
						t.Errorf("%s: %s from %s to %v: %v, want it ignored", when, network, who, lb, err)
					}
					if err := askFrom(netns, netip.Addr{}, network, netip.AddrPortFrom(family.cluster, 80)); err != nil {
						t.Errorf("%s: %s from %s to the cluster IP: %v", when, network, who, err)
					}
				}
			}
		}
	}
	ranges := fmt.Sprintf(`192.0.2.0/28, 198.51.100.0/24, "fd16::100/120", %s/32, "%s/128"`, ofPod[0], ofPod[1])
	apply("Cluster", ranges)
	check("policy Cluster", true)
	labtest.RequireQuiet(t, l)
	labtest.RequireQuietRestart(t, l, "node1")
	check("after a restart of the agent", true)

	apply("Local", ranges)
	check("policy Local", true)
	more := ranges
	for _, addr := range ofHost {
		more += fmt.Sprintf(`, "%s/%d"`, addr, addr.BitLen())
	}
	apply("Local", more)
	for _, family := range clients {
		await.That(t, "a process of the node in the ranges reaches "+family.lb.String(), func() error { return askFrom(node1.Netns, netip.Addr{}, "tcp", netip.AddrPortFrom(family.lb, 80)) })
		if err := askFrom(b.Netns, netip.Addr{}, "tcp", netip.AddrPortFrom(family.lb, 80)); !isTimeout(err) {
			t.Errorf("a pod in no range: %v", err)
		}
	}
	apply("Local", `0.0.0.0/0, "::/0"`)
	await.That(t, "everybody reaches the load balancer", func() error { return askFrom(outside, clients[0].bad, "tcp", netip.AddrPortFrom(clients[0].lb, 80)) })
	check("for everybody", false)
	apply("Cluster", ranges)
	await.That(t, "ranges hold again", func() error {
		for _, c := range clients {
			if err := askFrom(outside, c.bad, "tcp", netip.AddrPortFrom(c.lb, 80)); !isTimeout(err) {
				return fmt.Errorf("a client in no range: %v", err)
			}
		}
		return nil
	})

	if err := l.KillVPP(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	labtest.RequireQuiet(t, l)
	check("after a restart of VPP", true)
}

func balancedSlices(addrs []netip.Addr) (text string) {
	for i, addr := range addrs {
		text += fmt.Sprintf(sliceManifest, "balanced", []string{"IPv4", "IPv6"}[i], 8080, addr, "node1", []string{"ipv4", "ipv6"}[i])
	}
	return text
}

// toVPP routes the node's packets to addrs through VPP, like the cluster's services, and returns
// their source addresses in the order of the cluster IPs.
func toVPP(t *testing.T, netns string, addrs, clusterIPs []netip.Addr) (own []netip.Addr) {
	t.Helper()
	ip := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("ip", append([]string{"-n", netns}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for i, to := range addrs {
		words := strings.Fields(ip("route", "get", clusterIPs[i].String()))
		word := func(after string) string {
			n := slices.Index(words, after)
			if n < 0 || n+1 == len(words) {
				t.Fatalf("the route to %v has no %q: %q", clusterIPs[i], after, words)
			}
			return words[n+1]
		}
		ip("route", "replace", netip.PrefixFrom(to, to.BitLen()).String(), "via", word("via"), "dev", word("dev"))
		own = append(own, netip.MustParseAddr(word("src")))
	}
	return own
}

// askFrom connects to a server of labtest.TellPeers from a source address. The zero Addr means any.
func askFrom(netns string, from netip.Addr, network string, to netip.AddrPort) error {
	var c net.Conn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		d := net.Dialer{Timeout: time.Second}
		switch local := netip.AddrPortFrom(from, 0); {
		case !from.IsValid():
		case network == "udp":
			d.LocalAddr = net.UDPAddrFromAddrPort(local)
		default:
			d.LocalAddr = net.TCPAddrFromAddrPort(local)
		}
		c, err = d.Dial(network, to.String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if network == "udp" {
		if _, err := c.Write([]byte{0}); err != nil {
			return err
		}
	}
	_, err = c.Read(make([]byte, 100))
	return err
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
