package vpp

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const bothVersions = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16,fd17:30::/48
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
`

// attackLab has the pods evil and near on node1, which runs VPP, and far on node2.
type attackLab struct {
	*lab.Lab
	evil, near, far *labtest.WiredPod
	barriers        int
}

// arrived sends forged frames from evil, followed by a valid datagram of each IP version to each
// pod. It returns the forged texts that arrived before the datagrams.
func (l *attackLab) arrived(t *testing.T, forged map[string][]byte, to ...*labtest.WiredPod) (names []string) {
	t.Helper()
	for _, p := range to {
		p.Wire.Drain()
	}
	for _, frame := range forged {
		l.evil.Wire.Send(t, frame)
	}
	for _, p := range to {
		for _, addr := range p.Addrs {
			l.barriers++
			last := fmt.Sprintf("barrier-%d-", l.barriers)
			l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(addr.Is6()), addr, last, false))
			seen := p.Wire.Receive(await.Patience, frames.Containing(last))
			if seen == nil {
				t.Errorf("packets of the pod to %v with its own address do not arrive", addr)
			}
			for name := range forged {
				if slices.ContainsFunc(seen, frames.Containing(name)) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func (l *attackLab) drops(t *testing.T) map[vswitch.DropReason]uint64 {
	t.Helper()
	var report statscollector.DropsReport
	if err := l.Agent("node1").Get(t.Context(), statscollector.DropsURL, &report); err != nil {
		t.Fatal(err)
	}
	counts := map[vswitch.DropReason]uint64{}
	for _, d := range report.Drops {
		if d.Pod == "evil" {
			counts[vswitch.DropReason(d.Reason)] += d.Packets
		}
	}
	return counts
}

// wantCounted waits until evil has n more drops than before and checks contivctl.
func (l *attackLab) wantCounted(t *testing.T, before map[vswitch.DropReason]uint64, reason vswitch.DropReason, more int) {
	t.Helper()
	await.That(t, fmt.Sprintf("%d drops because of %s", more, reason), func() error {
		if now := l.drops(t)[reason]; now < before[reason]+uint64(more) {
			return fmt.Errorf("%d, before it were %d", now, before[reason])
		}
		return nil
	})
	out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "contiv-lab"), "--quiet", "--name", l.Name(), "ctl", "drops", "node1").CombinedOutput()
	told := false
	for line := range strings.Lines(string(out)) {
		told = told || strings.Contains(line, "evil") && slices.Contains(strings.Fields(line), string(reason))
	}
	if err != nil || !told {
		t.Errorf("contivctl drops says nothing of %s: %v\n%s", reason, err, out)
	}
}

// awaitCounting waits until VPP counts drops of evil. VPP's classifier does not count in the first
// second after VPP's start (docs/user/vpp-limits.md).
func (l *attackLab) awaitCounting(t *testing.T) {
	t.Helper()
	stranger := netip.MustParseAddr("10.1.1.99")
	await.That(t, "VPP counts dropped packets", func() error {
		text := "to be counted"
		forged := frames.Datagram(l.evil.MAC, l.evil.Gateway, stranger, l.near.Of(false), text, false)
		if names := l.arrived(t, map[string][]byte{text: forged}, l.near); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
		if counts := l.drops(t); counts[vswitch.DropIPv4] == 0 {
			return fmt.Errorf("it counts %v", counts)
		}
		return nil
	})
}

// A pod attacks a VPP node. Each attack is dropped and counted, and does not affect other traffic,
// across restarts of the agent and of VPP.
func TestAttacks(t *testing.T) {
	l := &attackLab{Lab: upWith(t, bothVersions, "vpp", "kernel")}
	pods := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "evil", Node: "node1"}, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	l.evil, l.near, l.far = labtest.Wire(t, pods[0]), labtest.Wire(t, pods[1]), labtest.Wire(t, pods[2])
	l.wantService(t)
	l.awaitCounting(t)
	t.Run("foreign sources", l.testSources)
	t.Run("ARP and neighbour discovery", l.testNeighbours)
	t.Run("VXLAN", l.testVXLAN)
	t.Run("VXLAN of the host", l.testVXLANOfTheHost)
	t.Run("ICMP errors", l.testErrors)
	t.Run("sources of pods by the uplink", l.testUplink)
	t.Run("ports of nodes", l.testReserved)
	t.Run("an agent that restarts", func(t *testing.T) {
		if err := l.KillAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if names := l.arrived(t, l.forged("while the agent starts"), l.near, l.far); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
		if err := l.StartAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if names := l.arrived(t, l.forged("with another agent"), l.near, l.far); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
		txns, err := l.Agent("node1").Transactions(t.Context(), time.Time{})
		if err != nil || len(txns) == 0 {
			t.Fatalf("%d transactions, %v", len(txns), err)
		}
		for _, txn := range txns {
			if len(lab.Operations(txn)) > 0 {
				t.Errorf("the agent changed something afterwards:\n%s", txn)
			}
		}
	})
	t.Run("VPP that restarts", func(t *testing.T) {
		if err := l.KillVPP(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		await.That(t, "the pod reaches another node", func() error { return ping(t, l.evil, l.far.Addrs[0]) })
		if names := l.arrived(t, l.forged("with another VPP"), l.near, l.far); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
	})
	labtest.RequireQuiet(t, l.Lab)
}

func ping(t *testing.T, from *labtest.WiredPod, to netip.Addr) error {
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", from.Netns, "ping", "-n", "-q", "-c1", "-W2", to.String()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s to %v: %w: %s", from.Name, to, err, out)
	}
	return nil
}

func (l *attackLab) wantService(t *testing.T) {
	t.Helper()
	for _, pair := range [][2]*labtest.WiredPod{{l.near, l.far}, {l.far, l.near}, {l.near, l.evil}, {l.evil, l.far}} {
		for _, addr := range pair[1].Addrs {
			await.That(t, "pods reach each other", func() error { return ping(t, pair[0], addr) })
		}
	}
}

// forged returns datagrams with spoofed source addresses by their texts.
func (l *attackLab) forged(about string) map[string][]byte {
	list := map[string][]byte{}
	for _, to := range []*labtest.WiredPod{l.near, l.far} {
		for _, dst := range to.Addrs {
			sources := []netip.Addr{l.near.Of(dst.Is6()), l.far.Of(dst.Is6())}
			for _, text := range map[bool][]string{
				false: {"10.1.1.1", "10.1.1.99", "192.168.16.1", "192.168.16.2", "192.168.30.2", "172.30.1.2", "8.8.8.8", "10.96.0.1", "0.0.0.0", "127.0.0.1"},
				true:  {"fd10:1::1", "fd10:1::99", "fd16::1", "fd16::2", "fd30::2", "2001:db8::1", "fe80::1", "64:ff9b::808:808"},
			}[dst.Is6()] {
				sources = append(sources, netip.MustParseAddr(text))
			}
			for _, src := range sources {
				for _, fragment := range []bool{false, true} {
					name := fmt.Sprintf("[%s: %v to %v, fragment: %v]", about, src, dst, fragment)
					list[name] = frames.Datagram(l.evil.MAC, l.evil.Gateway, src, dst, fmt.Sprintf("%-120s", name), fragment)
				}
			}
		}
	}
	return list
}

func (l *attackLab) testSources(t *testing.T) {
	before := l.drops(t)
	list := l.forged("a foreign source")
	for _, dst := range l.near.Addrs {
		name := fmt.Sprintf("[foreign MAC address to %v]", dst)
		list[name] = frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 0x99}, l.evil.Gateway, l.evil.Of(dst.Is6()), dst, name, false)
	}
	if names := l.arrived(t, list, l.near, l.far); len(names) > 0 {
		t.Errorf("arrived: %q", names)
	}
	l.wantCounted(t, before, vswitch.DropIPv4, 2*2*12)
	l.wantCounted(t, before, vswitch.DropIPv6, 2*2*10)
	l.wantCounted(t, before, vswitch.DropMAC, 2)
	l.wantService(t)
}

// testNeighbours: VPP ignores forged neighbour messages.
func (l *attackLab) testNeighbours(t *testing.T) {
	before := l.drops(t)
	evil, stranger := l.evil, frames.MAC{2, 0, 0, 0, 0, 0x99}
	gateway4, gateway6 := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("fd10:1::1")
	all, everybody := netip.MustParseAddr("ff02::1"), frames.MAC{0x33, 0x33, 0, 0, 0, 1}
	arp := [][]byte{
		frames.ARP(evil.MAC, false, stranger, evil.Of(false), gateway4), frames.ARP(stranger, false, stranger, evil.Of(false), gateway4),
		frames.ARP(evil.MAC, true, evil.MAC, gateway4, l.near.Of(false)), frames.ARP(evil.MAC, true, evil.MAC, l.near.Of(false), gateway4),
	}
	for i := range 200 {
		arp = append(arp, frames.ARP(evil.MAC, false, evil.MAC, netip.AddrFrom4([4]byte{10, 1, 1, byte(50 + i)}), gateway4))
	}
	var nd, foreign [][]byte
	for _, target := range []netip.Addr{gateway6, l.near.Of(true), l.far.Of(true)} {
		nd = append(nd, frames.Discovery(evil.MAC, everybody, evil.Of(true), all, frames.NeighborAdvertisement, target, frames.TargetLink, evil.MAC))
		foreign = append(foreign, frames.Discovery(evil.MAC, everybody, target, all, frames.NeighborSolicitation, gateway6, frames.SourceLink, evil.MAC))
	}
	nd = append(nd, frames.Discovery(evil.MAC, everybody, evil.Of(true), all, frames.NeighborSolicitation, gateway6, frames.SourceLink, stranger),
		frames.Discovery(evil.MAC, everybody, vswitch.LinkLocal(evil.MAC), all, frames.RouterAdvertisement, evil.Of(true), 0, frames.MAC{}),
		frames.Discovery(evil.MAC, everybody, vswitch.LinkLocal(evil.MAC), all, frames.Redirect, l.near.Of(true), 0, frames.MAC{}))
	for _, frame := range slices.Concat(arp, nd, foreign) {
		evil.Wire.Send(t, frame)
	}
	l.wantCounted(t, before, vswitch.DropARP, len(arp))
	l.wantCounted(t, before, vswitch.DropND, len(nd))
	l.wantCounted(t, before, vswitch.DropIPv6, len(foreign))
	out, err := l.VPPCommand(t.Context(), "node1", "show", "ip", "neighbors")
	if err != nil || strings.Contains(out, "10.1.1.50") || strings.Contains(strings.ToLower(out), "02:00:00:00:00:99") {
		t.Errorf("VPP has learned an address claimed by a pod: %v\n%s", err, out)
	}
	l.wantService(t)
}

// testVXLAN: nodes accept VXLAN packets only from other nodes.
func (l *attackLab) testVXLAN(t *testing.T) {
	before := l.drops(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	bvi := func(node byte) frames.MAC { return frames.MAC{0x12, 0x2b, 0, 0, 0, node} }
	inject := func(netns string, dst netip.Addr, to *labtest.WiredPod, node byte, text string) {
		t.Helper()
		for _, addr := range to.Addrs {
			inner := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(node), l.far.Of(addr.Is6()), addr, text+"        ", false)
			labtest.SendVXLAN(t, netns, netip.Addr{}, dst, inner)
		}
	}
	node1, node2 := st.Nodes[0].Address.Addr(), st.Nodes[1].Address.Addr()
	const toOwn, toOther, fromRouter, fromOutside = "pod to its node", "pod to another node", "router to a node", "outside to a node"
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	inject(l.evil.Netns, node1, l.near, 1, toOwn)
	inject(l.evil.Netns, node2, l.far, 2, toOther)
	inject(st.Underlay(), node1, l.near, 1, fromRouter)
	inject(st.Outside(), node1, l.near, 1, fromOutside)
	for _, p := range []*labtest.WiredPod{l.near, l.far} {
		const last = "something else"
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), p.Of(false), last, false))
		seen := p.Wire.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("packets other than VXLAN do not arrive at %s", p.Name)
		}
		for _, forged := range []string{toOwn, toOther, fromRouter, fromOutside} {
			if slices.ContainsFunc(seen, frames.Containing(forged)) {
				t.Errorf("arrived: VXLAN of %s", forged)
			}
		}
	}
	l.wantCounted(t, before, vswitch.DropVXLAN, 2)
	l.wantService(t)
}
