package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// If an auto-detected NIC is renamed or replaced, connectivity returns without a restart.
func TestNICIsRenamedOrReplaced(t *testing.T) {
	require(t)
	const soon = 5 * time.Second
	v4 := "ip address add 192.168.16.1/24 dev %[1]s; ip route replace default via 192.168.16.254"
	v6 := "; ip address add 2001:db8:16::1/64 dev %[1]s nodad; ip route replace default via 2001:db8:16::fe"
	for _, test := range []struct {
		name   string
		set    func(*lab.Options)
		change string // of the NIC
		with   string
		nic    string
	}{
		{"renamed", func(*lab.Options) {}, "ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up; ip route replace default via 192.168.16.254", "", "lan0"},
		{"renamed, of both IP versions", func(o *lab.Options) { o.DualStack = true },
			"ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up; ip route replace default via 192.168.16.254; ip address add 2001:db8:16::1/64 dev lan0 nodad", v6, "lan0"},
		{"replaced, with the same address", func(*lab.Options) {}, "ip link del eth0", v4, "ens7"},
		{"replaced, with the same name", func(*lab.Options) {}, "ip link del eth0", v4, "eth0"},
		{"replaced, with another address", func(*lab.Options) {}, "ip link del eth0",
			"ip address add 192.168.16.77/24 dev %[1]s; ip route replace default via 192.168.16.254", "ens7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options("nc")
			test.set(&opts)
			l := labtest.Up(t, opts)
			pods := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "a2", Node: "node2"})
			nodes, err := l.Nodes()
			if err != nil {
				t.Fatal(err)
			}
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			node1 := nodes[0].Netns
			works := func() error {
				if err := ping(t, pods[0], pods[1]); err != nil {
					return err
				}
				_, err := lab.Ping(t.Context(), pods[0].Endpoint(), lab.Endpoint{Address: lab.OutsideAddress.Addr()})
				return err
			}
			await.That(t, "packets before", works)
			command.In(t, node1, test.change)
			if strings.HasPrefix(test.change, "ip link del") {
				command.In(t, st.Underlay(), fmt.Sprintf("ip link add nc-new type veth peer name %s netns %s; ip link set nc-new up master nodes", test.nic, node1))
				command.In(t, node1, fmt.Sprintf("ip link set %s up; "+test.with, test.nic))
			}
			changed := time.Now()
			await.That(t, "packets again", works)
			if took := time.Since(changed); took > soon {
				t.Errorf("packets flowed again after %v, want %v at most", took.Round(100*time.Millisecond), soon)
			}
			labtest.RequireQuiet(t, l)
			requireRestartWithoutOperations(t, l, "node1")
		})
	}
}

// Node addresses stay if the NIC gets additional ones, also across a restart of the agent.
func TestNodeAddressesStay(t *testing.T) {
	require(t)
	opts := options("ns")
	opts.DualStack = true
	l := labtest.Up(t, opts)
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	pods := labtest.AddPods(t, l, lab.PodSpec{Name: "a1", Node: "node1"})
	node1, want := nodes[0].Netns, []string{"192.168.16.1/24", "2001:db8:16::1/64"}
	command.In(t, node1, "ip -6 address add 2001:db8:16::bbbb/64 dev eth0 preferred_lft 0 nodad; ip -6 address add 2001:db8:16::cccc/128 dev eth0 nodad; "+
		"ip address add 192.168.16.66/24 dev eth0; ip -6 address add 2001:db8:17::1/64 dev eth0 nodad; ip address add 203.0.113.7/32 dev eth0; ip link set eth0 mtu 1400")
	await.That(t, "the agent has read the links", func() error {
		if out := command.In(t, pods[0].Netns, "ip link show eth0"); !strings.Contains(out, "mtu 1330 ") {
			return errors.New(out)
		}
		return nil
	})
	for _, n := range nodes {
		if err := knowsAddresses(t, l, n.Name, "node1", want); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		await.That(t, n.Name+" knows node1 after a restart", func() error { return knowsAddresses(t, l, n.Name, "node1", want) })
	}
	command.In(t, node1, "ip -6 address del 2001:db8:16::1/64 dev eth0")
	for _, n := range nodes {
		await.That(t, n.Name+" knows a good one of the remaining nodes", func() error {
			return knowsAddresses(t, l, n.Name, "node1", []string{"192.168.16.1/24", "2001:db8:17::1/64"})
		})
	}
}
