package servicelab

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Settings is the service.conf of FollowSettings.
const Settings = ServiceConfig + "serviceLocalEndpointWeight: 9\nnodePortAddresses: [192.168.16.0/24]\n"

// FollowSettings checks settings of service.conf: the share of connections to local endpoints, and
// the addresses of node ports.
func FollowSettings(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	const number = 10
	s.apply(t, s.service(number, "", ready("near", "far")...))
	for _, from := range s.clients {
		for _, ipv6 := range []bool{false, true} {
			to := netip.AddrPortFrom(clusterIP(number, ipv6), 80)
			local := map[string]string{"node1": "near", "node2": "far"}[from.node]
			if from.node == "" {
				local = "near"
				to = netip.AddrPortFrom(s.nodeIP(ipv6), 30000+number)
				if ipv6 {
					if _, err := labtest.AskName(from.netns, "tcp", to); err == nil {
						t.Errorf("a node port is open on %v", to)
					}
					continue
				}
			}
			const calls = 300
			count := map[string]int{}
			for range calls {
				h, err := s.ask(from.netns, "udp", to)
				if err != nil {
					t.Fatalf("%s to %v: %v", from.who, to, err)
				}
				count[h.Name]++
			}
			// The expectation is 9 of 10 or 270, with a standard deviation of 5.
			if n := count[local]; n < 235 || n > 295 {
				t.Errorf("%s to %v: %v of %d, want about 9 of 10 by %s", from.who, to, count, calls, local)
			}
		}
	}
}

// NewNodeAddress adds an address to node1. Node ports must become available on it.
func NewNodeAddress(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	const number = 11
	s.apply(t, s.service(number, "", ready("near", "far")...))
	added := netip.MustParseAddr("192.168.16.77")
	sh(t, l.Name()+"-node1", fmt.Sprintf("ip address add %s/24 dev eth0", added))
	s.changeNode(t, "node1", "  addresses:\n", fmt.Sprintf("  addresses:\n  - {address: %s, type: ExternalIP}\n", added))
	for _, from := range s.clients {
		await.That(t, from.who+" uses a node port of the new address", func() error {
			_, err := labtest.AskName(from.netns, "tcp", netip.AddrPortFrom(added, 30000+number))
			return err
		})
	}
}

func (s *serviceLab) changeNode(t *testing.T, node, text, by string) {
	t.Helper()
	file := s.Path("manifests", "node_"+node+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), text, by, 1)
	if changed == string(data) {
		t.Fatalf("node %s has no %q:\n%s", node, text, data)
	}
	whole := s.Path("node.yaml") // write the file atomically for KSR
	if err := os.WriteFile(whole, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, file); err != nil {
		t.Fatal(err)
	}
}
