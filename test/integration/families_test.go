package integration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Pods with IPv6 or both IP versions, over each transport and with nodes connected by either
// version.
func TestIPVersions(t *testing.T) {
	require(t)
	for _, test := range []struct {
		name, config string
		addresses    []string // prefixes of pod addresses
		mtu          int
	}{
		{"dual-stack, VXLAN over IPv4", `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
`, []string{"10.1.", "fd10:1:"}, 1450},
		{"IPv6 only, VXLAN over IPv6", `
ipamConfig:
  podSubnetCIDR: fd10:1::/48
  podSubnetOneNodePrefixLen: 64
  vxlanCIDR: fd30::/112
  nodeInterconnectCIDR: fd16::/112
  serviceCIDR: fd96::/108
`, []string{"fd10:1:"}, 1430},
		{"dual-stack with IPv6 first, no overlay", `
nodeToNodeTransport: nooverlay
ipamConfig:
  contivCIDR: fd10::/64,10.128.0.0/14
  nodeInterconnectCIDR: fd16::/112
`, []string{"fd10::", "10.128."}, 1500},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options("ip")
			opts.ContivConfig, opts.ServiceConfig = test.config, "services: vswitch\n"
			l := labtest.Up(t, opts)
			added := labtest.AddPods(t, l,
				lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "b1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
			labtest.AwaitAddresses(t, l)
			var pods []lab.Endpoint
			for _, p := range added {
				pods = append(pods, endpoints(t, l, p, test.addresses)...)
			}
			requirePackets(t, l, pods, test.mtu)
			labtest.RequireQuiet(t, l)
			requireRestartWithoutOperations(t, l, "node1")
			requirePackets(t, l, pods, test.mtu)
			requireHostPorts(t, l)
			if strings.Contains(test.config, "serviceCIDR: fd96::") {
				requireServiceOverIPv6(t, l, added[0], added[2])
			}
		})
	}
}

// In a lab with IPv6, all nodes have IPv6, also nodes that join later. Services get the IP versions
// that they request.
func TestLabsWithIPv6(t *testing.T) {
	require(t)
	for _, test := range []struct {
		name      string
		set       func(*lab.Options)
		clusterIP string
		measure   []func(*lab.Lab, context.Context, ...string) (*lab.Matrix, error)
	}{
		{"dual-stack", func(o *lab.Options) { o.DualStack = true }, "10.96.0.100, fd96::64",
			[]func(*lab.Lab, context.Context, ...string) (*lab.Matrix, error){(*lab.Lab).Matrix, (*lab.Lab).MatrixIPv6}},
		{"IPv6 only", func(o *lab.Options) { o.IPv6 = true }, "fd96::64",
			[]func(*lab.Lab, context.Context, ...string) (*lab.Matrix, error){(*lab.Lab).Matrix}},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options("ds")
			test.set(&opts)
			l := labtest.Up(t, opts)
			if _, err := l.AddNode(t.Context(), "late"); err != nil {
				t.Fatal(err)
			}
			added := labtest.AddPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "late"})
			labtest.AwaitAddresses(t, l)
			for _, matrix := range test.measure {
				await.That(t, "all paths work", func() error {
					m, err := matrix(l, t.Context())
					if err != nil {
						return err
					}
					return m.Err()
				})
			}
			file := filepath.Join(t.TempDir(), "service.yaml")
			if err := os.WriteFile(file, []byte("kind: Service\napiVersion: v1\nmetadata: {name: web}\nspec: {ipFamilyPolicy: PreferDualStack, selector: {app: a}, ports: [{port: 80}]}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if done, err := l.Apply(t.Context(), file); err != nil || !strings.HasSuffix(done[0], "cluster IP "+test.clusterIP) {
				t.Errorf("%q, %v", done, err)
			}
			labtest.RequireQuiet(t, l)
			if opts.IPv6 {
				requireServiceOverIPv6(t, l, added[0], added[1])
				requireRestartWithoutOperations(t, l, "late")
			}
		})
	}
}

// Outside hosts have no routes to pods. They answer IPv6 packets of pods only if SNAT has given
// them a node's address.
func TestIPv6ToTheOutside(t *testing.T) {
	require(t)
	config := `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
`
	l := labWith(t, config+"natExternalTrafficIPv6: true\n")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	command.In(t, st.Underlay(), "ip address add fd16::fe/112 dev nodes nodad; ip address add fd20::1/128 dev lo nodad")
	a1 := pod(t, l, "a1", "node1")
	labtest.AwaitAddresses(t, l)
	outside := netip.MustParseAddr("fd20::1")
	await.That(t, "the pod reaches the outside over IPv6", func() error { return pingIn(t.Context(), a1.Netns, outside, 1400) })
	if err := pingIn(t.Context(), a1.Netns, lab.OutsideAddress.Addr(), 1400); err != nil {
		t.Errorf("over IPv4: %v", err)
	}
	labtest.RequireQuiet(t, l)
	requireRestartWithoutOperations(t, l, "node1")

	command.In(t, st.Nodes[0].Netns, "nft delete table ip6 contiv")
	await.That(t, "the agent notices that the rules are gone", func() error { return pingIn(t.Context(), a1.Netns, outside, 1400) })

	if err := errors.Join(l.StopAgent(t.Context(), "node1"),
		os.WriteFile(l.Path("nodes", "node1", "contiv.conf"), []byte(config), 0o600), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	if err := pingIn(t.Context(), a1.Netns, outside, 1400); err == nil {
		t.Error("the pod reaches the outside over IPv6 without translation, though no host has a route back")
	}
	labtest.RequireQuiet(t, l)
}

func labWith(t *testing.T, config string) *lab.Lab {
	t.Helper()
	opts := options("ip")
	opts.ContivConfig = config
	return labtest.Up(t, opts)
}

// endpoints returns one endpoint per address of the pod and checks the prefixes of the addresses.
func endpoints(t *testing.T, l *lab.Lab, p lab.Pod, prefixes []string) []lab.Endpoint {
	t.Helper()
	var report ipnet.PodsReport
	if err := l.Agent(p.Node).Get(t.Context(), ipnet.PodsURL, &report); err != nil {
		t.Fatal(err)
	}
	var list []lab.Endpoint
	for _, r := range report.Pods {
		if r.Name != p.Name {
			continue
		}
		for _, ip := range r.IPs {
			e := p.Endpoint()
			e.Address = netip.MustParsePrefix(ip).Addr()
			list = append(list, e)
		}
	}
	if len(list) != len(prefixes) {
		t.Fatalf("pod %s has the addresses %v, want %d", p.ID(), list, len(prefixes))
	}
	for i, e := range list {
		if !strings.HasPrefix(e.Address.String(), prefixes[i]) {
			t.Errorf("address %d of pod %s is %v, want %s…", i, p.ID(), e.Address, prefixes[i])
		}
	}
	return list
}

// requirePackets sends small packets and packets of MTU size from each endpoint to each address of
// each pod.
func requirePackets(t *testing.T, l *lab.Lab, pods []lab.Endpoint, mtu int) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	senders := map[string]string{}
	for _, n := range nodes {
		senders[n.Name] = n.Netns
	}
	for _, p := range pods {
		senders[p.Name] = p.Netns
	}
	for name, netns := range senders {
		for _, to := range pods {
			if netns == to.Netns {
				continue
			}
			if err := pingIn(t.Context(), netns, to.Address, mtu); err != nil {
				t.Errorf("%s → %s (%v): %v", name, to.Name, to.Address, err)
			}
		}
	}
}

func pingIn(ctx context.Context, netns string, to netip.Addr, mtu int) error {
	headers := 28
	if to.Is6() {
		headers = 48
	}
	var errs []error
	for _, size := range []int{56, mtu - headers} {
		out, err := exec.CommandContext(ctx, "ip", "netns", "exec", netns, "ping", "-n", "-q", "-M", "do", "-s", fmt.Sprint(size), "-c2", "-i0.02", "-W2", to.String()).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("%d bytes: %w: %s", size, err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

func requireRestartWithoutOperations(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	if err := errors.Join(l.StopAgent(t.Context(), node), l.StartAgent(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	txns, err := l.Agent(node).Transactions(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range lab.Operations(txns...) {
		t.Errorf("%s executed after a restart: %v %s: %v → %v", node, op.Operation, op.Key, op.PrevValue, op.NewValue)
	}
}
