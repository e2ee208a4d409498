package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// The agent keeps a strict reverse path filter of the administrator, and pods work with it.
func TestStrictReversePathFilterStays(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node := st.Nodes[0]
	was := map[string]string{}
	for _, name := range []string{"all", "default", "eth0"} {
		was[name] = strings.TrimSpace(command.In(t, node.Netns, "sysctl -n net.ipv4.conf."+name+".rp_filter"))
		command.In(t, node.Netns, "sysctl -qw net.ipv4.conf."+name+".rp_filter=1")
	}
	t.Cleanup(func() {
		for name, value := range was {
			command.In(t, node.Netns, "sysctl -qw net.ipv4.conf."+name+".rp_filter="+value)
		}
	})
	devices := sysctls(t, node, "ipv4", "rp_filter")
	strict, far := pod(t, l, "strict", "node1"), pod(t, l, "far", "node2")
	check := func(when string) {
		t.Helper()
		requireConnected(t, l, strict, far)
		for name, value := range sysctls(t, node, "ipv4", "rp_filter") {
			if want, known := devices[name]; value != "1" && (!known || want != value) {
				t.Errorf("%s: rp_filter of %s is %s", when, name, value)
			}
		}
	}
	check("after ADD")
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
	labtest.RequireQuiet(t, l)
}

func sysctls(t *testing.T, node lab.Node, family, name string) map[string]string {
	t.Helper()
	values := map[string]string{}
	if err := labtest.Inside(node.Netns, func() error {
		files, err := filepath.Glob(fmt.Sprintf("/proc/sys/net/%s/conf/*/%s", family, name))
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			values[filepath.Base(filepath.Dir(file))], err = strings.TrimSpace(string(data)), errors.Join(err, readErr)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return values
}

// In a cluster without IPv6, nodes do not forward IPv6, even if pods configure it.
func TestNoIPv6ForwardingWithoutIPv6Pods(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node := st.Nodes[0]
	forwarding := func(when string) {
		t.Helper()
		for name, value := range sysctls(t, node, "ipv6", "forwarding") {
			if value != "0" {
				t.Errorf("%s: IPv6 forwarding of %s is %s", when, name, value)
			}
		}
	}
	forwarding("before")
	evil, near := labtest.Wire(t, pod(t, l, "six", "node1")), labtest.Wire(t, pod(t, l, "near", "node1"))
	forwarding("with pods")
	device := strings.Fields(command.In(t, node.Netns, "ip route get "+near.Address.String()))[2]
	command.In(t, node.Netns, "ip -6 route add fd66::2/128 dev "+device)
	t.Cleanup(func() { command.In(t, node.Netns, "ip -6 route del fd66::2/128 dev "+device+" || true") })
	var before statscollector.DropsReport
	if err := l.Agent("node1").Get(t.Context(), statscollector.DropsURL, &before); err != nil {
		t.Fatal(err)
	}
	near.Wire.Drain()
	for i, src := range []netip.Addr{netip.MustParseAddr("fd66::1"), vswitch.LinkLocal(evil.MAC), netip.MustParseAddr("2001:db8::1")} {
		evil.Wire.Send(t, frames.Datagram(evil.MAC, evil.Gateway, src, netip.MustParseAddr("fd66::2"), fmt.Sprint("over IPv6 ", i), false))
	}
	evil.Wire.Send(t, frames.Datagram(evil.MAC, evil.Gateway, evil.Of(false), near.Of(false), "over IPv4", false))
	seen := near.Wire.Receive(await.Patience, frames.Containing("over IPv4"))
	if seen == nil {
		t.Error("packets of the pod over IPv4 do not arrive")
	}
	if slices.ContainsFunc(seen, frames.Containing("over IPv6")) {
		t.Error("the node forwards IPv6")
	}
	l6 := &attackLab{Lab: l}
	l6.wantCounted(t, nil, "six", vswitch.DropIPv6, 2)
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	forwarding("after a restart")
	if err := ping(t, evil.Pod, near.Pod); err != nil {
		t.Error(err)
	}
}
