package integration

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Host ports forward to the pod while it exists, for all clients, and the pod sees the client's
// address.
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
	labtest.TellPeers(t, s.netns, podPort)
	near, far := pod(t, l, "near", "node1"), pod(t, l, "far", "node2")

	for _, address := range labtest.NodeAddresses(t, l, "node1") {
		to := netip.AddrPortFrom(address, port)
		own := slices.IndexFunc(s.result.IPs, func(ip *types100.IPConfig) bool { return (ip.Address.IP.To4() == nil) == address.Is6() })
		if own < 0 {
			continue
		}
		itself, _ := netip.AddrFromSlice(s.result.IPs[own].Address.IP)
		outside := l.Name() + "-outside"
		if exec.Command("ip", "netns", "exec", outside, "ip", "route", "get", address.String()).Run() != nil {
			outside = l.Name() + "-node2" // this lab has no outside host with IPv6
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
				own, seen, err := labtest.AskPeer(client.netns, network, to)
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

	to := netip.AddrPortFrom(labtest.NodeAddresses(t, l, "node1")[0], port)
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := labtest.AskPeer(near.Netns, "tcp", to); err != nil {
		t.Errorf("without the agent: %v", err)
	}
	requireRestartWithoutOperations(t, l, "node1")
	if _, _, err := labtest.AskPeer(near.Netns, "tcp", to); err != nil {
		t.Errorf("after the agent's restart: %v", err)
	}
	if err := s.check(t); err != nil {
		t.Errorf("CHECK: %v", err)
	}

	if err := s.del(); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "udp"} {
		if _, seen, err := labtest.AskPeer(near.Netns, network, to); err == nil {
			t.Errorf("%s after DEL: answered, %v is seen", network, seen)
		}
	}
}
