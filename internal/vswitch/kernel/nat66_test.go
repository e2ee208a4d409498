package kernel

import (
	"errors"
	"strings"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// IPv6 packets of pods leave with the node's address, and the node's own packets unchanged. Watch
// reports foreign changes of the rules. Deleting a value deletes its rule.
func TestNAT66(t *testing.T) {
	n := newNode(t)
	pod := newNamespace(t, "pod")
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	check(t, descriptors.Register(s, v))
	n.peer.Exec(t, "ip addr add fd16::9/64 dev "+uplink+" nodad")
	n.Exec(t, "ip link add name p type veth peer name eth0 netns "+nsName(pod))
	for _, command := range []string{"ip addr add fd10::1/64 dev p nodad", "ip link set dev p up"} {
		n.Exec(t, command)
	}
	for _, command := range []string{"ip addr add fd10::2/64 dev eth0 nodad", "ip link set dev eth0 up", "ip route add default via fd10::1"} {
		pod.Exec(t, command)
	}
	eth0 := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, IpAddresses: []string{"fd16::1/64"}}
	source := &contiv_nat.SourceNAT66{Interface: nic, Address: "fd16:0::1"}
	resync := func(sources ...*contiv_nat.SourceNAT66) []kvscheduler.RecordedOp {
		t.Helper()
		txn := s.NewTransaction()
		txn.Put(models.Key(eth0), eth0)
		for _, v := range sources {
			txn.Put(models.Key(v), v)
		}
		seq, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
		check(t, err)
		return s.RecordedTxn(seq).Executed
	}
	resync(source)
	check(t, waitNoDAD(t, n.Host))

	port := n.peer.Serve(t, "fd16::9")
	for from, host := range map[string]*vswitchtest.Host{"pod": pod, "node": n.Host} {
		if seen, err := host.Ask("fd16::9", port); err != nil || seen != "fd16::1" {
			t.Errorf("the %s is seen as %q, %v; want fd16::1", from, seen, err)
		}
	}
	if ops := resync(source); len(ops) > 0 {
		t.Errorf("second resync: %v", ops)
	}
	for _, damage := range []string{
		"nft flush chain ip6 contiv " + "nat66-postrouting", "nft delete table ip6 contiv", "nft add rule ip6 contiv " + "nat66-postrouting" + " counter",
	} {
		n.Exec(t, damage)
		if len(resync(source)) == 0 {
			t.Errorf("%s: not repaired", damage)
		}
		if out := n.Exec(t, "nft list chain ip6 contiv "+"nat66-postrouting"); strings.Contains(out, "counter") || !strings.Contains(out, "snat to fd16::1") {
			t.Errorf("%s: %s", damage, out)
		}
	}
	resync()
	if out := n.Exec(t, "nft list ruleset"); strings.Contains(out, "snat") {
		t.Errorf("left: %s", out)
	}
	if _, err := pod.Ask("fd16::9", port); err == nil {
		t.Error("packets of the pod are answered without translation, though no host has a route back")
	}
	err := v.NAT66().Create(t.Context(), &contiv_nat.SourceNAT66{Interface: `x" accept`, Address: "fd16::1"})
	if !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("quotes: %v", err)
	}
}

func waitNoDAD(t *testing.T, h *vswitchtest.Host) error {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		out, err := h.Try("ip -6 -o addr show tentative")
		if err != nil || out == "" {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("tentative: " + out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
