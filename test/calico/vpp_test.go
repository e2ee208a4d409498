package calico

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/test/await"
)

// addPodOnVPP attaches a pod to its node's VPP with one address per family, like a CNI plugin of
// Calico/VPP: host routes, and a gateway that no node owns.
func (w *node) addPodOnVPP(vpp *vpptest.Process, name string, addresses ...string) {
	w.t.Helper()
	pod, mac := w.netns(name), fmt.Sprintf("02:00:00:00:00:%02x", w.n)
	w.addNetns(name)
	w.ip("link", "add", "cali"+name, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", pod)
	w.ip("link", "set", "cali"+name, "up")
	w.run("ip", "netns", "exec", pod, "sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0")
	w.run("ip", "-n", pod, "link", "set", "eth0", "up")
	device := "host-cali" + name
	for _, command := range []string{
		"create host-interface name cali" + name + " hw-addr " + gatewayMAC,
		"set interface state " + device + " up",
		"set interface ip address " + device + " 169.254.1.1/32",
		"enable ip6 interface " + device,
	} {
		vpp.CLI(command)
	}
	for _, address := range addresses {
		gateway, bits := "169.254.1.1", "/32"
		if strings.Contains(address, ":") {
			gateway, bits = "fe80::1", "/128"
		}
		w.run("ip", "-n", pod, "addr", "add", address+bits, "dev", "eth0")
		w.run("ip", "-n", pod, "neigh", "add", gateway, "lladdr", gatewayMAC, "dev", "eth0", "nud", "permanent")
		w.run("ip", "-n", pod, "route", "add", "default", "via", gateway, "dev", "eth0", "onlink")
		vpp.CLI("set ip neighbor " + device + " " + address + " " + mac)
		vpp.CLI("ip route add " + address + bits + " via " + address + " " + device)
	}
}

// Pods on VPP nodes and on a kernel node reach each other through the routes in VPP, also after a
// restart of VPP.
func TestVPP(t *testing.T) {
	vpptest.Need(t)
	s := newSite(t)
	w1, w2, w3 := s.addNode(1), s.addNode(2), s.addNode(3)
	var vpps []*vpptest.Process
	for _, w := range []*node{w1, w2} {
		w.ip("link", "set", "eth1", "up")
		vpp := vpptest.NewProcess(t, "/var/run/netns/"+s.netns(w.name))
		w.flags = []string{"--vswitch", "vpp", "--vpp-socket", vpp.Socket(), "--uplink-type", "AF_PACKET"}
		vpps = append(vpps, vpp)
	}
	vpp1, vpp2 := vpps[0], vpps[1]
	w1.addPodOnVPP(vpp1, "a1", pod1, pod61)
	w2.addPodOnVPP(vpp2, "a2", pod2, pod62)
	w3.addPod("a3", pod3)
	w3.addPod("b3", pod63)
	for block, w := range map[string]*node{block1: w1, block61: w1, block2: w2, block62: w2, block3: w3, block63: w3} {
		s.putBlock(block, w.name, nil)
	}
	for _, w := range []*node{w1, w2, w3} {
		w.start()
	}
	allReach := func() {
		t.Helper()
		for from, to := range map[string][]string{"a1": {pod2, pod3, pod62, pod63}, "a2": {pod1, pod3, pod61, pod63}, "a3": {pod1, pod2}, "b3": {pod61, pod62}} {
			for _, address := range to {
				s.awaitPing(from, address)
			}
		}
	}
	allReach()
	w1.awaitReady()
	w2.awaitReady()
	fib := func(destination, text string) {
		t.Helper()
		await.That(t, fmt.Sprintf("VPP has a route to %s: %q", destination, text), func() error {
			out, err := vpp1.TryCLI("show ip fib " + destination)
			if err == nil && (strings.Contains(out, destination) != (text != "") || !strings.Contains(out, text)) {
				err = errors.New(out)
			}
			return err
		})
	}
	fib(block1, "drop")
	fib(block2, "172.30.0.2")

	// A pod of w3 borrows an address from a block of w2.
	w3.addPod("c3", "10.66.0.70")
	s.putBlock(block2, "w2", map[int]string{2: "w2", 6: "w3"})
	s.awaitPing("a1", "10.66.0.70")
	s.awaitPing("a2", "10.66.0.70")

	// The program catches up on changes after its downtime; foreign configuration in VPP stays.
	w1.stop()
	s.putBlock("10.66.2.0/26", "w2", nil)
	s.putBlock(block2, "w2", nil)
	w1.start()
	fib("10.66.2.0/26", "172.30.0.2")
	fib("10.66.0.70/32", "")
	allReach()

	// The same after VPP's downtime. The CNI plugin restores its pods.
	vpp1.Stop()
	s.delete(blockKey("10.66.2.0/26"))
	vpp1.Start()
	s.awaitPing("a2", "172.30.0.1")
	s.awaitPing("b3", "2001:db8::1")
	fib(block2, "172.30.0.2")
	fib("10.66.2.0/26", "")
	w1.awaitReady()
}
