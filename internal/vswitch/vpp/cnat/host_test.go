package cnat

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"golang.org/x/sys/unix"
)

// With more flows than rules, rules of silenced flows stay, and each other flow follows when one
// moves.
func TestRulesOfManyFlows(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	flows := func(from, to uint16, tcp bool) (list []subsystem.Flow) {
		for port := from; port < to; port++ {
			list = append(list, subsystem.Flow{From: netip.AddrPortFrom(netip.MustParseAddr("172.30.1.2"), port), To: netip.MustParseAddrPort("10.96.0.10:53"), TCP: tcp})
		}
		return list
	}
	second := flows(2000, 2000+maxOfHost, false)
	tcp := flows(2001, 2002, true)
	err := namespace.InNew(func() error {
		h, err := hostdev.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer h.Close()
		for _, step := range []struct {
			what         string
			flows, rules []subsystem.Flow
		}{
			{"at first", second, second},
			{"flows come before them", slices.Concat(flows(1000, 1010, false), second, tcp), second},
			{"two of them move", slices.Concat(flows(1000, 1010, false), second[2:], tcp), slices.Concat(flows(1000, 1002, false), second[2:])},
			{"one is left of each protocol", slices.Concat(second[1:2], tcp), slices.Concat(second[1:2], tcp)},
			{"all move", nil, nil},
		} {
			n, err := setRules(h, unix.AF_INET, step.flows)
			if err != nil {
				return err
			}
			rules, err := h.RuleList(unix.AF_INET)
			if err != nil {
				return err
			}
			have := map[terms]bool{}
			for _, r := range rules {
				if about, ours := readTerms(r); ours {
					have[about] = true
				}
			}
			missing := 0
			for _, f := range step.rules {
				if !have[termsOf(f)] {
					missing++
				}
			}
			if n != len(step.rules) || len(have) != n || missing > 0 {
				t.Errorf("%s: %d are silent, by %d rules; want %d, of which %d are missing", step.what, n, len(have), len(step.rules), missing)
			}
		}
		return nil
	})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("making network namespaces takes CAP_SYS_ADMIN: run the test with it (%v)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
