package datapath

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
)

// pair is a client and a server, and the address at which the client reaches the server.
type pair struct {
	name           string
	client, server string // network namespaces
	listen, dial   netip.AddrPort
}

// port is the port of servers.
const port = 5201

func at(addr netip.Addr) netip.AddrPort { return netip.AddrPortFrom(addr, port) }

// script runs commands of ip, one per line.
func script(b *testing.B, format string, args ...any) {
	b.Helper()
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		if words := strings.Fields(line); len(words) > 0 {
			if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
				b.Fatalf("ip %s: %v: %s", strings.TrimSpace(line), err, out)
			}
		}
	}
}

// namespaces makes network namespaces that the benchmark removes at its end.
func namespaces(b *testing.B, names ...string) (full []string) {
	b.Helper()
	for _, name := range names {
		ns := fmt.Sprintf("datapath%d-%s", os.Getpid(), name)
		script(b, "netns add %s\n", ns)
		b.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		script(b, "-n %s link set lo up\n", ns)
		err := lab.InNetns(lab.NetnsPath(ns), func() error {
			for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
				if err := os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0); err != nil {
					return err
				}
			}
			return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)
		})
		if err != nil {
			b.Fatal(err)
		}
		full = append(full, ns)
	}
	return full
}

// addresses of hand-made pods by IP version.
func podAddress(ipv6 bool, node int) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd10:1:0:%d::2", node))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.1.%d.2", node))
}

// handMadeVXLAN returns two pods on two nodes that VXLAN connects.
func handMadeVXLAN(b *testing.B, ipv6 bool, mtu int) pair {
	ns := namespaces(b, "underlay", "node1", "node2", "pod1", "pod2")
	underlay, nodes, pods := ns[0], ns[1:3], ns[3:5]
	script(b, "-n %s link add nodes type bridge\n-n %[1]s link set nodes up\n", underlay)
	for i, node := range nodes {
		script(b, `
-n %[1]s link add port%[2]d type veth peer name eth0 netns %[3]s
-n %[1]s link set port%[2]d master nodes up
-n %[3]s addr add 192.168.16.%[2]d/24 dev eth0
-n %[3]s link set eth0 up
-n %[3]s link add vxlan0 mtu %[5]d type vxlan id 10 local 192.168.16.%[2]d remote 192.168.16.%[4]d dstport 4789
-n %[3]s addr add 192.168.30.%[2]d/24 dev vxlan0
-n %[3]s addr add fd30::%[2]d/64 dev vxlan0
-n %[3]s link set vxlan0 up
-n %[3]s route add 10.1.%[4]d.0/24 via 192.168.30.%[4]d
-n %[3]s route add fd10:1:0:%[4]d::/64 via fd30::%[4]d
`, underlay, i+1, node, 2-i, mtu)
		routedPod(b, node, pods[i], "pod", i+1, mtu)
	}
	server := at(podAddress(ipv6, 2))
	return pair{name: "VXLAN by hand", client: pods[0], server: pods[1], listen: server, dial: server}
}

// routedPod connects a pod to a node by a veth with routes at both ends.
func routedPod(b *testing.B, node, pod, device string, n, mtu int) {
	b.Helper()
	a4, a6 := podAddress(false, n), podAddress(true, n)
	script(b, `
-n %[1]s link add %[3]s mtu %[4]d type veth peer name eth0 mtu %[4]d netns %[2]s
-n %[1]s addr add 169.254.1.1/32 dev %[3]s
-n %[1]s addr add fe80::1/64 dev %[3]s
-n %[1]s link set %[3]s up
-n %[2]s link set eth0 up
-n %[2]s addr add %[5]s/32 dev eth0
-n %[2]s addr add %[6]s/128 dev eth0
-n %[2]s route add default via 169.254.1.1 dev eth0 onlink
-n %[2]s route add default via fe80::1 dev eth0
-n %[1]s route add %[5]s dev %[3]s
-n %[1]s route add %[6]s dev %[3]s
`, node, pod, device, mtu, a4, a6)
}

// routedPair returns two pods of one node, with a route to each.
func routedPair(b *testing.B, ipv6 bool, mtu int) pair {
	ns := namespaces(b, "routed", "routed1", "routed2")
	for i, pod := range ns[1:] {
		routedPod(b, ns[0], pod, fmt.Sprintf("pod%d", i+1), i+1, mtu)
	}
	server := at(podAddress(ipv6, 2))
	return pair{name: "routed by hand", client: ns[1], server: ns[2], listen: server, dial: server}
}

// bridgedPair returns two pods at a bridge.
func bridgedPair(b *testing.B, ipv6 bool, mtu int) pair {
	ns := namespaces(b, "bridge", "bridged1", "bridged2")
	script(b, "-n %s link add cni0 type bridge\n-n %[1]s link set cni0 up\n", ns[0])
	for i, pod := range ns[1:] {
		script(b, `
-n %[1]s link add pod%[3]d mtu %[4]d type veth peer name eth0 mtu %[4]d netns %[2]s
-n %[1]s link set pod%[3]d master cni0 up
-n %[2]s addr add 10.1.1.%[5]d/24 dev eth0
-n %[2]s addr add fd10:1:0:1::%[5]d/64 dev eth0
-n %[2]s link set eth0 up
`, ns[0], pod, i+1, mtu, i+2)
	}
	server := at(netip.MustParseAddr("10.1.1.3"))
	if ipv6 {
		server = at(netip.MustParseAddr("fd10:1:0:1::3"))
	}
	return pair{name: "bridge by hand", client: ns[1], server: ns[2], listen: server, dial: server}
}
