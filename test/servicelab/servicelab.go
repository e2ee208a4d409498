package servicelab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Config is the agents' dual-stack configuration.
const Config = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16,fd17:30::/48
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
  serviceCIDR: 10.96.0.0/12,fd96::/108
routeServiceCIDRToVPP: true
`

// ServiceConfig lets the vswitch implement services.
const ServiceConfig = "services: vswitch\n"

type serviceLab struct {
	*lab.Lab
	vpp     bool // on node1
	addrs   map[string][]netip.Addr
	nodes   map[string]string
	nodeIPs []netip.Addr // of node1
	clients []client
	outside string
}

type client struct {
	who, netns string
	// node is the node of the vswitch that translates cluster IPs, "" for outside clients.
	node string
	pod  bool
}

func newServiceLab(t *testing.T, l *lab.Lab) *serviceLab {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	s := &serviceLab{Lab: l, vpp: st.Nodes[0].VSwitch == lab.VPPVSwitch, addrs: map[string][]netip.Addr{}, nodes: map[string]string{}, outside: st.Underlay()}
	labtest.AwaitAddresses(t, l)
	pods := labtest.AddPods(t, l, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "near2", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"},
		lab.PodSpec{Name: "mate", Node: "node1"}, lab.PodSpec{Name: "other", Node: "node2"})
	for _, p := range pods[:3] {
		s.addrs[p.Name], s.nodes[p.Name] = labtest.GlobalAddresses(t, p.Netns), p.Node
		labtest.TellName(t, p.Netns, p.Name, 8080)
		labtest.TellName(t, p.Netns, p.Name+":8081", 8081)
		labtest.TellName(t, p.Netns, p.Name+":8082", 8082)
	}
	node1, node2 := l.Name()+"-node1", l.Name()+"-node2"
	s.clients = []client{
		{"a pod of the node", pods[3].Netns, "node1", true}, {"the endpoint itself", pods[0].Netns, "node1", true}, {"a process of the node", node1, "node1", false},
		{"a pod of another node", pods[4].Netns, "node2", true}, {"a process of another node", node2, "node2", false}, {"outside", s.outside, "", false},
	}
	s.nodeIPs = labtest.NodeAddresses(t, l, "node1")
	sh(t, s.outside, "ip address replace fd16::fe/112 dev nodes nodad")
	for _, to := range s.nodeIPs { // external addresses lead to node1
		network := "198.51.100.0/22"
		if to.Is6() {
			network = "2001:db8::/64"
		}
		sh(t, s.outside, fmt.Sprintf("ip route replace %s via %s", network, to))
	}
	for i, netns := range []string{node1, node2} { // the nodes have a default route only for IPv4
		if i == 1 || !s.vpp {
			sh(t, netns, "ip -6 route replace fd96::/108 dev eth0; ip -6 route replace 2001:db8::/64 dev eth0")
		}
	}
	if s.vpp {
		s.routeIPv6(t)
	}
	s.setZone(t, "node1", "east")
	s.setZone(t, "node2", "west")
	return s
}

func (s *serviceLab) routeIPv6(t *testing.T) {
	t.Helper()
	cmd := exec.Command(s.Program("contivctl"), "--config", s.CtlConfig(), "config", "apply", "-f", "-", "--node", "node1")
	cmd.Stdin = strings.NewReader("model: vpp.route\nvalue: {dst_network: '::/0', outgoing_interface: eth1, next_hop_addr: 'fd16::fe'}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func sh(t *testing.T, netns, script string) {
	t.Helper()
	if out, err := exec.Command("ip", "netns", "exec", netns, "sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s: %v: %s", netns, script, err, out)
	}
}

func (s *serviceLab) setZone(t *testing.T, node, zone string) {
	t.Helper()
	const label = "topology.kubernetes.io/zone: "
	if data, _ := os.ReadFile(s.Path("manifests", "node_"+node+".yaml")); !strings.Contains(string(data), label) {
		s.changeNode(t, node, "  labels:\n", "  labels:\n    "+label+zone+"\n")
	}
}

// serviceText is a service. Its number is the last part of its addresses and of its node port.
const serviceText = `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.%[1]d
  clusterIPs: [10.96.0.%[1]d, "fd96::%[1]d"]
  ipFamilies: [IPv4, IPv6]
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: web, nodePort: 300%[1]d}
  - {name: udp, protocol: UDP, port: 80, targetPort: web, nodePort: 300%[1]d}
  - {name: more, protocol: TCP, port: 81, targetPort: 8082, nodePort: 301%[1]d}
`

const sliceText = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s%[1]d-%[2]s-%[3]d, namespace: default, labels: {kubernetes.io/service-name: s%[1]d}}
addressType: %[4]s
ports: [{name: tcp, protocol: TCP, port: %[5]d}, {name: udp, protocol: UDP, port: %[5]d}, {name: more, protocol: TCP, port: 8082}]
endpoints:
`

type end struct {
	pod string
	// conditions and hints are YAML; "" means a ready endpoint without hints.
	conditions, hints string
	port              int // default 8080
}

func ready(pods ...string) (list []end) {
	for _, p := range pods {
		list = append(list, end{pod: p})
	}
	return list
}

const (
	notReady    = "{ready: false, serving: false, terminating: false}"
	terminating = "{ready: false, serving: true, terminating: true}"
	ended       = "{ready: false, serving: false, terminating: true}"
)

func forZones(names ...string) string { return "forZones: " + named(names) }
func forNodes(names ...string) string { return "forNodes: " + named(names) }

func named(names []string) string {
	var list []string
	for _, n := range names {
		list = append(list, "{name: "+n+"}")
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// service returns the objects of a service, with one slice per endpoint and IP version.
func (s *serviceLab) service(number int, spec string, ends ...end) string {
	text := fmt.Sprintf(serviceText, number)
	for line := range strings.Lines(spec) {
		text += "  " + strings.TrimSuffix(line, "\n") + "\n"
	}
	for i, e := range ends {
		if e.port == 0 {
			e.port = 8080
		}
		if e.conditions == "" {
			e.conditions = "{ready: true, serving: true}"
		}
		for _, addr := range s.addrs[e.pod] {
			version := "IPv4"
			if addr.Is6() {
				version = "IPv6"
			}
			text += fmt.Sprintf(sliceText, number, strings.ToLower(version), i, version, e.port)
			text += fmt.Sprintf("- {addresses: [\"%s\"], nodeName: %s, conditions: %s, hints: {%s}}\n", addr, s.nodes[e.pod], e.conditions, e.hints)
		}
	}
	return text
}

func clusterIP(number int, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd96::%d", number))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.96.0.%d", number))
}

func (s *serviceLab) nodeIP(ipv6 bool) netip.Addr {
	return s.nodeIPs[slices.IndexFunc(s.nodeIPs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
}

// ask is labtest.AskName. On VPP it retries from other client ports if the first one was used for
// another address of the endpoint: docs/user/vpp-limits.md.
func (s *serviceLab) ask(netns, network string, to netip.AddrPort) (h labtest.Told, err error) {
	for range 3 {
		if h, err = labtest.AskName(netns, network, to); !s.vpp || !timedOut(err) {
			break
		}
	}
	return h, err
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func (s *serviceLab) apply(t *testing.T, objects string) {
	t.Helper()
	labtest.Apply(t, s.Lab, objects)
	t.Cleanup(func() { labtest.Delete(t, s.Lab, objects) })
	s.settle(t)
}

func (s *serviceLab) settle(t *testing.T) {
	t.Helper()
	const last = 99
	canary := s.service(last, "", ready("near", "far")...)
	use := func(what string, want bool) {
		t.Helper()
		for _, c := range []client{s.clients[0], s.clients[3]} { // one pod per node
			for _, ipv6 := range []bool{false, true} {
				await.That(t, fmt.Sprintf("%s uses a %s service: %v", c.who, what, want), func() error {
					if _, err := labtest.AskName(c.netns, "tcp", netip.AddrPortFrom(clusterIP(last, ipv6), 80)); (err == nil) != want {
						return fmt.Errorf("it gets %v", err)
					}
					return nil
				})
			}
		}
	}
	labtest.Apply(t, s.Lab, canary)
	use("new", true)
	labtest.Delete(t, s.Lab, canary)
	use("former", false)
	labtest.RequireQuiet(t, s.Lab)
}
