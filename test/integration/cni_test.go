package integration

import (
	"context"
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
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// sandbox is a pod of a runtime without a Kubernetes object or an entry in the lab's state.
type sandbox struct {
	*libcni.RuntimeConf
	runtime *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	netns   string
	result  *types100.Result
}

func newRuntime(t *testing.T, l *lab.Lab, node string, dirs ...string) *libcni.CNIConfig {
	t.Helper()
	runtime, err := l.Runtime(node, t.TempDir(), append(dirs, binaries)...)
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

func conflist(t *testing.T, file string) *libcni.NetworkConfigList {
	t.Helper()
	list, err := libcni.ConfListFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func addSandbox(t *testing.T, l *lab.Lab, runtime *libcni.CNIConfig, list *libcni.NetworkConfigList, name string, capabilities map[string]any) *sandbox {
	t.Helper()
	s, err := tryAddSandbox(t, l, runtime, list, name, capabilities)
	if err != nil {
		t.Fatalf("ADD of %s: %v", name, err)
	}
	return s
}

func tryAddSandbox(t *testing.T, l *lab.Lab, runtime *libcni.CNIConfig, list *libcni.NetworkConfigList, name string, capabilities map[string]any) (*sandbox, error) {
	t.Helper()
	s := &sandbox{runtime: runtime, list: list, netns: l.Name() + "-" + name, RuntimeConf: &libcni.RuntimeConf{
		ContainerID: fmt.Sprintf("%s%d", name, time.Now().UnixNano()), NetNS: lab.NetnsPath(l.Name() + "-" + name), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "sandboxes"}, {"K8S_POD_NAME", name}}, CapabilityArgs: capabilities,
	}}
	if out, err := exec.Command("ip", "netns", "add", s.netns).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := s.del(); err != nil {
			t.Errorf("DEL of %s: %v", name, err)
		}
		exec.Command("ip", "netns", "del", s.netns).Run()
	})
	result, err := runtime.AddNetworkList(t.Context(), list, s.RuntimeConf)
	if err != nil {
		return nil, err
	}
	s.result, err = types100.NewResultFromResult(result)
	return s, err
}

func (s *sandbox) del() error {
	return s.runtime.DelNetworkList(context.Background(), s.list, s.RuntimeConf)
}

func (s *sandbox) check(t *testing.T) error {
	return s.runtime.CheckNetworkList(t.Context(), s.list, s.RuntimeConf)
}

func (s *sandbox) endpoint() lab.Endpoint {
	address, _ := netip.AddrFromSlice(s.result.IPs[0].Address.IP)
	return lab.Endpoint{Name: s.netns, Kind: lab.PodEndpoint, Netns: s.netns, Address: address.Unmap()}
}

func (s *sandbox) exec(t *testing.T, commands string) string {
	t.Helper()
	return command.In(t, s.netns, commands)
}

func code(err error) uint {
	var failure *types.Error
	if errors.As(err, &failure) {
		return failure.Code
	}
	if err != nil {
		return types.ErrUnknown + 9999
	}
	return 0
}

const debianPlugins = "/usr/lib/cni"

func requireDebianPlugins(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(debianPlugins, "portmap")); err != nil {
		t.Skipf("install the Debian package containernetworking-plugins, or run make packages: %v", err)
	}
}

// Chains the reference plugins after contiv-cni: host ports, bandwidth limits and sysctls must
// work, pass CHECK and be removed.
func TestChain(t *testing.T) {
	l := require(t)
	requireDebianPlugins(t)
	dir := t.TempDir()
	template := filepath.Join(dir, "template")
	if err := os.WriteFile(template, fmt.Appendf(nil, `{"name": "k8s-pod-network", "plugins": [
		{"type": "contiv-cni", "grpcServer": %q, "logFile": %q},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}},
		{"type": "bandwidth", "capabilities": {"bandwidth": true}},
		{"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.arp_announce": "2", "net.ipv4.icmp_echo_ignore_all": "1"}}]}`, l.CNISocket("node1"), filepath.Join(dir, "log")), 0o600); err != nil {
		t.Fatal(err)
	}
	bin, net := filepath.Join(dir, "bin"), filepath.Join(dir, "net.d")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range []string{"portmap", "bandwidth", "tuning"} {
		if err := os.Symlink(filepath.Join(debianPlugins, plugin), filepath.Join(bin, plugin)); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.Command(filepath.Join(binaries, "contiv-cni"), "install", "--once", "--bin-dir", bin, "--net-dir", net, "--conflist", template, "--socket", l.CNISocket("node1"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list, err := libcni.LoadConfList(net, "k8s-pod-network")
	if err != nil {
		t.Fatal(err)
	}
	runtime := newRuntime(t, l, "node1", bin)
	node := l.Name() + "-node1"
	rules := func() string { return command.In(t, node, "iptables-save | grep -i 'cni-dn' || true") }

	s := addSandbox(t, l, runtime, list, "chained", map[string]any{
		"portMappings": []map[string]any{{"hostPort": 18080, "containerPort": 80, "protocol": "tcp"}},
		"bandwidth":    map[string]any{"ingressRate": 8_000_000, "ingressBurst": 800_000, "egressRate": 8_000_000, "egressBurst": 800_000},
	})
	serve(t, s.netns, "80", "chained")
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	hostPort := netip.AddrPortFrom(nodes[0].Address.Addr(), 18080).String()
	client := pod(t, l, "client", "node1")
	for _, from := range []string{l.Name() + "-node2", l.Name() + "-outside", node, client.Netns, pod(t, l, "far-client", "node2").Netns} {
		if said, err := dial(t, from, hostPort); err != nil || said != "chained" {
			t.Errorf("host port from %s: %q, %v", from, said, err)
		}
	}
	host := s.result.Interfaces[0]
	if host.Sandbox != "" || !strings.Contains(command.In(t, node, "tc qdisc show dev "+host.Name), "tbf") {
		t.Errorf("no limit on the pod's device on the node, %+v", host)
	}
	// 1.5 MB are 12 Mbit; the burst covers 0.8 Mbit.
	for what, took := range map[string]time.Duration{
		"to the pod":   transfer(t, client.Netns, s.netns, s.endpoint().Address, 1_500_000),
		"from the pod": transfer(t, s.netns, client.Netns, client.Address, 1_500_000),
	} {
		if took < 1200*time.Millisecond {
			t.Errorf("1.5 MB %s took %s in spite of a limit of 8 Mbit/s", what, took)
		}
	}
	if got := strings.TrimSpace(s.exec(t, "cat /proc/sys/net/ipv4/conf/eth0/arp_announce")); got != "2" {
		t.Errorf("sysctl is %s", got)
	}
	if _, err := lab.Ping(t.Context(), client.Endpoint(), s.endpoint()); err == nil {
		t.Error("the pod answers pings, which a sysctl forbids")
	}
	if _, err := lab.Ping(t.Context(), s.endpoint(), client.Endpoint()); err != nil {
		t.Error(err)
	}
	// CHECK of Debian's portmap 1.1.1 requires IPv6 rules even for pods without IPv6.
	checked := *list
	checked.Plugins = slices.DeleteFunc(slices.Clone(list.Plugins), func(p *libcni.PluginConfig) bool { return p.Network.Type == "portmap" })
	if err := runtime.CheckNetworkList(t.Context(), &checked, s.RuntimeConf); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	labtest.RequireQuiet(t, l)
	if err := s.del(); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if left := rules(); left != "" {
		t.Errorf("after DEL: %s", left)
	}
	if links := command.In(t, node, "ip -o link"); strings.Contains(links, host.Name) || strings.Contains(links, "ifb") || strings.Contains(links, "bwp") {
		t.Errorf("after DEL: %s", links)
	}
	labtest.RequireQuiet(t, l)
}

func serve(t *testing.T, netns, port, word string) {
	t.Helper()
	var l net.Listener
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		l, err = net.Listen("tcp", ":"+port)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte(word))
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

func transfer(t *testing.T, from, to string, address netip.Addr, size int64) time.Duration {
	t.Helper()
	var l net.Listener
	err := lab.InNetns(lab.NetnsPath(to), func() (err error) {
		l, err = net.Listen("tcp", ":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conn net.Conn
	err = lab.InNetns(lab.NetnsPath(from), func() (err error) {
		conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(address, uint16(l.Addr().(*net.TCPAddr).Port)).String(), 3*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	go func() {
		conn.Write(make([]byte, size))
		conn.Close()
	}()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	server.SetDeadline(time.Now().Add(30 * time.Second))
	if n, err := io.Copy(io.Discard, server); err != nil || n != size {
		t.Fatalf("%d of %d bytes arrived: %v", n, size, err)
	}
	return time.Since(began)
}

func dial(t *testing.T, netns, address string) (string, error) {
	t.Helper()
	var conn net.Conn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 3*time.Second)
		return err
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Second))
	data := make([]byte, 100)
	n, err := conn.Read(data)
	return string(data[:n]), err
}

// CHECK fails for each damaged part of a pod's network, names it, and ignores damage to other pods.
// If the agent repairs the damage before CHECK, CHECK succeeds and everything must be restored.
func TestCheckIsTrue(t *testing.T) {
	l := require(t)
	runtime, list := newRuntime(t, l, "node1"), conflist(t, l.Conflist("node1"))
	intact := addSandbox(t, l, runtime, list, "intact", nil)
	const (
		everything = "set +e; ip -o link show eth0; ip -o addr show eth0; ip route; ip neigh; ip -o addr show lo; true"
		onNode     = "set +e; ip -o link show $DEV; ip route show $IP; ip neigh show $IP; true"
	)
	numbers := regexp.MustCompile(`(?m)^\d+: |@if\d+`)
	node := l.Name() + "-node1"
	for name, test := range map[string]struct{ damage, named string }{
		"route on the node":     {"node: ip route del $IP", "vrf/0/dst/$IP/32"},
		"neighbour on the node": {"node: ip neigh del $IP dev $DEV", "config/vpp/v2/arp/"},
		"device on the node":    {"node: ip link set $DEV down", "config/vpp/v2/interfaces/vpp-tap"},
		"address":               {"ip address del $IP/32 dev eth0", "address/static/"},
		"default route":         {"ip route del default", "route/0.0.0.0/0"},
		"link route":            {"ip route del default; ip route del $GW", "route/$GW/32"},
		"neighbour":             {"ip neigh del $GW dev eth0", "arp/"},
		"MAC address":           {"ip link set eth0 address 02:00:00:00:00:07", "linux-tap"},
		"MTU":                   {"ip link set eth0 mtu 1300", "linux-tap"},
		"state":                 {"ip link set eth0 down", "linux-tap"},
		"interface":             {"ip link del eth0", "linux-tap"},
		"loopback":              {"ip link set lo down", "linux-loop"},
	} {
		t.Run(name, func(t *testing.T) {
			s := addSandbox(t, l, runtime, list, "damaged", nil)
			if err := s.check(t); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			values := strings.NewReplacer("$IP", s.endpoint().Address.String(), "$GW", s.result.IPs[0].Gateway.String(), "$DEV", s.result.Interfaces[0].Name)
			state := func() string {
				found := s.exec(t, everything) + command.In(t, node, values.Replace(onNode))
				found = strings.ReplaceAll(found, " tentative", "") // an address is tentative during duplicate address detection
				return numbers.ReplaceAllString(found, "")          // a recreated device has another index
			}
			before := state()
			if damage, ok := strings.CutPrefix(values.Replace(test.damage), "node: "); ok {
				command.In(t, node, damage)
			} else {
				s.exec(t, damage)
			}
			err := s.check(t)
			if now := state(); err == nil && now != before {
				t.Errorf("CHECK succeeds; before:\n%s\nnow:\n%s", before, now)
			}
			if err != nil && (code(err) != 100 || !strings.Contains(err.Error(), values.Replace(test.named))) {
				t.Errorf("CHECK does not name %s: %v", test.named, err)
			}
			if err := intact.check(t); err != nil {
				t.Errorf("CHECK of another pod: %v", err)
			}
		})
	}
}

func TestGarbageIsCollected(t *testing.T) {
	l := require(t)
	list := conflist(t, l.Conflist("node1"))
	ours := pod(t, l, "not-garbage", "node1") // in the list of valid attachments below
	runtime := newRuntime(t, l, "node1")
	kept := addSandbox(t, l, runtime, list, "kept", nil)
	stale := addSandbox(t, l, runtime, list, "stale", nil)
	other := *list
	other.Name = "other-network"
	elsewhere := addSandbox(t, l, runtime, &other, "elsewhere", nil)

	// A runtime that has lost the stale pod never calls DEL for it.
	forgetful := newRuntime(t, l, "node1")
	valid := []types.GCAttachment{{ContainerID: kept.ContainerID, IfName: "eth0"}}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range st.PodsOf("node1") {
		valid = append(valid, types.GCAttachment{ContainerID: p.ContainerID, IfName: "eth0"})
	}
	if err := forgetful.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
		t.Fatal(err)
	}
	if links := stale.exec(t, "ip -o link"); strings.Contains(links, "eth0") {
		t.Errorf("the stale pod still has a network: %s", links)
	}
	if err := stale.check(t); code(err) == 0 {
		t.Error("CHECK of the stale pod succeeds")
	}
	for _, s := range []*sandbox{kept, elsewhere} {
		if err := s.check(t); err != nil {
			t.Errorf("CHECK of %s: %v", s.netns, err)
		}
		if _, err := lab.Ping(t.Context(), s.endpoint(), ours.Endpoint()); err != nil {
			t.Error(err)
		}
	}
	labtest.RequireQuiet(t, l)
}

func TestStatus(t *testing.T) {
	l := require(t)
	list := conflist(t, l.Conflist("node1"))
	runtime := newRuntime(t, l, "node1")
	if err := runtime.GetStatusNetworkList(t.Context(), list); err != nil {
		t.Errorf("of a node that works: %v", err)
	}

	// An agent without a mirror that never reached etcd.
	dir, netns := t.TempDir(), l.Name()+"-lonely"
	if out, err := exec.Command("ip", "netns", "add", netns).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", netns).Run() })
	command.In(t, netns, "ip link set lo up; ip link add eth0 type veth peer name wire; ip addr add 192.168.99.1/24 dev eth0; ip link set eth0 up; ip link set wire up")
	socket := filepath.Join(dir, "run", "cni.sock")
	status := func() error {
		data := fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"contiv-cni","grpcServer":%q,"logFile":%q}]}`, socket, filepath.Join(dir, "log"))
		parsed, err := libcni.NetworkConfFromBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.GetStatusNetworkList(t.Context(), parsed)
	}
	if err := status(); code(err) != types.ErrPluginNotAvailable || !strings.Contains(err.Error(), "not reachable") {
		t.Errorf("without an agent: %v", err)
	}
	agent := exec.Command(filepath.Join(binaries, "contiv-agent"), "--node-name", "lonely", "--etcd-endpoints", "http://127.0.0.1:1",
		"--run-dir", filepath.Dir(socket), "--bolt", filepath.Join(dir, "bolt.db"), "--http", "")
	if err := lab.InNetns(lab.NetnsPath(netns), agent.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	await.That(t, "the agent listens", func() error {
		_, err := os.Stat(socket)
		return err
	})
	await.That(t, "STATUS reports the startup resync", func() error {
		err := status()
		if code(err) == types.ErrPluginNotAvailable && strings.Contains(err.Error(), "startup resync") {
			return nil
		}
		return fmt.Errorf("STATUS: %w", err)
	})
}

func TestDELWithoutAgent(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node2")
	runtime, list := newRuntime(t, l, "node2"), conflist(t, l.Conflist("node2"))
	s := addSandbox(t, l, runtime, list, "departed", nil)
	if err := l.StopAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	defer l.StartAgent(context.Background(), "node2")
	if err := s.del(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "netns", "del", s.netns).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := l.StartAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	for _, v := range values(t, l, "node2") {
		if strings.Contains(v.Key, s.ContainerID) {
			t.Errorf("the agent still wants %s", v.Key)
		}
	}
	labtest.RequireQuiet(t, l)
	if after := deviceCount(t, l, "node2"); after != before {
		t.Errorf("node2 has %d devices, %d before the pod", after, before)
	}
}

func TestManyADDsAtOnce(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node1")
	const many = 32
	var specs []lab.PodSpec
	var ids []string
	for i := range many {
		specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("parallel%d", i), Node: "node1"})
		ids = append(ids, specs[i].Name)
	}
	began := time.Now()
	added, err := l.AddPods(t.Context(), many, specs...)
	t.Logf("%d pods after %s", len(added), time.Since(began).Round(time.Millisecond))
	defer l.DelPods(context.Background(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[netip.Addr]string{}
	for _, p := range added {
		if other := addresses[p.Address]; other != "" {
			t.Errorf("%s and %s have the address %s", other, p.Name, p.Address)
		}
		addresses[p.Address] = p.Name
		if _, err := l.CNI(t.Context(), "CHECK", p.ID()); err != nil {
			t.Errorf("CHECK of %s: %v", p.Name, err)
		}
	}
	requireConnected(t, l, added[0], added[many-1], pod(t, l, "beside", "node2"))
	labtest.RequireQuiet(t, l)
	if err := l.DelPods(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if after := deviceCount(t, l, "node1"); after != before {
		t.Errorf("node1 has %d devices, %d before the pods", after, before)
	}
	labtest.RequireQuiet(t, l)
}

// A failed ADD leaves nothing and does not affect concurrent ADDs.
func TestOneOfManyADDsFails(t *testing.T) {
	l := require(t)
	const many, failing = 32, 17
	var specs []lab.PodSpec
	var ids []string
	for i := range many {
		specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("one%d", i), Node: "node1"})
		ids = append(ids, specs[i].Name)
	}
	pods, err := l.AddPods(t.Context(), many, specs...)
	defer l.DelPods(context.Background(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
			t.Fatal(err)
		}
	}
	hostile := pods[failing]
	if _, err := l.Exec(t.Context(), hostile.ID(), "ip", "link", "add", "eth0", "type", "bridge"); err != nil {
		t.Fatal(err)
	}
	before := deviceCount(t, l, "node1")
	results := make([]error, many)
	var burst sync.WaitGroup
	for i, p := range pods {
		burst.Go(func() { pods[i].Address, results[i] = l.CNI(t.Context(), "ADD", p.ID()) })
	}
	burst.Wait()
	for i, p := range pods {
		switch {
		case i == failing && (results[i] == nil || !strings.Contains(results[i].Error(), "eth0")):
			t.Errorf("ADD of %s: %v, want an error that names the device in the way", p.Name, results[i])
		case i != failing && results[i] != nil:
			t.Errorf("ADD of %s: %v", p.Name, results[i])
		case i != failing:
			if _, err := l.CNI(t.Context(), "CHECK", p.ID()); err != nil {
				t.Errorf("CHECK of %s: %v", p.Name, err)
			}
		}
	}
	if after := deviceCount(t, l, "node1"); after != before+many-1 {
		t.Errorf("node1 has %d devices, %d before the burst", after, before)
	}
	if out, err := l.Exec(t.Context(), hostile.ID(), "ip", "-o", "link", "show", "type", "veth"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in the pod that could not be wired: %v, %s", err, out)
	}
	for _, v := range values(t, l, "node1") {
		if strings.Contains(v.Key, hostile.ContainerID) {
			t.Errorf("the agent still wants %s", v.Key)
		}
	}
	labtest.RequireQuiet(t, l)
	requireConnected(t, l, pods[0], pods[many-1])
	if _, err := l.Exec(t.Context(), hostile.ID(), "ip", "link", "del", "eth0"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CNI(t.Context(), "ADD", hostile.ID()); err != nil {
		t.Errorf("ADD of %s again: %v", hostile.Name, err)
	}
}
