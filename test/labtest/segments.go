package labtest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// SegmentsConfig is the configuration of a cluster with SRv6 segments for services.
const SegmentsConfig = `
useSRv6ForServices: true
routeServiceCIDRToVPP: true
ipamConfig:
  serviceCIDR: 10.96.0.0/12,fd96::/108
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16,fd17:30::/48
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
`

const segmentsManifest = `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.%[1]d
  clusterIPs: [10.96.0.%[1]d, "fd96::%[1]d"]
  ipFamilies: [IPv4, IPv6]
  ports:
  - {name: tcp, protocol: TCP, port: %[2]d, targetPort: 8080, nodePort: 300%[1]d}
  - {name: udp, protocol: UDP, port: %[2]d, targetPort: 8080, nodePort: 300%[1]d}
`

const segmentsSlice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s%[1]d-%[2]s, namespace: default, labels: {kubernetes.io/service-name: s%[1]d}}
addressType: %[2]s
ports: [{name: tcp, protocol: TCP, port: 8080}, {name: udp, protocol: UDP, port: 8080}]
endpoints: [%[3]s]
`

const isolation = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: some, namespace: elsewhere}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

// segmentsLab is a lab with pods a and b on node1 and c on node2. a and c are endpoints.
type segmentsLab struct {
	*lab.Lab
	addrs map[string][]netip.Addr // by pod name
}

// RequireSegments checks with packets that segments carry services between two nodes, and that NAT
// translates all other services. On a kernel node, NAT also handles the node's own processes, and
// segments choose endpoints by addresses alone.
func RequireSegments(t *testing.T, l *lab.Lab) {
	t.Helper()
	s := &segmentsLab{l, map[string][]netip.Addr{}}
	pods := AddPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	a, b, c := pods[0], pods[1], pods[2]
	for _, p := range pods {
		s.addrs[p.Name] = GlobalAddresses(t, p.Netns)
		sayName(t, p.Netns, p.Name, 8080)
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	node2, err := st.Node("node2")
	if err != nil {
		t.Fatal(err)
	}
	kernel := func(n lab.Node) bool { return n.VSwitch != lab.VPPVSwitch }
	const near, far, both, changed = 10, 11, 12, 13
	Apply(t, l, s.service(near, 8080, "a")+s.service(far, 8080, "c")+s.service(both, 8080, "a", "c")+s.service(changed, 80, "a", "c"))

	check := func(when string, carried bool) {
		t.Helper()
		for _, way := range []struct {
			who, netns string
			to         int
			translated bool // always
		}{
			{"a pod", b.Netns, near, false}, {"a pod", b.Netns, far, false}, {"a pod", b.Netns, both, false},
			{"a pod of the other node", c.Netns, near, false}, {"the endpoint itself", c.Netns, far, false},
			{"a process of the node", node1.Netns, near, kernel(node1)}, {"a process of the node", node1.Netns, far, kernel(node1)},
			{"a process of the node", node1.Netns, both, kernel(node1)},
			{"a process of the other node", node2.Netns, near, kernel(node2)}, {"a process of the other node", node2.Netns, far, kernel(node2)},
			{"a pod, to a service with another port", b.Netns, changed, true},
		} {
			for _, ipv6 := range []bool{false, true} {
				port := uint16(8080)
				if way.to == changed {
					port = 80
				}
				to := netip.AddrPortFrom(clusterIP(way.to, ipv6), port)
				await.That(t, fmt.Sprintf("%s: %s reaches %v", when, way.who, to), func() error {
					h, err := hear(way.netns, to)
					if untouched := h.at == to; err == nil && untouched != (carried && !way.translated) {
						return fmt.Errorf("endpoint %s is asked at %v", h.name, h.at)
					}
					if err == nil && h.own != h.seen && (carried && !way.translated) {
						return fmt.Errorf("endpoint %s sees %v, the client is %v", h.name, h.seen, h.own)
					}
					return err
				})
			}
		}
		for _, ipv6 := range []bool{false, true} {
			names := map[string]bool{}
			for range 40 {
				h, err := hear(b.Netns, netip.AddrPortFrom(clusterIP(both, ipv6), 8080))
				if err != nil {
					t.Errorf("%s: %v", when, err)
					break
				}
				names[h.name] = true
			}
			if len(names) != 2 && !(kernel(node1) && carried) {
				t.Errorf("%s, IPv6 %v: 40 connections went to %v, want both endpoints", when, ipv6, names)
			}
		}
		for _, node := range NodeAddresses(t, l, "node1") {
			if h, err := hear(st.Underlay(), netip.AddrPortFrom(node, 30000+far)); err != nil || h.at.Addr() == node {
				t.Errorf("%s: node port at %v: asked at %v, %v", when, node, h.at, err)
			}
		}
	}
	check("at first", true)
	s.requireUDP(t, b.Netns, c.Netns, far)
	RequireQuiet(t, l)

	RequireQuietRestart(t, l, "node1")
	check("after a restart of the agent", true)

	Apply(t, l, isolation)
	check("with a network policy", false)
	Delete(t, l, isolation)
	check("without it", true)

	Delete(t, l, s.service(near, 8080, "a")+s.service(both, 8080, "a", "c"))
	await.That(t, "a pod has the addresses no longer of services that are gone", func() error {
		for _, addr := range GlobalAddresses(t, a.Netns) {
			if addr == clusterIP(near, false) || addr == clusterIP(near, true) {
				return fmt.Errorf("pod a has %v", addr)
			}
		}
		return nil
	})
	if h, err := hear(b.Netns, netip.AddrPortFrom(clusterIP(far, true), 8080)); err != nil || h.name != "c" {
		t.Errorf("after other services have gone: %q answers, %v", h.name, err)
	}
}

// requireUDP checks that a server replies from the requested address.
func (s *segmentsLab) requireUDP(t *testing.T, client, server string, number int) {
	t.Helper()
	for _, ipv6 := range []bool{false, true} {
		to := netip.AddrPortFrom(clusterIP(number, ipv6), 8080)
		var packets *net.UDPConn
		err := lab.InNetns(lab.NetnsPath(server), func() (err error) {
			packets, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(to))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				_, peer, err := packets.ReadFromUDPAddrPort(make([]byte, 1))
				if err != nil {
					return
				}
				packets.WriteToUDPAddrPort([]byte(peer.String()), peer)
			}
		}()
		if own, seen, err := AskPeer(client, "udp", to); err != nil || own != seen {
			t.Errorf("UDP to %v: the endpoint sees %v, want %v; %v", to, seen, own, err)
		}
		packets.Close()
		<-done
	}
}

func clusterIP(number int, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd96::%d", number))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.96.0.%d", number))
}

func (s *segmentsLab) service(number, port int, pods ...string) string {
	text := fmt.Sprintf(segmentsManifest, number, port)
	for _, version := range []string{"IPv4", "IPv6"} {
		var endpoints []string
		for _, name := range pods {
			node := map[string]string{"a": "node1", "b": "node1", "c": "node2"}[name]
			for _, addr := range s.addrs[name] {
				if addr.Is6() == (version == "IPv6") {
					endpoints = append(endpoints, fmt.Sprintf(`{addresses: ["%s"], nodeName: %s, conditions: {ready: true}}`, addr, node))
				}
			}
		}
		text += strings.ReplaceAll(fmt.Sprintf(segmentsSlice, number, version, strings.Join(endpoints, ", ")), "-IPv", "-ipv")
	}
	return text
}

// GlobalAddresses returns the global addresses of a namespace.
func GlobalAddresses(t testing.TB, netns string) (list []netip.Addr) {
	t.Helper()
	err := lab.InNetns(lab.NetnsPath(netns), func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
				list = append(list, p.Addr())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// heard is an answer of sayName: the server's name, the client's address as seen by the server, and
// the requested address.
type heard struct {
	name      string
	own, seen netip.Addr
	at        netip.AddrPort
}

func sayName(t *testing.T, netns, name string, port int) {
	t.Helper()
	var l *net.TCPListener
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		l, err = net.ListenTCP("tcp", &net.TCPAddr{Port: port})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s %s", name, c.RemoteAddr(), c.LocalAddr())
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

func hear(netns string, to netip.AddrPort) (h heard, err error) {
	var c net.Conn
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.DialTimeout("tcp", to.String(), 2*time.Second)
		return err
	})
	if err != nil {
		return h, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	answer, err := io.ReadAll(c)
	fields := strings.Fields(string(answer))
	if err != nil || len(fields) != 3 {
		return h, fmt.Errorf("answer %q: %w", answer, err)
	}
	unmapped := func(text string) netip.AddrPort {
		a, _ := netip.ParseAddrPort(text)
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return heard{fields[0], unmapped(c.LocalAddr().String()).Addr(), unmapped(fields[1]).Addr(), unmapped(fields[2])}, nil
}
