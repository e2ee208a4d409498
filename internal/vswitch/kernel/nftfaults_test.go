package kernel

import (
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/test/locked"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

type nftSteps struct{ add, remove []func(t *testing.T) error }

func nftStepsOf(v vswitch.VSwitch) map[string]nftSteps {
	steps := func(list ...func(t *testing.T) error) []func(t *testing.T) error { return list }
	set := func(values ...proto.Message) func(t *testing.T) error {
		return func(t *testing.T) error { return v.Filter().Set(t.Context(), values...) }
	}
	unset := func(values ...proto.Message) func(t *testing.T) error {
		return func(t *testing.T) error { return v.Filter().Remove(t.Context(), values...) }
	}
	clients := &contiv_filter.AddressSet{Name: "clients", Addresses: []string{"10.1.1.2", "fd10::2"}}
	more := &contiv_filter.AddressSet{Name: "clients", Addresses: []string{"10.1.1.3", "fd10::2"}}
	list := func(port uint32) *contiv_filter.AccessList {
		return &contiv_filter.AccessList{Name: "web", Rules: []*contiv_filter.AccessList_Rule{{
			AddressSets: []string{"clients"}, Networks: []string{"10.0.0.0/9", "fd00::/8"}, Ports: []*contiv_filter.AccessList_Ports{{First: port, Last: port + 5}},
		}}}
	}
	pod := &contiv_filter.Subject{Name: "prod/web", Addresses: []string{"10.1.1.9"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"web"}, Deny: true}}}
	guarded := &guard.SourceGuard{Interface: "tap1", MacAddress: "02:fe:00:00:00:01", IpAddresses: []string{"10.1.1.2"}, MaxConnections: 64}
	moved := &guard.SourceGuard{Interface: "tap1", MacAddress: "02:fe:00:00:00:01", IpAddresses: []string{"10.1.1.3", "fd10::3"}, MaxConnections: 65}
	tapList := manyRulesACL("many", 3)
	binding := vswitch.ACLBinding{ACL: "many", Interface: nic}
	source := &contiv_nat.SourceNAT66{Interface: nic, Address: "fd16::1"}
	service := &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{{
		ExternalIp: "10.96.0.1", ExternalPort: 80, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 8080, Probability: 1}, {LocalIp: "10.1.1.3", LocalPort: 8080, Probability: 1}},
	}}}
	global := &vpp_nat.Nat44Global{Forwarding: true}
	table, inVRF := &vpp_l3.VrfTable{Id: 5}, &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, Vrf: 5}
	return map[string]nftSteps{
		"policies": {steps(set(clients, list(80), pod), set(more), set(list(90))), steps(unset(pod), unset(list(0)), unset(clients))},
		"access lists": {
			steps(func(t *testing.T) error { return v.ACLs().Create(t.Context(), tapList) },
				func(t *testing.T) error { return v.ACLs().Bind(t.Context(), binding) },
				func(t *testing.T) error { return v.ACLs().Update(t.Context(), tapList, manyRulesACL("many", 5)) }),
			steps(func(t *testing.T) error { return v.ACLs().Unbind(t.Context(), binding) },
				func(t *testing.T) error { return v.ACLs().Delete(t.Context(), tapList) }),
		},
		"guards": {
			steps(func(t *testing.T) error { return v.SourceGuards().Create(t.Context(), guarded) },
				func(t *testing.T) error { return v.SourceGuards().Create(t.Context(), moved) }),
			steps(func(t *testing.T) error { return v.SourceGuards().Delete(t.Context(), moved) }),
		},
		"NAT66": {
			steps(func(t *testing.T) error { return v.NAT66().Create(t.Context(), source) }),
			steps(func(t *testing.T) error { return v.NAT66().Delete(t.Context(), source) }),
		},
		"VRFs": {
			steps(func(t *testing.T) error { return v.VRFs().Create(t.Context(), table) },
				func(t *testing.T) error { return v.Interfaces().Create(t.Context(), inVRF) },
				func(t *testing.T) error {
					return v.Interfaces().SetVRF(t.Context(), nic, 5, vswitch.IPVersions{V4: true})
				}),
			steps(func(t *testing.T) error { return v.Interfaces().Delete(t.Context(), inVRF) },
				func(t *testing.T) error { return v.VRFs().Delete(t.Context(), table) }),
		},
		"NAT": {
			steps(func(t *testing.T) error { return v.NAT().Enable(t.Context(), global) },
				func(t *testing.T) error { return v.NAT().SetDNAT(t.Context(), service) }),
			steps(func(t *testing.T) error { return v.NAT().RemoveDNAT(t.Context(), service) },
				func(t *testing.T) error { return v.NAT().Disable(t.Context()) }),
		},
	}
}

// anyOrder matches the parts of a listing to ignore: handles, counters, generations and elements
// that depend on the order of creation.
var anyOrder = regexp.MustCompile(`packets \d+ bytes \d+|generation \d+|0x00[0-9a-f]{4}00 accept comment "[0-9a-f]+"|0x00[0-9a-f]{4}00|0xff[0-9a-f]{4}ff`)

func ruleset(t *testing.T, n *node) string {
	t.Helper()
	lines := strings.Split(anyOrder.ReplaceAllString(n.Exec(t, "nft list ruleset"), ""), "\n")
	for i, line := range lines {
		parts := strings.Split(strings.Trim(line, " \t,"), ", ")
		slices.Sort(parts)
		lines[i] = strings.Join(parts, ", ")
	}
	slices.Sort(lines)
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Whichever request to nftables fails, or succeeds without an answer, repeating the operation
// succeeds, and the final ruleset equals one made without faults.
func TestAnyRequestToNftablesMayFail(t *testing.T) {
	type fault struct {
		name, call string // call selects the requests that can fail like this; "" selects every request that the kernel has not executed yet
		err        error
	}
	faults := []fault{
		{"busy", "", unix.EBUSY}, {"no buffers", "", unix.ENOBUFS}, {"dump interrupted", "dump", nl.ErrDumpInterrupted}, {"no answer", "committed", unix.ENOBUFS},
	}
	names := []string{"policies", "access lists", "guards", "NAT66", "NAT", "VRFs"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if name == "VRFs" {
				needVRFDevices(t)
				n.Exec(t, "ip addr add 10.7.0.1/24 dev eth0") // makes it a guest, whose packets are marked
			}
			v := openKernel(t, n)
			run := func(t *testing.T, what string, list []func(*testing.T) error) {
				t.Helper()
				for i, step := range list {
					err := step(t)
					if err == nil {
						continue
					}
					if again := step(t); again != nil {
						t.Fatalf("%s: step %d: %v, and repeated: %v", what, i, err, again)
					}
				}
			}
			steps := nftStepsOf(v)[name]
			run(t, "no fault", steps.add)
			complete := ruleset(t, n)
			run(t, "no fault", steps.remove)
			empty := ruleset(t, n)
			for _, f := range faults {
				failed := true
				for broken := 1; failed; broken++ {
					failed = false
					calls := 0
					what := f.name
					v.NFT.InjectFaults(func(call string) error {
						if f.call != "" && call != f.call || f.call == "" && call == "committed" {
							return nil
						}
						if calls++; calls == broken {
							failed, what = true, f.name+": "+call
							return f.err
						}
						return nil
					})
					run(t, what, steps.add)
					run(t, what, steps.add[len(steps.add)-1:])
					if failed || broken == 1 {
						if now := ruleset(t, n); now != complete {
							t.Fatalf("request %d, %s: got\n%s\nwant\n%s", broken, what, now, complete)
						}
					}
					run(t, what, steps.remove)
					v.NFT.InjectFaults(nil)
					run(t, what, steps.remove[len(steps.remove)-1:])
					if now := ruleset(t, n); now != empty {
						t.Fatalf("request %d, %s, after removal: got\n%s\nwant\n%s", broken, what, now, empty)
					}
				}
			}
		})
	}
}

func TestFailedCleanUpOfPoliciesIsLogged(t *testing.T) {
	n := newNode(t)
	var log locked.Buffer
	v, err := New(Options{NetNS: n.NetNS, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	t.Cleanup(func() { v.Close() })
	pod := &contiv_filter.Subject{Name: "prod/web", Addresses: []string{"10.1.1.9"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"web"}, Deny: true}}}
	other := &contiv_filter.Subject{Name: "prod/other", Addresses: []string{"10.1.1.8"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"api"}, Deny: true}}}
	denies := &contiv_filter.AccessList{Name: "web", Rules: []*contiv_filter.AccessList_Rule{{Action: contiv_filter.AccessList_DENY, Networks: []string{"10.9.0.0/16"}}}}
	check(t, v.Filter().Set(t.Context(), denies, pod, other))
	commits := 0
	v.NFT.InjectFaults(func(call string) error {
		if call != "commit" {
			return nil
		}
		if commits++; commits == 2 { // the first commit is the change itself
			return errors.New("out of luck")
		}
		return nil
	})
	check(t, v.Filter().Remove(t.Context(), pod))
	v.NFT.InjectFaults(nil)
	if text := log.String(); !strings.Contains(text, "out of luck") {
		t.Errorf("the log says %q", text)
	}
	if out := n.Exec(t, "nft list table inet contiv-policy"); !strings.Contains(out, "list/web") {
		t.Fatalf("the clean-up did not fail:\n%s", out)
	}
	check(t, v.Filter().Set(t.Context(), other))
	if out := n.Exec(t, "nft list table inet contiv-policy"); strings.Contains(out, "list/web") {
		t.Errorf("the next change left it there:\n%s", out)
	}
}
