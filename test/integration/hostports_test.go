package integration

import (
	"bytes"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Ports of the node that a pod asks for lead to it while it lives, from wherever they are
// used, and the pod sees who uses them.
func TestHostPorts(t *testing.T) {
	l := require(t)
	requireHostPorts(t, l)
	labtest.RequireQuiet(t, l)
}

func requireHostPorts(t *testing.T, l *lab.Lab) {
	t.Helper()
	const port, podPort = 18080, 8080
	runtime, list := newRuntime(t, l, "node1"), conflist(t, l.Conflist("node1"))
	asks := func(protocols ...string) map[string]any {
		var mappings []map[string]any
		for _, p := range protocols {
			mappings = append(mappings, map[string]any{"hostPort": port, "containerPort": podPort, "protocol": p})
		}
		return map[string]any{"portMappings": mappings}
	}
	s := addSandbox(t, l, runtime, list, "hostport", asks("tcp", "udp"))
	tellPeers(t, s.netns, podPort)
	near, far := pod(t, l, "near", "node1"), pod(t, l, "far", "node2")

	for _, address := range nodeAddresses(t, l, "node1") {
		to := netip.AddrPortFrom(address, port)
		own := slices.IndexFunc(s.result.IPs, func(ip *types100.IPConfig) bool { return (ip.Address.IP.To4() == nil) == address.Is6() })
		if own < 0 {
			continue
		}
		itself, _ := netip.AddrFromSlice(s.result.IPs[own].Address.IP)
		outside := l.Name() + "-outside"
		if exec.Command("ip", "netns", "exec", outside, "ip", "route", "get", address.String()).Run() != nil {
			outside = l.Name() + "-node2" // there is no IPv6 outside of this lab's nodes
		}
		for _, network := range []string{"tcp", "udp"} {
			for what, client := range map[string]struct{ netns, source string }{
				"outside":            {outside, "its own"},
				"another node":       {l.Name() + "-node2", "its own"},
				"the node":           {l.Name() + "-node1", ""},
				"a pod of the node":  {near.Netns, "its own"},
				"a pod of another":   {far.Netns, ""},
				"the pod, to itself": {s.netns, ""},
			} {
				own, seen, err := askPeer(client.netns, network, to)
				switch {
				case err != nil:
					t.Errorf("%s %v from %s: %v", network, to, what, err)
				case client.source != "" && seen != own:
					t.Errorf("%s %v from %s: the pod sees %v, not the client's %v", network, to, what, seen, own)
				case client.netns == s.netns && seen == itself.Unmap():
					t.Errorf("%s %v from %s: answers to %v do not come back", network, to, what, seen)
				}
			}
		}
	}

	const inUse = "host port 18080/UDP of pod sandboxes/another is in use on this node: pod sandboxes/hostport has 18080/UDP"
	if _, err := tryAddSandbox(t, l, runtime, list, "another", asks("udp")); err == nil || !strings.Contains(err.Error(), inUse) {
		t.Errorf("a second pod with the port: %v, want %s", err, inUse)
	}

	to := netip.AddrPortFrom(nodeAddresses(t, l, "node1")[0], port)
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := askPeer(near.Netns, "tcp", to); err != nil {
		t.Errorf("without the agent: %v", err)
	}
	requireRestartWithoutOperations(t, l, "node1")
	if _, _, err := askPeer(near.Netns, "tcp", to); err != nil {
		t.Errorf("after the agent's restart: %v", err)
	}
	if err := s.check(t); err != nil {
		t.Errorf("CHECK: %v", err)
	}

	if err := s.del(); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "udp"} {
		if _, seen, err := askPeer(near.Netns, network, to); err == nil {
			t.Errorf("%s after DEL: answered, %v is seen", network, seen)
		}
	}
}

// nodeAddresses are those of the node, one of each IP version that it has.
func nodeAddresses(t *testing.T, l *lab.Lab, node string) (list []netip.Addr) {
	t.Helper()
	var report ipnet.IPAMReport
	if err := l.Agent(node).Get(t.Context(), ipnet.IPAMURL, &report); err != nil {
		t.Fatal(err)
	}
	texts := []string{report.NodeIP}
	if report.Second != nil {
		texts = append(texts, report.Second.NodeIP)
	}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Addr())
		}
	}
	return list
}

// tellPeers serves TCP and UDP in a namespace until the test ends: clients get the address
// that they are seen with.
func tellPeers(t *testing.T, netns string, port int) {
	t.Helper()
	var l *net.TCPListener
	var packets *net.UDPConn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		if l, err = net.ListenTCP("tcp", &net.TCPAddr{Port: port}); err == nil {
			packets, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			c.Write([]byte(c.RemoteAddr().String()))
			c.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			_, peer, err := packets.ReadFromUDPAddrPort(make([]byte, 1))
			if err != nil {
				return
			}
			packets.WriteToUDPAddrPort([]byte(peer.String()), peer)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		packets.Close()
		<-done
		<-done
	})
}

// askPeer returns the client's own address, and the one that a server of tellPeers sees.
func askPeer(netns, network string, to netip.AddrPort) (own, seen netip.Addr, err error) {
	var c net.Conn
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.DialTimeout(network, to.String(), 2*time.Second)
		return err
	})
	if err != nil {
		return own, seen, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if network == "udp" {
		if _, err := c.Write([]byte{0}); err != nil {
			return own, seen, err
		}
	}
	data := make([]byte, 100)
	n, err := c.Read(data)
	if err != nil {
		return own, seen, err
	}
	peer, err := netip.ParseAddrPort(string(bytes.TrimSpace(data[:n])))
	return netip.MustParseAddrPort(c.LocalAddr().String()).Addr().Unmap(), peer.Addr().Unmap(), err
}
