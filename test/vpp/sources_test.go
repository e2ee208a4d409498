package vpp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
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

// Clients outside that are in none of loadBalancerSourceRanges are ignored at the load balancer's
// addresses, and only there.
func TestSourceRanges(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"})
	a, b := pods[0], pods[1]
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
	// The client in the ranges, the other one, and the load balancer's address.
	type client struct{ good, bad, lb netip.Addr }
	clients := []client{
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.17"), netip.MustParseAddr("203.0.113.20")},
		{netip.MustParseAddr("fd16::1fe"), netip.MustParseAddr("fd16::2fe"), netip.MustParseAddr("fd16::99")},
	}
	for i, c := range clients {
		for _, addr := range []netip.Addr{c.good, c.bad} {
			if addr.Is4() {
				ip("address", "add", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "lo")
			} else { // of the nodes' network
				ip("address", "add", addr.String()+"/112", "dev", "nodes", "nodad")
			}
		}
		ip("route", "add", netip.PrefixFrom(c.lb, c.lb.BitLen()).String(), "via", vppIP[i].String())
	}
	endpoint := served{name: "balanced", port: 8080, node: "node1", addrs: globalAddresses(t, a)}
	var slices string
	for i, addr := range endpoint.addrs {
		slices += fmt.Sprintf(sliceManifest, "balanced", []string{"IPv4", "IPv6"}[i], 8080, addr, "node1", []string{"ipv4", "ipv6"}[i])
	}
	apply := func(policy, ranges string) {
		t.Helper()
		labtest.Apply(t, l, fmt.Sprintf(balancedManifest, policy, ranges)+slices)
	}
	check := func(when string, restricted bool) {
		t.Helper()
		for i, c := range clients {
			lb, nodePort := netip.AddrPortFrom(c.lb, 80), netip.AddrPortFrom(vppIP[i], 30020)
			for _, network := range []string{"tcp", "udp"} {
				await.That(t, when+": a client in the ranges reaches "+network+" "+lb.String(), func() error { return askFrom(outside, c.good, network, lb) })
				switch err := askFrom(outside, c.bad, network, lb); {
				case !restricted && err != nil:
					t.Errorf("%s: %s from %v to %v: %v", when, network, c.bad, lb, err)
				case restricted && !isTimeout(err):
					t.Errorf("%s: %s from %v to %v: %v, want it ignored", when, network, c.bad, lb, err)
				}
				await.That(t, when+": a client in no range reaches "+network+" "+nodePort.String(), func() error { return askFrom(outside, c.bad, network, nodePort) })
				if err := askFrom(b.Netns, netip.Addr{}, network, lb); err != nil {
					t.Errorf("%s: %s from a pod of the node to %v: %v", when, network, lb, err)
				}
			}
		}
	}
	const ranges = `192.0.2.0/28, 198.51.100.0/24, "fd16::100/120"`
	apply("Cluster", ranges)
	check("policy Cluster", true)
	labtest.RequireQuiet(t, l)
	labtest.RequireQuietRestart(t, l, "node1")
	check("after a restart of the agent", true)

	apply("Local", ranges)
	check("policy Local", true)
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
	labtest.AwaitNote(t, l, binaries, "node1", "loadBalancerSourceRanges do not hold for pods and processes of this node")
}

// askFrom asks a server of labtest.TellPeers from an address of the client's; the zero one: any.
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
