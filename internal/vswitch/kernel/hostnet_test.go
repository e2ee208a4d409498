package kernel

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/locked"
	"google.golang.org/protobuf/proto"
)

func TestLostSettingsOfTheHostAreReported(t *testing.T) {
	const up = "ip link set dev eth0 up; ip addr add 10.66.0.1/24 dev eth0; ip route add default via 10.66.0.9"
	for name, test := range map[string]struct{ before, damage, repair, want string }{
		"forwarding": {"", "sysctl -w net.ipv4.ip_forward=0", "sysctl -w net.ipv4.ip_forward=1", "net/ipv4/ip_forward is 0: pods reach only their own node over IPv4"},
		"forwarding of a device": {"", "sysctl -w net.ipv4.conf.c-tap1.forwarding=0", "sysctl -w net.ipv4.conf.c-tap1.forwarding=1",
			`net/ipv4/conf/c-tap1/forwarding is 0: IPv4 packets received on interface "tap1" are dropped`},
		"default route": {up, "ip link set dev eth0 down; ip link set dev eth0 up", "ip route add default via 10.66.0.9",
			"eth0 went down and took the host's default route along: pods and the node reach nothing outside of the cluster. " +
				"Contiv does not restore it: run `ip route add default via 10.66.0.9 dev eth0`"},
		"default route of IPv6": {"ip link set dev eth0 up; ip addr add fd66::1/64 dev eth0 nodad; ip route add default via fd66::9 dev eth0",
			"ip link set dev eth0 down; ip link set dev eth0 up", "ip addr add fd66::1/64 dev eth0 nodad; ip route add default via fd66::9 dev eth0",
			"run `ip route add default via fd66::9 dev eth0`"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.ExecAll(t, test.before)
			var log locked.Buffer
			v, err := New(Options{NetNS: n.NetNS, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			check(t, err)
			t.Cleanup(func() { v.Close() })
			check(t, v.Interfaces().Create(t.Context(), tap("tap1")))
			check(t, v.Watch(t.Context(), func(string, ...string) {}))
			if warnings, err := v.Warnings(t.Context()); err != nil || len(warnings) != 0 {
				t.Errorf("warned of %q, %v", warnings, err)
			}
			n.ExecAll(t, test.damage)
			eventually(t, "the log", func() bool { return strings.Contains(log.String(), "Forwarding settings of the host are wrong") })
			if warnings, err := v.Warnings(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], test.want) {
				t.Errorf("warned of %q, %v", warnings, err)
			}
			n.ExecAll(t, test.repair)
			if warnings, err := v.Warnings(t.Context()); err != nil || len(warnings) != 0 {
				t.Errorf("after the repair: warned of %q, %v", warnings, err)
			}
		})
	}
}

// Deleting a default route on purpose is no loss, nor is a missing default route that is a value.
func TestDefaultRoutesThatAreNotLost(t *testing.T) {
	n := newNode(t)
	n.ExecAll(t, "ip link set dev eth0 up; ip addr add 10.66.0.1/24 dev eth0")
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	check(t, descriptors.Register(s, v))
	check(t, v.Watch(t.Context(), func(reason string, keys ...string) { _ = s.ReportDrift(reason, keys...) }))
	n.ExecAll(t, "ip route add default via 10.66.0.9; ip route del default; ip link set dev eth0 down")
	txn := s.NewTransaction()
	for _, value := range []proto.Message{
		&vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"10.66.0.1/24"}},
		&vpp_l3.Route{DstNetwork: "0.0.0.0/0", NextHopAddr: "10.66.0.9", OutgoingInterface: nic},
	} {
		txn.Put(models.Key(value), value)
	}
	_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	check(t, err)
	n.ExecAll(t, "ip link set dev eth0 down; ip link set dev eth0 up")
	eventually(t, "our default route", func() bool { return strings.Contains(n.Exec(t, "ip route show default"), "via 10.66.0.9") })
	if warnings, err := v.Warnings(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("warned of %q, %v", warnings, err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	await.That(t, what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

// ExecAll runs commands separated by semicolons.
func (n *node) ExecAll(t testing.TB, commands string) {
	t.Helper()
	for command := range strings.SplitSeq(commands, ";") {
		if command != "" {
			n.Exec(t, command)
		}
	}
}
