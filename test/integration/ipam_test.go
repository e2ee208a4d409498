package integration

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// With Kubernetes' pod CIDRs and host-local IPAM, pods get addresses, reach each other, keep their
// addresses across a restart of the agent, and release them.
func TestExternalIPAM(t *testing.T) {
	require(t)
	requireDebianPlugins(t)
	l := labWith(t, "ipamConfig: {useExternalIPAM: true}")
	subnets := map[string]string{"node1": "10.1.77.0/24", "node2": "10.1.99.0/24"}
	sandboxes := map[string]*sandbox{}
	leases := t.TempDir()
	for _, node := range []string{"node1", "node2"} {
		assignPodCIDR(t, l, node, subnets[node])
		runtime := newRuntime(t, l, node, debianPlugins)
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "k8s-pod-network", "plugins": [
			{"type": "contiv-cni", "grpcServer": %q, "logFile": %q, "ipam": {"type": "host-local", "subnet": "usePodCidr", "dataDir": %q}}]}`,
			l.CNISocket(node), filepath.Join(leases, "log"), filepath.Join(leases, node)))
		if err != nil {
			t.Fatal(err)
		}
		await.That(t, "the agent of "+node+" knows its pod subnet", func() error {
			var report struct{ PodSubnetThisNode string }
			if err := l.Agent(node).Get(t.Context(), "/contiv/v1/ipam", &report); err != nil || report.PodSubnetThisNode != subnets[node] {
				return fmt.Errorf("it is %q: %w", report.PodSubnetThisNode, err)
			}
			return nil
		})
		sandboxes[node] = addSandbox(t, l, runtime, list, "ipam-"+node, nil)
	}
	ping := func() {
		t.Helper()
		await.That(t, "the pods reach each other", func() error {
			_, there := lab.Ping(t.Context(), sandboxes["node1"].endpoint(), sandboxes["node2"].endpoint())
			_, back := lab.Ping(t.Context(), sandboxes["node2"].endpoint(), sandboxes["node1"].endpoint())
			return errors.Join(there, back)
		})
	}
	ping()
	for node, s := range sandboxes {
		if address := s.endpoint().Address; !netip.MustParsePrefix(subnets[node]).Contains(address) {
			t.Errorf("pod on %s has address %v", node, address)
		}
		if err := s.check(t); err != nil {
			t.Errorf("CHECK on %s: %v", node, err)
		}
	}
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	ping()
	labtest.RequireQuiet(t, l)
	for node, s := range sandboxes {
		lease := filepath.Join(leases, node, "k8s-pod-network", s.endpoint().Address.String())
		if _, err := os.Stat(lease); err != nil {
			t.Error(err)
		}
		if err := s.del(); err != nil {
			t.Errorf("DEL on %s: %v", node, err)
		}
		if _, err := os.Stat(lease); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after DEL: %v", lease, err)
		}
	}
	labtest.RequireQuiet(t, l)
}

// With two pod CIDRs per node, pods get an address from each.
func TestExternalIPAMDualStack(t *testing.T) {
	require(t)
	requireDebianPlugins(t)
	l := labWith(t, `
ipamConfig:
  useExternalIPAM: true
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
`)
	prefixes := map[string][]string{"node1": {"10.1.77.", "fd10:1:0:77::"}, "node2": {"10.1.99.", "fd10:1:0:99::"}}
	leases := t.TempDir()
	var all []lab.Endpoint
	var added []*sandbox
	for _, node := range []string{"node1", "node2"} {
		assignPodCIDR(t, l, node, prefixes[node][0]+"0/24", prefixes[node][1]+"/64")
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "k8s-pod-network", "plugins": [
			{"type": "contiv-cni", "grpcServer": %q, "logFile": %q, "ipam": {"type": "host-local", "subnet": "usePodCidr", "dataDir": %q}}]}`,
			l.CNISocket(node), filepath.Join(leases, "log"), filepath.Join(leases, node)))
		if err != nil {
			t.Fatal(err)
		}
		await.That(t, "the agent of "+node+" knows its pod subnets", func() error {
			var report nodesync.NodesReport
			if err := l.Agent(node).Get(t.Context(), nodesync.NodesURL, &report); err != nil {
				return err
			}
			for _, n := range report.Nodes {
				if n.Name == node && len(n.PodCIDRs) == 2 {
					return nil
				}
			}
			return errors.New("it does not")
		})
		s := addSandbox(t, l, newRuntime(t, l, node, debianPlugins), list, "both-"+node, nil)
		added = append(added, s)
		ips := s.result.IPs
		if len(ips) != 2 || len(s.result.Routes) < 2 {
			t.Fatalf("on %s: %v, routes %v", node, ips, s.result.Routes)
		}
		for i, ip := range ips {
			if !strings.HasPrefix(ip.Address.String(), prefixes[node][i]) {
				t.Errorf("address %d on %s is %v, want %s…", i, node, &ip.Address, prefixes[node][i])
			}
			e := s.endpoint()
			e.Address, _ = netip.AddrFromSlice(ip.Address.IP)
			e.Address = e.Address.Unmap()
			all = append(all, e)
		}
	}
	await.That(t, "the pods reach each other by both addresses", func() error {
		var errs []error
		for i, from := range all {
			errs = append(errs, pingIn(t.Context(), from.Netns, all[(i+2)%len(all)].Address, 1400))
		}
		return errors.Join(errs...)
	})
	labtest.RequireQuiet(t, l)
	requireRestartWithoutOperations(t, l, "node1")
	for _, s := range added {
		if err := s.check(t); err != nil {
			t.Error(err)
		}
		if err := s.del(); err != nil {
			t.Error(err)
		}
	}
	labtest.RequireQuiet(t, l)
}

func assignPodCIDR(t *testing.T, l *lab.Lab, node string, subnets ...string) {
	t.Helper()
	file := l.Path("manifests", "node_"+node+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	assigned := bytes.Replace(data, []byte("spec: {}\n"), fmt.Appendf(nil, "spec: {podCIDR: %q, podCIDRs: [%s]}\n", subnets[0], strings.Join(subnets, ", ")), 1)
	if bytes.Equal(assigned, data) {
		t.Fatalf("%s has no empty spec:\n%s", file, data)
	}
	hidden := filepath.Join(filepath.Dir(file), ".new")
	if err := errors.Join(os.WriteFile(hidden, assigned, 0o600), os.Rename(hidden, file)); err != nil {
		t.Fatal(err)
	}
}
