package kernel

import (
	"fmt"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// The kernel has one VXLAN device per VNI and IP version. When the source changes, its tunnels
// follow in one transaction, even with tunnels of the other IP version and a new tunnel with a
// smaller key.
func TestVXLANSourceChanges(t *testing.T) {
	tunnel := func(name, src, dst string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true, Link: &vpp_interfaces.Interface_Vxlan{
			Vxlan: &vpp_interfaces.VxlanLink{SrcAddress: src, DstAddress: dst, Vni: 10},
		}}
	}
	type tunnels []*vpp_interfaces.Interface
	const old4, new4, old6, new6 = "192.168.16.1", "192.168.16.77", "fd16::1", "fd16::77"
	peer4 := func(n int, src string) *vpp_interfaces.Interface {
		return tunnel(fmt.Sprintf("t%d", n), src, fmt.Sprintf("192.168.16.%d", n))
	}
	peer6 := func(n int, src string) *vpp_interfaces.Interface {
		return tunnel(fmt.Sprintf("t%d", n), src, fmt.Sprintf("fd16::%d", n))
	}
	for _, test := range []struct {
		name          string
		before, after tunnels
	}{
		{"IPv4 in addition to IPv6", tunnels{peer6(2, old6), peer4(3, old4), peer4(4, old4)}, tunnels{peer6(2, old6), peer4(3, new4), peer4(4, new4)}},
		{"IPv6 in addition to IPv4", tunnels{peer4(2, old4), peer6(3, old6), peer6(4, old6)}, tunnels{peer4(2, old4), peer6(3, new6), peer6(4, new6)}},
		{"both", tunnels{peer6(2, old6), peer4(3, old4), peer4(4, old4), peer6(5, old6)}, tunnels{peer6(2, new6), peer4(3, new4), peer4(4, new4), peer6(5, new6)}},
		{"peers move to the other version", tunnels{peer4(2, old4), peer4(3, old4), peer6(4, old6)}, tunnels{peer6(2, old6), peer4(3, new4), peer6(4, old6)}},
		{"a new peer first", tunnels{peer4(3, old4), peer4(4, old4)}, tunnels{peer4(2, new4), peer4(3, new4), peer4(4, new4)}},
		{"a new peer of one peer", tunnels{peer4(3, old4)}, tunnels{peer4(2, new4), peer4(3, new4)}},
		{"a new peer instead of one", tunnels{peer4(3, old4), peer4(4, old4)}, tunnels{peer4(2, new4), peer4(4, new4)}},
		{"a new peer of the other version", tunnels{peer4(3, old4), peer4(4, old4)}, tunnels{peer6(2, old6), peer4(3, new4), peer4(4, new4)}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", test.name, restart), func(t *testing.T) {
				n := newNode(t)
				n.Exec(t, "ip link set dev eth0 up")
				for _, addr := range []string{old4 + "/24", new4 + "/24", old6 + "/64", new6 + "/64"} {
					n.Exec(t, "ip addr add "+addr+" dev eth0")
				}
				v := openKernel(t, n)
				start := func() *kvscheduler.Scheduler {
					s := kvscheduler.New(kvscheduler.Options{})
					t.Cleanup(func() { s.Close() })
					check(t, descriptors.Register(s, v))
					return s
				}
				resync := func(s *kvscheduler.Scheduler, list tunnels) {
					t.Helper()
					txn := s.NewTransaction()
					for _, iface := range list {
						txn.Put(models.Key(iface), iface)
					}
					if _, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync)); err != nil {
						t.Error(err)
					}
				}
				s := start()
				resync(s, test.before)
				if restart {
					s.Close()
					v = openKernel(t, n)
					s = start()
				}
				resync(s, test.after)
				for _, iface := range test.after {
					link := iface.GetVxlan()
					entries := n.Exec(t, "bridge fdb show dev "+deviceWith(t, n.Exec(t, "ip -o -d link show type vxlan"), "local "+link.GetSrcAddress()+" "))
					if !strings.Contains(entries, " dst "+link.GetDstAddress()+" ") {
						t.Errorf("%s has no entry for %s:\n%s", iface.GetName(), link.GetDstAddress(), entries)
					}
				}
			})
		}
	}
}

func deviceWith(t *testing.T, links, text string) string {
	t.Helper()
	for line := range strings.Lines(links) {
		if strings.Contains(line, text) {
			return strings.TrimSuffix(strings.Fields(line)[1], ":")
		}
	}
	t.Fatalf("no device has %q:\n%s", text, links)
	return ""
}
