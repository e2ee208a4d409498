package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"google.golang.org/protobuf/proto"
)

func repairing(t *testing.T, n *node, values ...proto.Message) *kvscheduler.Scheduler {
	t.Helper()
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { check(t, s.Close()) })
	check(t, descriptors.Register(s, v))
	check(t, v.Watch(t.Context(), func(reason string, keys ...string) { _ = s.ReportDrift(reason, keys...) }))
	txn := s.NewTransaction()
	for _, value := range values {
		txn.Put(models.Key(value), value)
	}
	_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDefaultRetry())
	check(t, err)
	return s
}

func TestPortsAreBoundAgain(t *testing.T) {
	n := newNode(t)
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 1}
	s := repairing(t, n, topo.Values()...)
	bridge := own.DeviceName(own.DevBridge, vswitchtest.Bridge)
	var ports []string
	for line := range strings.Lines(n.Exec(t, "ip -o link show master "+bridge)) {
		name, _, _ := strings.Cut(strings.TrimSuffix(strings.Fields(line)[1], ":"), "@")
		ports = append(ports, name)
	}
	if len(ports) < 2 {
		t.Fatalf("ports of the bridge: %v", ports)
	}
	for _, port := range ports {
		check(t, s.Barrier(t.Context()))
		start := time.Now()
		n.Exec(t, "ip link set dev "+port+" nomaster")
		for !strings.Contains(n.Exec(t, "ip -o link show dev "+port), "master "+bridge) {
			if time.Since(start) > time.Minute {
				t.Fatalf("%s is not bound again", port)
			}
		}
		check(t, s.Barrier(t.Context()))
		for _, txn := range s.History(start, time.Time{}) {
			for _, op := range txn.Executed {
				if op.NewErr != nil {
					t.Errorf("%s of %s failed: %v", op.Operation, op.Key, op.NewErr)
				}
			}
		}
	}
}

// Guards that are damaged, or lost with all of nftables when its service restarts, are repaired in
// place. Recreating the pods' interfaces would cut connections that the node masquerades.
func TestGuardsAreRepairedInPlace(t *testing.T) {
	site := newNode(t)
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 1}
	values := topo.Values()
	for _, value := range values {
		if iface, ok := value.(*vpp_interfaces.Interface); ok && iface.GetName() == topo.Tap(1) {
			iface.SourceGuarded = true
		}
	}
	s := repairing(t, site, append(values, &guard.SourceGuard{Interface: topo.Tap(1), MacAddress: topo.PodMAC(1), IpAddresses: []string{"10.1.1.2"}})...)
	check(t, s.Barrier(t.Context()))
	dev := own.DeviceName(own.DevInterface, topo.Tap(1))
	contents := func() (n [2]int, err error) {
		for _, table := range []string{"inet", "arp"} {
			text, err := site.Try("nft list table " + table + " contiv-guard")
			if err != nil {
				return n, err
			}
			n[0] += strings.Count(text, " drop ") + strings.Count(text, " goto ")
			n[1] += strings.Count(text, topo.Tap(1))
		}
		return n, nil
	}
	intact, err := contents()
	check(t, err)
	index := func() string { return strings.Fields(site.Exec(t, "ip -o link show dev "+dev))[0] }
	before := index()
	for _, damage := range []string{
		"nft flush chain inet contiv-guard connections",
		"nft flush set inet contiv-guard interfaces",
		"nft delete table inet contiv-guard",
		"nft flush ruleset",
	} {
		start := time.Now()
		site.Exec(t, damage)
		await.That(t, "repair after: "+damage, func() error {
			now, err := contents()
			if err == nil && now != intact {
				err = fmt.Errorf("%d, %d before", now, intact)
			}
			return err
		})
		check(t, s.Barrier(t.Context()))
		if index() != before {
			t.Errorf("%s: the device of the pod is another one", damage)
		}
		for _, txn := range s.History(start, time.Time{}) {
			for _, op := range txn.Executed {
				if !op.NOOP && op.Key == models.VPPInterfaceKey(topo.Tap(1)) {
					t.Errorf("%s: %v of the pod's interface", damage, op.Operation)
				}
			}
		}
	}
}

// The service network is restored after the NAT tables are deleted. Without it, UDP to cluster IPs
// without endpoints is not refused.
func TestServiceNetworkIsRepaired(t *testing.T) {
	n := newNode(t)
	network := &contiv_nat.ServiceNetwork{Inside: []string{"10.1.1.0/24", "fd10::/64"}, ServiceSubnets: []string{"10.96.0.0/12", "fd96::/108"}}
	repairing(t, n, network, &vpp_nat.Nat44Global{})
	for _, damage := range []string{"nft delete table ip6 contiv", "nft delete table ip contiv", "nft flush ruleset"} {
		n.Exec(t, damage)
		await.That(t, "repair after: "+damage, func() error {
			text, err := n.Try("nft list ruleset")
			for _, prefix := range slices.Concat(network.GetInside(), network.GetServiceSubnets()) {
				if err == nil && !strings.Contains(text, prefix) {
					err = fmt.Errorf("%s is missing:\n%s", prefix, text)
				}
			}
			return err
		})
	}
}

// Damaged translations are repaired without removing them first, which would end the flows to all
// their endpoints.
func TestTranslationsAreRepairedInPlace(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	check(t, descriptors.Register(s, v))
	check(t, v.Watch(t.Context(), func(reason string, keys ...string) { _ = s.ReportDrift(reason, keys...) }))
	dns := &vpp_nat.DNat44{Label: "dns", StMappings: []*vpp_nat.DNat44_StaticMapping{{
		ExternalIp: "10.96.0.10", ExternalPort: 53, Protocol: vpp_nat.DNat44_UDP,
		LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 53}, {LocalIp: "10.1.1.3", LocalPort: 53}},
	}}}
	network := &contiv_nat.ServiceNetwork{Inside: []string{"10.1.1.0/24"}, ServiceSubnets: []string{"10.96.0.0/12"}}
	txn := s.NewTransaction()
	for _, value := range []proto.Message{network, &vpp_nat.Nat44Global{}, dns} {
		txn.Put(models.Key(value), value)
	}
	_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDefaultRetry())
	check(t, err)
	// the sets, and the chains in any order
	content := func() ([]string, error) {
		text, err := n.Try("nft list table ip contiv")
		parts := strings.Split(strings.TrimSuffix(text, "}\n"), "\tchain ")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return slices.Concat(parts[:1], slices.Sorted(slices.Values(parts[1:]))), err
	}
	intact, err := content()
	check(t, err)
	damages := []string{
		"nft delete element ip contiv nat-balanced { 10.96.0.10 . udp . 53 }", "nft flush table ip contiv",
		"nft delete table ip contiv", "nft flush ruleset",
	}
	for _, chain := range intact[1:] {
		name, _, _ := strings.Cut(chain, " ")
		damages = append(damages, "nft flush chain ip contiv "+name)
	}
	for _, damage := range damages {
		check(t, s.Barrier(t.Context()))
		start := time.Now()
		n.Exec(t, damage)
		await.That(t, "repair after: "+damage, func() error {
			now, err := content()
			if err == nil && !slices.Equal(now, intact) {
				err = fmt.Errorf("%q, before %q", now, intact)
			}
			return err
		})
		check(t, s.Barrier(t.Context()))
		for _, txn := range s.History(start, time.Time{}) {
			for _, op := range txn.Executed {
				if op.NewErr != nil || op.Key == models.Key(dns) && op.NewValue == nil {
					t.Errorf("%s: %v of %s, error %v", damage, op.Operation, op.Key, op.NewErr)
				}
			}
		}
	}
}
