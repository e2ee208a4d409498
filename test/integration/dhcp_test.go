package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// A node gets its address by DHCP. The server starts after the agent and later leases another
// address. A restart of the agent sends it no messages.
func TestNodeAddressByDHCP(t *testing.T) {
	require(t)
	l := labWith(t, "")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	added := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
	if err := ping(t, added[0], added[1]); err != nil {
		t.Fatal(err)
	}
	node1 := st.Nodes[0].Netns
	server := vswitchtest.NewDHCPServer(t, &vswitchtest.Host{NetNS: lab.NetnsPath(st.Underlay())}, "nodes", lab.RouterAddress.Addr())
	lease := func(last int, length time.Duration) string {
		address := fmt.Sprintf("192.168.16.%d/24", last)
		server.Up(t, vswitchtest.DHCPOffer{Address: netip.MustParsePrefix(address), Router: lab.RouterAddress.Addr(), Length: length})
		return address
	}
	follows := func(address string) {
		t.Helper()
		await.That(t, "node2 knows node1 by "+address, func() error {
			var report nodesync.NodesReport
			if err := l.Agent("node2").Get(t.Context(), nodesync.NodesURL, &report); err != nil {
				return err
			}
			for _, n := range report.Nodes {
				if n.Name == "node1" && slices.Contains(n.VPPIPs, address) {
					return nil
				}
			}
			return errors.New("it does not")
		})
		await.That(t, "packets between the nodes' pods", func() error { return ping(t, added[0], added[1]) })
		if _, err = lab.Ping(t.Context(), added[0].Endpoint(), lab.Endpoint{Address: lab.OutsideAddress.Addr()}); err != nil {
			t.Errorf("the pod does not reach the outside, by the leased default route: %v", err)
		}
		if out := command.In(t, node1, "ip -4 address show dev eth0"); !strings.Contains(out, address) || strings.Count(out, "inet ") != 1 {
			t.Errorf("addresses: %s", out)
		}
	}

	// Without a DHCP server, the agent uses its last lease.
	if err := l.StopAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	command.In(t, node1, "ip address flush dev eth0")
	config := "nodeConfig:\n- {nodeName: node1, mainVPPInterface: {interfaceName: eth0, useDHCP: true}}\n"
	if err := os.WriteFile(l.Path("nodes", "node1", "contiv.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	address := lease(71, 8*time.Second)
	tellKubernetes(t, l, "node1", address)
	follows(address)
	follows(lease(72, time.Hour))
	labtest.RequireQuiet(t, l)

	flow, end := traffic(t, added[0], added[1].Endpoint())
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	flow(100)
	if err := errors.Join(l.KillAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	flow(100)
	end()
	follows("192.168.16.72/24")
	labtest.RequireQuiet(t, l)
}

func tellKubernetes(t *testing.T, l *lab.Lab, node, address string) {
	t.Helper()
	file := l.Path("manifests", "node_"+node+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`address: 192\.168\.16\.\d+`)
	if !known.Match(data) {
		t.Fatalf("%s has no address:\n%s", file, data)
	}
	told := known.ReplaceAll(data, []byte("address: "+netip.MustParsePrefix(address).Addr().String()))
	hidden := filepath.Join(filepath.Dir(file), ".new")
	if err := errors.Join(os.WriteFile(hidden, told, 0o600), os.Rename(hidden, file)); err != nil {
		t.Fatal(err)
	}
}
