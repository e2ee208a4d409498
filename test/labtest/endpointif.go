package labtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/vishvananda/netlink"
)

// serverWithInterface has the interface net1. The format argument is the interface for services.
const serverWithInterface = `---
apiVersion: v1
kind: Pod
metadata:
  name: server
  namespace: default
  labels: {app: server}
  annotations: {contivpp.io/custom-if: net1/tap, contivpp.io/service-endpoint-if: %s}
spec:
  containers: [{name: sandbox, image: contiv-lab}]
`

const serverWithout = `---
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default, labels: {app: server}}
spec:
  containers: [{name: sandbox, image: contiv-lab}]
`

const serverServices = `---
apiVersion: v1
kind: Service
metadata: {name: everywhere, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.40
  clusterIPs: [10.96.0.40, "fd96::40"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  selector: {app: server}
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080, nodePort: 30040}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080, nodePort: 30040}
---
apiVersion: v1
kind: Service
metadata: {name: here, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.41
  clusterIPs: [10.96.0.41, "fd96::41"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  externalTrafficPolicy: Local
  selector: {app: server}
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080, nodePort: 30041}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080, nodePort: 30041}
`

const onlyToServer = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: only-to-server, namespace: default}
spec:
  podSelector: {matchLabels: {app: other}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {app: server}}}]}]
`

const otherWithLabel = `---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: default, labels: {app: other}}
spec:
  containers: [{name: sandbox, image: contiv-lab}]
`

// RequireServicesAtInterface checks with packets that services reach a pod at the interface of
// contivpp.io/service-endpoint-if, on node1 of a dual-stack lab of two nodes with an IPv6 router. itself is set if the pod can reach itself.
func RequireServicesAtInterface(t *testing.T, l *lab.Lab, binaries string, itself bool) {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	pods := AddPods(t, l, lab.PodSpec{Name: "client", Node: "node1"}, lab.PodSpec{Name: "other", Node: "node2"}, lab.PodSpec{Name: "server", Node: "node1"})
	client, other, server := pods[0], pods[1], pods[2]
	Apply(t, l, fmt.Sprintf(serverWithInterface, "net1")+serverServices+otherWithLabel)
	t.Cleanup(func() { Delete(t, l, serverServices) })
	at := map[string][]netip.Addr{}
	await.That(t, "the pod has net1", func() (err error) {
		for _, name := range []string{"eth0", "net1"} {
			if at[name], err = addressesAt(server.Netns, name); err != nil || len(at[name]) != 2 {
				return fmt.Errorf("%s has %v: %w", name, at[name], err)
			}
		}
		return nil
	})
	tellEnds(t, server.Netns, 8080, slices.Concat(at["eth0"], at["net1"]))
	nodes := NodeAddresses(t, l, "node1")
	clusterIP := map[string][]netip.Addr{
		"everywhere": {netip.MustParseAddr("10.96.0.40"), netip.MustParseAddr("fd96::40")},
		"here":       {netip.MustParseAddr("10.96.0.41"), netip.MustParseAddr("fd96::41")},
	}
	requireAt := func(when, name string) {
		t.Helper()
		for _, way := range []struct {
			who, netns, service string
			nodePort            bool
			keeps               bool // preserves the client's address
		}{
			{"a pod of the node", client.Netns, "everywhere", false, true},
			{"a pod of the node", client.Netns, "here", false, true},
			{"a pod of the node", client.Netns, "everywhere", true, true},
			{"a pod of another node", other.Netns, "everywhere", false, true},
			{"a pod of another node", other.Netns, "here", false, true},
			{"a process of another node", l.Name() + "-node2", "here", true, true},
			{"a client outside", st.Underlay(), "here", true, true},
			{"a client outside", st.Underlay(), "everywhere", true, false},
			{"the pod itself", server.Netns, "everywhere", false, false},
		} {
			if way.netns == server.Netns && name != "eth0" && !itself {
				continue
			}
			for _, network := range []string{"tcp", "udp"} {
				for i, want := range at[name] {
					to := netip.AddrPortFrom(clusterIP[way.service][i], 80)
					if way.nodePort {
						port := map[string]uint16{"everywhere": 30040, "here": 30041}[way.service]
						to = netip.AddrPortFrom(nodes[i], port)
					}
					if !hasRoute(way.netns, to.Addr()) { // the IPv6 addresses of this host belong to its vswitch
						continue
					}
					await.That(t, fmt.Sprintf("%s: %s reaches %v (%s, %s) at %s", when, way.who, to, way.service, network, name), func() error {
						own, local, seen, err := askEnds(way.netns, network, to)
						switch {
						case err != nil:
							return err
						case local != want:
							return fmt.Errorf("the server is asked at %v, want %v", local, want)
						case (seen == own) != way.keeps:
							return fmt.Errorf("the server sees %v as %v", own, seen)
						}
						return nil
					})
				}
			}
		}
	}
	requireAt("declared", "net1")
	if !itself { // not a fault of the node
		AwaitNote(t, l, binaries, "node1", "does not reach itself through its service")
	}
	for _, from := range []lab.Pod{client, other} {
		for _, service := range []string{"svc/everywhere", "svc/here"} {
			a, code := AskWhy(t, l, binaries, from.Name, service, "80/tcp")
			if text := fmt.Sprint(a); code != 0 || a.Verdict != why.Reached || len(a.Findings) > 0 || !strings.Contains(text, "net1 of pod default/server") {
				t.Errorf("why %s %s: exit code %d, %+v", from.Name, service, code, a)
			}
		}
	}

	// Policies that select the pod as a peer apply to all its addresses.
	Apply(t, l, onlyToServer)
	await.That(t, "the policy denies connections of other elsewhere", func() error {
		if _, _, err := AskPeer(other.Netns, "tcp", netip.AddrPortFrom(client.Address, 8080)); !isTimeout(err) {
			return fmt.Errorf("connecting to client: %v", err)
		}
		return nil
	})
	requireAt("with an egress policy of another node's pod", "net1")
	Delete(t, l, onlyToServer)
	await.That(t, "the policy is gone", func() error {
		if _, _, err := AskPeer(other.Netns, "tcp", netip.AddrPortFrom(client.Address, 8080)); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("connecting to client: %v", err)
		}
		return nil
	})

	RequireQuiet(t, l)
	for _, node := range []string{"node1", "node2"} {
		RequireQuietRestart(t, l, node)
	}
	requireAt("after a restart of the agents", "net1")

	Apply(t, l, fmt.Sprintf(serverWithInterface, "eth0"))
	requireAt("at eth0 again", "eth0")
	Apply(t, l, fmt.Sprintf(serverWithInterface, "net1"))
	requireAt("at net1 again", "net1")
	answerAt(t, server.Netns, "net1", at["net1"])
	requireAt("answered out of net1", "net1")
	Apply(t, l, serverWithout)
	requireAt("without annotation", "eth0")
	RequireQuiet(t, l)
}

// answerAt adds a policy rule and a routing table to a pod for packets from a custom interface's
// addresses, as described in docs/user/custom-interfaces.md.
func answerAt(t *testing.T, netns, device string, addrs []netip.Addr) {
	t.Helper()
	for _, addr := range addrs {
		version := map[bool]string{false: "-4", true: "-6"}[addr.Is6()]
		script := fmt.Sprintf(`set -- $(ip %[1]s route show default); ip %[1]s rule add from %[2]v table 100; ip %[1]s route add $3 dev %[3]s table 100; ip %[1]s route add default via $3 dev %[3]s table 100`, version, addr, device)
		if out, err := exec.Command("ip", "netns", "exec", netns, "sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
}

func hasRoute(netns string, to netip.Addr) bool {
	return Inside(netns, func() error {
		_, err := netlink.RouteGet(to.AsSlice())
		return err
	}) == nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// tellEnds serves TCP, and UDP at the addresses, until the test ends. It sends clients both ends of
// the connection as seen by the server.
func tellEnds(t testing.TB, netns string, port uint16, addrs []netip.Addr) {
	t.Helper()
	var l net.Listener
	var sockets []*net.UDPConn
	t.Cleanup(func() {
		if l != nil {
			l.Close()
		}
		for _, s := range sockets {
			s.Close()
		}
	})
	err := Inside(netns, func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err != nil {
			return err
		}
		for _, addr := range addrs {
			s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
			if err != nil {
				return err
			}
			sockets = append(sockets, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s", c.LocalAddr(), c.RemoteAddr())
			c.Close()
		}
	}()
	for _, s := range sockets {
		go func() {
			for {
				_, peer, err := s.ReadFromUDPAddrPort(make([]byte, 1))
				if err != nil {
					return
				}
				s.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %s", s.LocalAddr(), peer), peer)
			}
		}()
	}
}

// askEnds connects to a server of tellEnds. It returns the client's address, and the addresses of
// server and client as seen by the server.
func askEnds(netns, network string, to netip.AddrPort) (own, local, seen netip.Addr, err error) {
	var c net.Conn
	err = Inside(netns, func() (err error) {
		c, err = net.DialTimeout(network, to.String(), time.Second)
		return err
	})
	if err != nil {
		return own, local, seen, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if network == "udp" {
		if _, err := c.Write([]byte{0}); err != nil {
			return own, local, seen, err
		}
	}
	data := make([]byte, 200)
	n, err := c.Read(data)
	if err != nil {
		return own, local, seen, err
	}
	at, peer, _ := strings.Cut(string(data[:n]), " ")
	ends := [2]netip.AddrPort{}
	for i, text := range []string{at, peer} {
		if ends[i], err = netip.ParseAddrPort(text); err != nil {
			return own, local, seen, err
		}
	}
	own = netip.MustParseAddrPort(c.LocalAddr().String()).Addr().Unmap()
	return own, ends[0].Addr().Unmap(), ends[1].Addr().Unmap(), nil
}
