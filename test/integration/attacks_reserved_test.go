package integration

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

const externalService = `apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: tenant}
spec: {clusterIP: %[2]s, clusterIPs: [%[2]s], externalIPs: [%[3]v], ports: [{protocol: %[4]s, port: %[5]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: tenant, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{protocol: %[4]s, port: %[6]d}]
endpoints: [{addresses: [%[7]v], conditions: {ready: true}}]
---
`

// testReserved: services and host ports cannot use addresses and ports that nodes need.
func (l *attackLab) testReserved(t *testing.T) {
	const pod = 7777
	etcd := netip.AddrPortFrom(lab.RouterAddress.Addr(), 32379)
	listen(t, l.evil.Netns, netip.AddrPortFrom(l.evil.Of(false), pod))
	objects := fmt.Sprintf(externalService, "ext", "10.96.9.1", l.node2.Address.Addr(), "UDP", 4789, pod, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "hij", "10.96.9.2", etcd.Addr(), "TCP", etcd.Port(), pod, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "leads", "10.96.9.3", "198.51.100.77", "UDP", 4790, 4789, l.node2.Address.Addr()) +
		fmt.Sprintf(externalService, "far", "10.96.9.5", l.node2.Address.Addr(), "TCP", 2222, pod, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "fine", "10.96.9.4", l.node1.Address.Addr(), "TCP", 7070, pod, l.evil.Of(false))
	process := netip.AddrPortFrom(l.node2.Address.Addr(), 2222)
	greet(t, l.node2.Netns, process, "node2")
	labtest.Apply(t, l.Lab, objects)
	for name, why := range map[string]string{
		"ext":   fmt.Sprintf("%v:4789/UDP is not translated, because port 4789/UDP is reserved for the tunnels between nodes (VXLAN)", l.node2.Address.Addr()),
		"hij":   fmt.Sprintf("%v/TCP is not translated, because port %d/TCP is reserved for etcd", etcd, etcd.Port()),
		"far":   fmt.Sprintf("%v:2222/TCP is not translated, because a process of node node2 has the port", l.node2.Address.Addr()),
		"leads": "gets no clients, because port 4789/UDP is reserved for the tunnels between nodes (VXLAN)",
	} {
		await.That(t, "service "+name+" reports its missing ports", func() error {
			var report service.Report
			if err := l.Agent("node1").Get(t.Context(), service.URL+"?service=tenant/"+name, &report); err != nil {
				return err
			}
			if got := fmt.Sprint(report.Services); !strings.Contains(got, why) {
				return fmt.Errorf("%s, want %q", got, why)
			}
			return nil
		})
	}
	await.That(t, "another service at the node's address works", func() error {
		c, err := dialTCP(l.near.Netns, netip.AddrPortFrom(l.node1.Address.Addr(), 7070))
		if err == nil {
			c.Close()
		}
		return err
	})
	for _, from := range []string{l.near.Netns, l.node1.Netns, l.far.Netns, l.state.Underlay()} {
		if got := greeting(t, from, process); got != "node2" {
			t.Errorf("a process of node2 listens at %v, and %q answers in %s", process, got, from)
		}
	}
	l.wantService(t)
	out, err := contivLab(t, l.Lab, "ctl", "status")
	if err == nil || !strings.Contains(out, "services request addresses and ports reserved for nodes") {
		t.Errorf("status: %v\n%s", err, out)
	}

	// Simulate the leftover NAT rule of an earlier version. The agent must still reach etcd.
	translated := fmt.Sprintf("nft add element ip contiv nat-static { %v . tcp . %d : %v . %d }", etcd.Addr(), etcd.Port(), l.evil.Of(false), pod)
	if err := l.StopAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	command.In(t, l.node1.Netns, translated)
	remote := func(mark int) string {
		var at string
		err := labtest.Inside(l.node1.Netns, func() error {
			dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
			}}
			c, err := dialer.DialContext(t.Context(), "tcp", etcd.String())
			if err != nil {
				return err
			}
			defer c.Close()
			for _, f := range connections(t, l.node1, false) {
				if local := c.LocalAddr().(*net.TCPAddr).AddrPort(); f.Forward.SrcPort == local.Port() && f.Forward.DstPort == etcd.Port() {
					at = f.Reverse.SrcIP.String()
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := remote(0); at != l.evil.Of(false).String() {
		t.Fatalf("the translation leads to %s", at)
	}
	if at := remote(nft.MarkUntranslated); at != etcd.Addr().String() {
		t.Errorf("a connection with the mark of the agent leads to %s", at)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the agent has removed the translation", func() error {
		if at := remote(0); at != etcd.Addr().String() {
			return fmt.Errorf("etcd's address leads to %s", at)
		}
		return nil
	})
	labtest.Delete(t, l.Lab, objects)
	await.That(t, "the agent has seen that the services went", func() error {
		for _, name := range []string{"ext", "hij", "far", "leads", "fine"} {
			if err := l.Agent("node1").Get(t.Context(), service.URL+"?service=tenant/"+name, &service.Report{}); err == nil {
				return fmt.Errorf("service %s is there", name)
			}
		}
		return nil
	})
}

// greet sends a text to everybody who connects.
func greet(t *testing.T, netns string, at netip.AddrPort, text string) {
	t.Helper()
	if err := labtest.Inside(netns, func() error {
		listener, err := net.Listen("tcp", at.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				c.Close()
			}
		}()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// greeting returns the text of greet, or what prevents it.
func greeting(t *testing.T, netns string, at netip.AddrPort) string {
	t.Helper()
	c, err := dialTCP(netns, at)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
