package kernel

import (
	"fmt"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func podSteps(v vswitch.VSwitch) (add, remove []func(t *testing.T) error) {
	tap, arp, route := podValues(0)
	add = []func(t *testing.T) error{
		func(t *testing.T) error { return v.Interfaces().Create(t.Context(), tap) },
		func(t *testing.T) error {
			return v.Interfaces().SetUnnumbered(t.Context(), tap.GetName(), vswitchtest.GatewayLoop)
		},
		func(t *testing.T) error { return v.Neighbours().Create(t.Context(), arp) },
		func(t *testing.T) error { return v.Routes().Create(t.Context(), route) },
		func(t *testing.T) error {
			_, err := v.Interfaces().Find(t.Context(), []*vpp_interfaces.Interface{tap})
			return err
		},
		func(t *testing.T) error {
			_, err := v.Routes().List(t.Context(), []*vpp_l3.Route{route})
			return err
		},
	}
	remove = []func(t *testing.T) error{
		func(t *testing.T) error { return v.Routes().Delete(t.Context(), route) },
		func(t *testing.T) error { return v.Neighbours().Delete(t.Context(), arp) },
		func(t *testing.T) error { return v.Interfaces().UnsetUnnumbered(t.Context(), tap.GetName()) },
		func(t *testing.T) error { return v.Interfaces().Delete(t.Context(), tap) },
	}
	return add, remove
}

// Whichever request to the kernel fails, repeating the operation succeeds. The pod is complete
// after its addition, and leaves no trace after its removal.
func TestAnyRequestMayFail(t *testing.T) {
	for name, fault := range map[string]error{"busy": unix.EBUSY, "no buffers": unix.ENOBUFS, "dump interrupted": netlink.ErrDumpInterrupted} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			v := openKernel(t, n)
			addGateway(t, v)
			before := n.Exec(t, "ip -o link show") + n.Exec(t, "ip route") + n.Exec(t, "ip neigh show nud permanent")
			add, remove := podSteps(v)
			failed, requests := true, 0
			defer func() { t.Logf("%d requests failed, one after the other", requests) }()
			for broken := 1; failed; broken++ {
				requests = broken - 1
				failed = false
				calls := 0
				broke := ""
				v.Net.InjectFaults(func(call string) error {
					if calls++; calls == broken {
						failed, broke = true, call
						return fault
					}
					return nil
				})
				run := func(steps []func(*testing.T) error) {
					for i, step := range steps {
						if err := step(t); err == nil {
							continue
						} else if again := step(t); again != nil {
							t.Fatalf("request %d (%s) fails, step %d: %v, and repeated: %v", broken, broke, i, err, again)
						}
					}
				}
				run(add)
				if found := findPod(t, v, 0); len(found) != 3 {
					t.Fatalf("request %d (%s) fails: the pod is %v", broken, broke, found)
				}
				run(remove)
				v.Net.InjectFaults(nil)
				if after := n.Exec(t, "ip -o link show") + n.Exec(t, "ip route") + n.Exec(t, "ip neigh show nud permanent"); withoutCounters(after) != withoutCounters(before) {
					t.Fatalf("request %d (%s) fails: was\n%sand is\n%s", broken, broke, before, after)
				}
			}
		})
	}
}

func withoutCounters(listing string) string {
	var kept []string
	for line := range strings.Lines(listing) {
		if strings.HasPrefix(line, "Error: Peer netns reference") {
			continue // ip scans /run/netns while other tests remove theirs
		}
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(fields[1], ":") {
			line = fields[1] + "\n" // a device: its name
		}
		kept = append(kept, line)
	}
	return fmt.Sprint(kept)
}
