package vpp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/servicelab"
	corev1 "k8s.io/api/core/v1"
)

const servicesConfig = bothVersions + "  serviceCIDR: 10.96.0.0/12,fd96::/108\nrouteServiceCIDRToVPP: true\n"

const serviceManifest = `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.%[2]d
  clusterIPs: [10.96.0.%[2]d, "fd96::%[2]d"]
  ipFamilies: [IPv4, IPv6]
  externalTrafficPolicy: %[3]s
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: %[4]d, nodePort: 300%[2]d}
  - {name: udp, protocol: UDP, port: 80, targetPort: %[4]d, nodePort: 300%[2]d}
`

const sliceManifest = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[6]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: %[2]s
ports: [{name: tcp, protocol: TCP, port: %[3]d}, {name: udp, protocol: UDP, port: %[3]d}]
endpoints: [{addresses: ["%[4]s"], nodeName: %[5]s, conditions: {ready: true}}]
`

const kubeProxyRules = "add table ip kube-proxy; add chain ip kube-proxy services; add rule ip kube-proxy services counter"

type served struct {
	name   string
	number int // the last part of its cluster IPs and of its node port
	policy string
	port   int
	node   string
	addrs  []netip.Addr // of the endpoint, by IP version
}

func (s served) manifest() string {
	text := fmt.Sprintf(serviceManifest, s.name, s.number, s.policy, s.port)
	for _, a := range s.addrs {
		version := "IPv4"
		if a.Is6() {
			version = "IPv6"
		}
		text += fmt.Sprintf(sliceManifest, s.name, version, s.port, a, s.node, strings.ToLower(version))
	}
	return text
}

func (s served) clusterIP(ipv6 bool) netip.AddrPort {
	text := fmt.Sprintf("10.96.0.%d", s.number)
	if ipv6 {
		text = fmt.Sprintf("fd96::%d", s.number)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(text), 80)
}

func (s served) nodePort(node netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(node, uint16(30000+s.number))
}

const (
	clients = "the client's" // the client's address
	hidden  = "the node's"   // the last address but one of the node's pod subnet
	anyones = ""
)

// Services with cnat on a VPP node over IPv4 and IPv6, TCP and UDP, for each kind of client, across
// restarts of the agent and of VPP. Node 2 uses the kernel.
func TestServices(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp", "kernel")
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	a, b, c := pods[0], pods[1], pods[2]
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	const port, hostPort = 8080, 8081
	for _, p := range []lab.Pod{a, c} {
		labtest.TellPeers(t, p.Netns, port)
	}
	labtest.TellPeers(t, node1.Netns, hostPort)
	local := served{name: "local", number: 10, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, a)}
	far := served{name: "far", number: 11, policy: "Cluster", port: port, node: "node2", addrs: globalAddresses(t, c)}
	keeps := local
	keeps.name, keeps.number, keeps.policy = "keeps", 12, "Local"
	onHost := served{name: "on-host", number: 13, policy: "Cluster", port: hostPort, node: "node1", addrs: []netip.Addr{node1.Address.Addr()}}
	none := served{name: "none", number: 14, policy: "Cluster", port: port}
	apply(t, l, local, far, keeps, onHost, none)

	vppIP := labtest.NodeAddresses(t, l, "node1")
	underlay := st.Underlay()
	check := func(when string) {
		t.Helper()
		for _, way := range []struct {
			who, netns string
			to         served
			nodePort   bool
			seen       string
		}{
			{"a pod of the node", b.Netns, local, false, clients},
			{"a pod of the node", b.Netns, local, true, clients},
			{"a pod of the node", b.Netns, far, false, clients},
			{"a pod of the node", b.Netns, far, true, clients},
			{"a pod of the node", b.Netns, keeps, false, clients},
			{"a pod of the node", b.Netns, keeps, true, clients},
			{"a pod of the node", b.Netns, onHost, false, clients},
			{"the endpoint itself", a.Netns, local, false, hidden},
			{"a pod of another node", c.Netns, local, false, clients},
			{"a pod of another node", c.Netns, local, true, anyones},
			{"a pod of another node", c.Netns, onHost, false, anyones},
			{"a pod of another node", c.Netns, keeps, false, clients},
			{"a pod of another node", c.Netns, keeps, true, anyones}, // SNAT of its node applies to IPv4
			// Includes pods on the host network.
			{"a process of the node", node1.Netns, local, false, clients},
			{"a process of the node", node1.Netns, local, true, hidden}, // through eth0 of the host, from outside of VPP
			{"a process of the node", node1.Netns, far, false, clients},
			{"a process of another node", l.Name() + "-node2", local, false, anyones},
			{"a process of another node", l.Name() + "-node2", local, true, hidden},
			{"a process of another node", l.Name() + "-node2", keeps, false, anyones},
			{"a process of another node", l.Name() + "-node2", keeps, true, clients},
			{"a process of the node", node1.Netns, keeps, true, clients},
			{"outside", underlay, local, true, hidden},
			{"outside", underlay, far, true, hidden},
			{"outside", underlay, keeps, true, clients},
		} {
			for _, node := range vppIP {
				if node.Is6() && (way.to.name == onHost.name || way.netns == node1.Netns && way.nodePort) {
					continue // the host's eth0 has no IPv6 address
				}
				to := way.to.clusterIP(node.Is6())
				if way.nodePort {
					to = way.to.nodePort(node)
				}
				for _, network := range []string{"tcp", "udp"} {
					if network == "udp" && way.to.name == onHost.name {
						continue // the host replies from its address towards VPP, as without a service
					}
					own, seen, err := labtest.AskPeer(way.netns, network, to)
					want := own
					if way.seen == hidden {
						want = loopback(node.Is6())
					}
					switch {
					case err != nil:
						t.Errorf("%s: %s, %s to %s (%s): %v", when, way.who, network, way.to.name, to, err)
					case way.seen != anyones && seen != want:
						t.Errorf("%s: %s, %s to %s (%s): the endpoint sees %v, want %s: %v", when, way.who, network, way.to.name, to, seen, way.seen, want)
					}
				}
			}
		}
		for who, netns := range map[string]string{"a pod": b.Netns, "a process": node1.Netns} {
			for _, ipv6 := range []bool{false, true} {
				for what, to := range map[string]netip.AddrPort{
					"a service without endpoints": none.clusterIP(ipv6),
					"a port of no service":        served{number: 99}.clusterIP(ipv6),
				} {
					begun := time.Now()
					_, _, err := labtest.AskPeer(netns, "tcp", to)
					refused := errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ECONNREFUSED)
					if took := time.Since(begun); !refused || took > 2*time.Second {
						t.Errorf("%s: %s to %s (%v): %v after %v, want it refused at once", when, who, what, to, err, took)
					}
				}
			}
		}
	}
	await.That(t, "services are there", func() error {
		_, _, err := labtest.AskPeer(b.Netns, "tcp", far.clusterIP(false))
		return err
	})
	labtest.RequireQuiet(t, l)
	check("at first")

	labtest.RequireQuietRestart(t, l, "node1")
	check("after a restart of the agent")

	if err := l.KillVPP(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	labtest.RequireQuiet(t, l)
	for _, netns := range []string{underlay, l.Name() + "-node2"} {
		for _, node := range vppIP {
			await.That(t, "neighbours learn the hardware address of the new VPP", func() error {
				_, _, err := labtest.AskPeer(netns, "tcp", local.nodePort(node))
				return err
			})
		}
	}
	check("after a restart of VPP")
}

// By default, VPP translates services unless kube-proxy does. It stops when kube-proxy starts and
// resumes afterwards. Pod connectivity and host ports always work.
func TestServicesAreLeftToKubeProxy(t *testing.T) {
	l := upServices(t, servicesConfig, "services: auto\ntcpNATSessionTimeout: 7200\notherNATSessionTimeout: 60\n", "vpp", "kernel") // VPP starts with timeouts
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"})
	a, b := pods[0], pods[1]
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	const port, hostPort, only4, only6 = 8080, 18080, 18084, 18086
	open := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", Ports: []corev1.ContainerPort{
		{HostPort: hostPort, ContainerPort: port, Protocol: corev1.ProtocolTCP}, {HostPort: hostPort, ContainerPort: port, Protocol: corev1.ProtocolUDP},
		{HostIP: labtest.NodeAddresses(t, l, "node1")[0].String(), HostPort: only4, ContainerPort: port, Protocol: corev1.ProtocolTCP},
		{HostIP: "::", HostPort: only6, ContainerPort: port, Protocol: corev1.ProtocolUDP},
	}}}}}
	c := addPods(t, l, lab.PodSpec{Name: "c", Node: "node1", Template: open})[0]
	labtest.TellPeers(t, c.Netns, port)
	requireHostPort := func(when string) {
		t.Helper()
		for _, node := range labtest.NodeAddresses(t, l, "node1") {
			for who, netns := range map[string]string{"a pod of the node": b.Netns, "outside": st.Underlay(), "another node": l.Name() + "-node2", "the pod itself": c.Netns} {
				for _, network := range []string{"tcp", "udp"} {
					own, seen, err := labtest.AskPeer(netns, network, netip.AddrPortFrom(node, hostPort))
					want := own
					if who == "the pod itself" {
						want = loopback(node.Is6())
					}
					if err != nil || seen != want {
						t.Errorf("%s, host port %s:%d/%s from %s: %v, the pod sees %v, want %v", when, node, hostPort, network, who, err, seen, want)
					}
				}
			}
			for _, netns := range []string{b.Netns, st.Underlay()} {
				if _, _, err := labtest.AskPeer(netns, "tcp", netip.AddrPortFrom(node, only4)); (err == nil) != node.Is4() {
					t.Errorf("%s, host port of an address of IPv4, at %s from %s: %v", when, node, netns, err)
				}
				if _, _, err := labtest.AskPeer(netns, "udp", netip.AddrPortFrom(node, only6)); (err == nil) != node.Is6() {
					t.Errorf("%s, host port of all addresses of IPv6, at %s from %s: %v", when, node, netns, err)
				}
			}
		}
	}
	labtest.TellPeers(t, a.Netns, port)
	web := served{name: "web", number: 10, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, a)}
	apply(t, l, web)
	nft := func(command string) {
		t.Helper()
		if out, err := exec.Command("ip", "netns", "exec", node1.Netns, "nft", command).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v: %s", command, err, out)
		}
	}
	requireTranslated := func(when string, want bool) {
		t.Helper()
		for _, ipv6 := range []bool{false, true} {
			await.That(t, fmt.Sprintf("%s, VPP translates %s: %v", when, web.clusterIP(ipv6), want), func() error {
				_, _, err := labtest.AskPeer(b.Netns, "tcp", web.clusterIP(ipv6))
				if (err == nil) != want {
					return fmt.Errorf("a pod that asks the service: %v", err)
				}
				return nil
			})
		}
		for _, addr := range web.addrs {
			// Not from b, because its source port may match an old session of the service in VPP.
			if _, _, err := labtest.AskPeer(c.Netns, "tcp", netip.AddrPortFrom(addr, port)); err != nil {
				t.Errorf("%s, from pod to pod: %v", when, err)
			}
		}
		labtest.RequireQuiet(t, l)
		requireHostPort(when)
	}
	requireTranslated("without kube-proxy", true)
	nft(kubeProxyRules)
	requireTranslated("beside kube-proxy", false)
	nft("delete table ip kube-proxy")
	requireTranslated("after kube-proxy", true)
	if n := natSessions(t, l); n == 0 {
		t.Error("the metric natSessions of node1 counts none")
	}
}

func TestServicesUseEndpoints(t *testing.T) {
	l := upServices(t, servicelab.Config, servicelab.ServiceConfig, "vpp", "kernel")
	t.Run("endpoints", func(t *testing.T) { servicelab.Endpoints(t, l) })
	t.Run("load balancers", func(t *testing.T) { servicelab.LoadBalancers(t, l) })
	t.Run("session affinity", func(t *testing.T) { servicelab.Affinity(t, l) })
	t.Run("removed endpoints", func(t *testing.T) { servicelab.RemovedEndpoints(t, l) })
}

func TestServiceConfig(t *testing.T) {
	servicelab.FollowSettings(t, upServices(t, servicelab.Config, servicelab.Settings, "vpp", "kernel"))
}

// upServices is upWith with a service.conf. The router has an IPv6 address.
func upServices(t *testing.T, config, services string, vswitches ...string) *lab.Lab {
	t.Helper()
	opts := options(t, vswitches...)
	opts.ContivConfig, opts.ServiceConfig = config, services
	l := labtest.Up(t, opts)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "-n", st.Underlay(), "address", "add", "fd16::fe/112", "dev", "nodes", "nodad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	labtest.AwaitAddresses(t, l) // VPP cannot resolve a client whose first packet has another source: docs/design/services.md
	return l
}

func apply(t *testing.T, l *lab.Lab, services ...served) {
	t.Helper()
	var text strings.Builder
	for _, s := range services {
		text.WriteString(s.manifest())
	}
	file := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

func loopback(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr("fd10:1:0:1:ffff:ffff:ffff:fffe")
	}
	return netip.MustParseAddr("10.1.1.254")
}

func globalAddresses(t *testing.T, pod lab.Pod) (list []netip.Addr) {
	t.Helper()
	err := lab.InNetns(lab.NetnsPath(pod.Netns), func() error {
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := eth0.Addrs()
		for _, a := range addrs {
			if p := netip.MustParsePrefix(a.String()); p.Addr().IsGlobalUnicast() {
				list = append(list, p.Addr())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

func TestServicesUnderChurn(t *testing.T) {
	servicelab.Churn(t, upServices(t, servicelab.Config, servicelab.ServiceConfig, "vpp", "kernel"))
}
