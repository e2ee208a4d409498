package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/servicelab"
)

const hookManifest = `apiVersion: v1
kind: Service
metadata: {name: hook, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.30
  clusterIPs: [10.96.0.30, "fd96::30"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: tcp, protocol: TCP, port: 443, targetPort: 7443, nodePort: 30443}, {name: udp, protocol: UDP, port: 443, targetPort: 7443, nodePort: 30443}]
`

const hookSlice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hook-%[3]s, namespace: default, labels: {kubernetes.io/service-name: hook}}
addressType: %[1]s
ports: [{name: tcp, protocol: TCP, port: 7443}, {name: udp, protocol: UDP, port: 7443}]
endpoints: [{addresses: ["%[2]s"], nodeName: node2, conditions: {ready: true}}]
`

// Fragments and ICMP errors about the path MTU are translated with their connections. A process on
// a node acts as the API server that calls a webhook. Outside clients use a node port of a node
// without an endpoint.
func TestFragmentsAndPathMTUOfServices(t *testing.T) {
	require(t)
	opts := options("fr")
	opts.ContivConfig, opts.ServiceConfig = servicelab.Config, servicelab.ServiceConfig
	l := labtest.Up(t, opts)
	pods := labtest.AddPods(t, l, lab.PodSpec{Name: "client", Node: "node1"}, lab.PodSpec{Name: "endpoint", Node: "node2"}, lab.PodSpec{Name: "mate", Node: "node2"})
	labtest.AwaitAddresses(t, l)
	labtest.Echo(t, pods[1].Netns, ":7443")
	echoDatagrams(t, pods[1].Netns, ":7443")
	text := hookManifest
	to := endpoints(t, l, pods[1], []string{"10.1.", "fd10:1:"})
	for _, e := range to {
		version := map[bool]string{false: "IPv4", true: "IPv6"}[e.Address.Is6()]
		text += fmt.Sprintf(hookSlice, version, e.Address, strings.ToLower(version))
	}
	file := filepath.Join(t.TempDir(), "hook.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, node2, outside := l.Name()+"-node1", l.Name()+"-node2", st.Underlay()
	command.In(t, outside, "ip address add fd16::fe/112 dev nodes nodad")
	for _, node := range []string{node1, node2} {
		command.In(t, node, "ip -6 route add fd96::/108 dev eth0") // the lab's nodes have a default route only for IPv4
	}
	clients := map[string]string{"a pod": pods[0].Netns, "a process of the node": node1, "a pod of the endpoint's node": pods[2].Netns, "a process of the endpoint's node": node2, "outside": outside}
	for _, e := range to {
		service := netip.MustParseAddrPort("10.96.0.30:443")
		if e.Address.Is6() {
			service = netip.MustParseAddrPort("[fd96::30]:443")
		}
		nodes := labtest.NodeAddresses(t, l, "node1")
		nodePort := netip.AddrPortFrom(nodes[slices.IndexFunc(nodes, func(a netip.Addr) bool { return a.Is6() == e.Address.Is6() })], 30443)
		at := func(who string) netip.AddrPort {
			if who == "outside" {
				return nodePort
			}
			return service
		}
		for who, netns := range clients {
			await.That(t, fmt.Sprintf("%s calls %s", who, at(who)), func() error { return echoes(netns, "tcp", at(who), 10) })
			err := echoes(netns, "udp", at(who), 5000)
			if errors.Is(err, syscall.EMSGSIZE) { // routers do not fragment IPv6; the client has learned the MTU of the overlay
				err = echoes(netns, "udp", at(who), 5000)
			}
			if err != nil {
				t.Errorf("%s, fragments to %s: %v", who, at(who), err)
			}
		}
		const mtu = 1300
		narrow(t, node2, e.Address, mtu)
		for who, netns := range clients {
			if err := echoes(netns, "tcp", at(who), 300_000); err != nil {
				t.Errorf("%s, to %s with an MTU of %d on the way: %v", who, at(who), mtu, err)
			}
		}
		out, err := exec.Command("ip", "-n", pods[0].Netns, "route", "get", service.Addr().String()).CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("mtu %d", mtu)) {
			t.Errorf("the pod has not learned the MTU of the way to %s: %v, %s", service, err, out)
		}
	}
}

// narrow lowers the MTU from the node to an address by a route in a separate table.
func narrow(t *testing.T, node string, to netip.Addr, mtu int) {
	t.Helper()
	out, err := exec.Command("ip", "-n", node, "route", "get", to.String()).CombinedOutput()
	device := regexp.MustCompile(`dev (\S+)`).FindSubmatch(out)
	if err != nil || device == nil {
		t.Fatalf("the way to %s: %v, %s", to, err, out)
	}
	version := map[bool]string{false: "-4", true: "-6"}[to.Is6()]
	command.In(t, node, fmt.Sprintf("ip %s route add %s dev %s table 77 mtu lock %d; ip %[1]s rule add to %[2]s lookup 77 pref 10", version, to, device[1], mtu))
}

func echoes(netns, network string, to netip.AddrPort, size int) error {
	var c net.Conn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.DialTimeout(network, to.String(), 2*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	sent := bytes.Repeat([]byte("0123456789"), size/10)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		failed <- err
	}()
	got := make([]byte, len(sent))
	n, err := io.ReadFull(c, got)
	if wrote := <-failed; wrote != nil {
		return wrote
	}
	if err != nil || !bytes.Equal(got, sent) {
		return fmt.Errorf("%d of %d bytes came back: %w", n, len(sent), err)
	}
	return nil
}

func echoDatagrams(t *testing.T, netns, address string) {
	t.Helper()
	var c net.PacketConn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.ListenPacket("udp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		data := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(data)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(data[:n], from)
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
}
