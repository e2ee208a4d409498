package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
)

// foreignSources returns one address of each kind that evil must not use as a source.
func (l *attackLab) foreignSources(ipv6 bool) map[string]netip.Addr {
	addr := netip.MustParseAddr
	near, far := l.near.Of(ipv6), l.far.Of(ipv6)
	unused := near
	for range 40 {
		unused = unused.Next()
	}
	list := map[string]netip.Addr{"pod of the node": near, "pod of another node": far, "an unused address in the pods' subnet": unused}
	if ipv6 {
		maps.Copy(list, map[string]netip.Addr{
			"gateway": addr("fd10:1::1"), "node": addr("fd16::1"), "other node": addr("fd16::2"), "router": addr("fd16::fe"), "tunnel's end": addr("fd30::2"),
			"outside": addr("fd20::1"), "nobody outside": addr("2001:db8::1"), "service": addr("fd96::1"), "somebody's link-local": addr("fe80::1"),
			"translated": addr("64:ff9b::808:808"), "site-local": addr("fec0::1"), "6to4": addr("2002:808:808::1"),
		})
		return list
	}
	maps.Copy(list, map[string]netip.Addr{
		"gateway": addr("10.1.1.1"), "node": l.node1.Address.Addr(), "other node": l.node2.Address.Addr(), "router": lab.RouterAddress.Addr(), "tunnel's end": addr("192.168.30.2"),
		"outside": lab.OutsideAddress.Addr(), "nobody outside": addr("8.8.8.8"), "service": addr("10.96.0.1"), "unspecified": addr("0.0.0.0"), "broadcast": addr("255.255.255.255"),
		"loopback": addr("127.0.0.1"), "multicast": addr("224.0.0.1"),
	})
	return list
}

// Pods and hosts that are not nodes attack kernel nodes. Each attack is dropped and counted, and
// does not affect other traffic.
func TestAttacks(t *testing.T) {
	l := newAttackLab(t, attackIPv4)
	t.Run("foreign sources", l.testForeignSources)
	t.Run("ARP and neighbour discovery", l.testNeighbours)
	t.Run("VXLAN", l.testVXLAN)
	t.Run("translated VXLAN", l.testTranslatedVXLAN)
	t.Run("VXLAN by another interface", l.testVXLANByAnotherInterface)
	t.Run("messages of a link", l.testMessagesOfLink)
	t.Run("path MTU of tunnels", l.testPathMTUOfTunnels)
	t.Run("sources of pods by the uplink", l.testUplink)
	t.Run("forged IPv6 by the uplink", l.testForgedIPv6)
	t.Run("packets of no connection", l.testInvalid)
	t.Run("outside of the window", l.testOutsideOfTheWindow)
	t.Run("ports of nodes", l.testReserved)
	t.Run("addresses of others", l.testAddressesOfOthers)
	t.Run("loopback of the node", l.testLoopback)
	t.Run("time-outs of connections", l.testTimeouts)
	t.Run("spoofed handshakes", l.testHandshakes)
	t.Run("pods with further addresses", l.testAllowedSources)
	t.Run("an agent that restarts", func(t *testing.T) {
		if err := l.StopAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		ear := map[netip.Addr]*frames.Wire{l.near.Of(false): l.near.Wire}
		forged := map[string][]byte{"without an agent": frames.Datagram(l.evil.MAC, l.evil.Gateway, l.far.Of(false), l.near.Of(false), "without an agent", false)}
		if names := l.arrived(t, forged, ear); len(names) > 0 {
			t.Errorf("arrived: %q", names)
		}
		if err := l.StartAgent(t.Context(), "node1"); err != nil {
			t.Fatal(err)
		}
		if names := l.arrived(t, forged, ear); len(names) > 0 {
			t.Errorf("arrived after the start: %q", names)
		}
	})
	labtest.RequireQuiet(t, l.Lab)
	requireRestartWithoutOperations(t, l.Lab, "node1")
}

func TestAttacksOnTunnelsOverIPv6(t *testing.T) {
	l := newAttackLab(t, attackIPv6)
	l.testVXLAN(t)
	t.Run("translated", l.testTranslatedVXLAN)
	t.Run("by another interface", l.testVXLANByAnotherInterface)
	t.Run("path MTU", l.testPathMTUOfTunnels)
	labtest.RequireQuiet(t, l.Lab)
}

func (l *attackLab) testForeignSources(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		before := l.drops(t, "node1")
		// The three directions: a local pod, a tunnel, and the outside with SNAT.
		targets := map[string]netip.Addr{"near": l.near.Of(ipv6), "far": l.far.Of(ipv6), "outside": outsideOf(ipv6)}
		outside := wireIn(t, l.state.Underlay(), "nodes")
		ears := map[netip.Addr]*frames.Wire{targets["near"]: l.near.Wire, targets["far"]: l.far.Wire, targets["outside"]: outside}
		forged := map[string][]byte{}
		stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
		for to, dst := range targets {
			for kind, src := range l.foreignSources(ipv6) {
				for _, fragment := range []bool{false, true} {
					name := fmt.Sprintf("[%s (%v) to %s, fragment: %v]", kind, src, to, fragment)
					forged[name] = frames.Datagram(l.evil.MAC, l.evil.Gateway, src, dst, fmt.Sprintf("%-120s", name), fragment)
				}
			}
			name := fmt.Sprintf("[foreign MAC address, IPv6: %v, to %s]", ipv6, to)
			forged[name] = frames.Datagram(stranger, l.evil.Gateway, l.evil.Of(ipv6), dst, fmt.Sprintf("%-120s", name), false)
		}
		if kinds := len(l.foreignSources(ipv6)); kinds != 15 {
			t.Errorf("%d kinds of sources", kinds)
		}
		for _, name := range l.arrived(t, forged, ears) {
			t.Errorf("arrived: %s", name)
		}
		reason := map[bool]vswitch.DropReason{false: vswitch.DropIPv4, true: vswitch.DropIPv6}[ipv6]
		l.wantCounted(t, before, "evil", reason, 15*3*2)
		l.wantCounted(t, before, "evil", vswitch.DropMAC, 3)
	}
	l.wantService(t)
}

// testMessagesOfLink: multicast listener and neighbour discovery messages of a pod, which conntrack
// does not track, leave the node neither to an unused cluster IP nor to another host.
func (l *attackLab) testMessagesOfLink(t *testing.T) {
	kinds := []byte{130, 131, 132, 133, 134, 135, 136, 137, 143}
	outside := wireIn(t, l.state.Underlay(), "nodes")
	ears := map[netip.Addr]*frames.Wire{outsideOf(true): outside, l.far.Of(true): l.far.Wire}
	before := l.drops(t, "node1")
	forged := map[string][]byte{}
	for _, to := range []netip.Addr{outsideOf(true), l.far.Of(true), netip.MustParseAddr("fd96::7778")} {
		for _, kind := range kinds {
			name := fmt.Sprintf("[type %d to %v]", kind, to)
			message := append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, l.evil.Of(true).AsSlice()...)
			forged[name] = frames.ICMP(l.evil.MAC, l.evil.Gateway, l.evil.Of(true), to, append(message, name...))
		}
	}
	for _, name := range l.arrived(t, forged, ears) {
		t.Errorf("arrived: %s", name)
	}
	l.wantCounted(t, before, "evil", vswitch.DropND, len(forged))
	l.wantService(t)
}

// testAllowedSources: a pod may send from addresses that both its annotation and the administrator
// allow.
func (l *attackLab) testAllowedSources(t *testing.T) {
	object := policylab.Template(lab.DefaultNamespace, "keepalived", "keepalived")
	object.Annotations = map[string]string{ipnet.SourcesAnnotation: "10.200.0.10, fd99::10, 10.201.0.10," + l.near.Of(false).String()}
	added := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "keepalived", Node: "node1", Template: object})
	owner := labtest.Wire(t, added[0])
	as := func(src netip.Addr, text string) []byte {
		return frames.Datagram(owner.MAC, owner.Gateway, src, l.near.Of(src.Is6()), text, false)
	}
	for _, vip := range []netip.Addr{netip.MustParseAddr("10.200.0.10"), netip.MustParseAddr("fd99::10")} {
		await.That(t, "packets from the further address arrive", func() error {
			owner.Wire.Send(t, as(vip, "from the further address"))
			if l.near.Wire.Receive(100*time.Millisecond, frames.Containing("from the further address")) == nil {
				return fmt.Errorf("nothing from %v", vip)
			}
			return nil
		})
	}
	check := func(when string) {
		t.Helper()
		before := l.drops(t, "node1")
		l.near.Wire.Drain()
		for _, src := range []string{"10.200.0.11", "10.201.0.10", l.near.Of(false).String(), "fd99::11"} {
			owner.Wire.Send(t, as(netip.MustParseAddr(src), "foreign"))
		}
		for _, vip := range []string{"10.200.0.10", "fd99::10"} {
			owner.Wire.Send(t, as(netip.MustParseAddr(vip), "own "+vip))
			seen := l.near.Wire.Receive(await.Patience, frames.Containing("own "+vip))
			if seen == nil {
				t.Errorf("%s: nothing from %s", when, vip)
			}
			if slices.ContainsFunc(seen, frames.Containing("foreign")) {
				t.Errorf("%s: a packet with a foreign source arrives", when)
			}
		}
		l.wantCounted(t, before, "keepalived", vswitch.DropIPv4, 3)
		l.wantCounted(t, before, "keepalived", vswitch.DropIPv6, 1)
		// Gratuitous ARP, as in a failover.
		vip := netip.MustParseAddr("10.200.0.10")
		owner.Wire.Send(t, frames.ARP(owner.MAC, false, owner.MAC, vip, vip))
		if drops := l.drops(t, "node1")[dropKey{"keepalived", vswitch.DropARP}]; drops != 0 {
			t.Errorf("%s: %d ARP packets about its own further address were dropped", when, drops)
		}
	}
	check("at first")
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}
