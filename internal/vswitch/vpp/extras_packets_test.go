package vpp

import (
	"strings"
	"testing"
	"time"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
)

func (s *site) joinHost(t testing.TB, v *VSwitch, h *vswitchtest.Host, name string, hostAddrs string, addrs ...string) {
	t.Helper()
	list := strings.Fields(hostAddrs)
	s.addTo(t, h, name, list[0])
	for _, addr := range list[1:] {
		h.Exec(t, "ip addr add "+addr+" dev eth0 nodad")
	}
	s.host.Exec(t, "ip link set dev "+name+" up")
	iface := afPacket(name, name)
	iface.IpAddresses = addrs
	create(t, v, iface)
}

func exec(t testing.TB, h *vswitchtest.Host, commands ...string) {
	t.Helper()
	for _, command := range commands {
		h.Exec(t, command)
	}
}

// wantEcho allows time for neighbour resolution.
func wantEcho(t testing.TB, what string, h *vswitchtest.Host, dst string) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if err = h.Ping(dst, 100, 300*time.Millisecond); err == nil {
			return
		}
	}
	t.Errorf("%s: no answer from %s: %v", what, dst, err)
}

func wantNoEcho(t testing.TB, what string, h *vswitchtest.Host, dst string) {
	t.Helper()
	if err := h.Ping(dst, 100, 500*time.Millisecond); err == nil {
		t.Errorf("%s: %s answers", what, dst)
	}
}

// A host behind VPP and one behind a Linux kernel communicate through segments of both.
func TestSegmentsOfVPPAndKernel(t *testing.T) {
	s, v := newRealSite(t)
	h, far, behind := newNamespace(t), newNamespace(t), newNamespace(t)
	s.joinHost(t, v, h, "a", "10.51.0.1/24 fd51::1/64", "10.51.0.9/24", "fd51::9/64")
	s.joinHost(t, v, far, "up", "192.0.2.2/24 fd16::2/64", "192.0.2.1/24", "fd16::1/64")
	exec(t, h, "ip -4 route add default via 10.51.0.9", "ip -6 route add default via fd51::9")
	exec(t, far,
		"sysctl -qw net.ipv6.conf.all.forwarding=1", "sysctl -qw net.ipv4.ip_forward=1",
		"sysctl -qw net.ipv6.conf.all.seg6_enabled=1", "sysctl -qw net.ipv6.conf.eth0.seg6_enabled=1", "sysctl -qw net.ipv6.conf.lo.seg6_enabled=1",
		"sysctl -qw net.ipv4.conf.all.rp_filter=0", "sysctl -qw net.ipv4.conf.eth0.rp_filter=0",
		"ip link add name down type veth peer name eth0 netns "+nsName(behind), "ip link set dev down up",
		"ip addr add 10.52.0.9/24 dev down", "ip addr add fd52::9/64 dev down nodad", "ip sr tunsrc set fd16::2",
		"ip -6 route add fc00:1::/64 via fd16::1",
		"ip -6 route add fc00:2::e/128 encap seg6local action End dev eth0",
		"ip -6 route add fc00:2::4/128 encap seg6local action End.DX4 nh4 0.0.0.0 dev eth0",
		"ip -6 route add fc00:2::6/128 encap seg6local action End.DT6 table 254 dev eth0",
	)
	exec(t, behind, "ip link set dev eth0 up", "ip addr add 10.52.0.1/24 dev eth0", "ip addr add fd52::1/64 dev eth0 nodad",
		"ip -4 route add default via 10.52.0.9", "ip -6 route add default via fd52::9",
		"sysctl -qw net.ipv6.conf.all.seg6_enabled=1", "sysctl -qw net.ipv6.conf.eth0.seg6_enabled=1")
	back := func(v4, v6 string) {
		t.Helper()
		exec(t, far,
			"ip route replace 10.51.0.0/24 encap seg6 mode encap segs "+v4+" dev eth0",
			"ip -6 route replace fd51::/64 encap seg6 mode encap segs "+v6+" dev eth0")
	}
	ctx := t.Context()
	if err := v.Routes().Create(ctx, &vpp_l3.Route{DstNetwork: "fc00:2::/64", NextHopAddr: "fd16::2", OutgoingInterface: "up"}); err != nil {
		t.Fatal(err)
	}
	createTwice(t, v.SRv6().Globals(), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd16::1"})
	createTwice(t, v.SRv6().LocalSIDs(),
		end("fc00:1::e", false), endX("fc00:1::a", "up", "fd16::2"), endDT4("fc00:1::4"), endDT6("fc00:1::6"),
		endDX4("fc00:1::d4", "a", "10.51.0.1"), endDX6("fc00:1::d6", "a", "fd51::1"))
	policies := []*vpp_srv6.Policy{
		srPolicyTo("fc00:1::b4", srWay(1, "fc00:2::e fc00:2::4")), srPolicyTo("fc00:1::b6", srWay(1, "fc00:2::6")),
	}
	createTwice(t, v.SRv6().Policies(), policies...)
	steerings := []*vpp_srv6.Steering{steerL3("IPv4", "10.52.0.0/24", "fc00:1::b4"), steerL3("IPv6", "fd52::/64", "fc00:1::b6")}
	createTwice(t, v.SRv6().Steerings(), steerings...)

	for _, way := range []struct{ what, v4, v6 string }{
		{"END.DT4 and END.DT6", "fc00:1::4", "fc00:1::6"},
		{"END.DX4 and END.DX6", "fc00:1::d4", "fc00:1::d6"},
		{"END before", "fc00:1::e,fc00:1::4", "fc00:1::e,fc00:1::d6"},
		{"END.X before, and back", "fc00:1::a,fc00:2::e,fc00:1::d4", "fc00:1::a,fc00:2::e,fc00:1::6"},
	} {
		back(way.v4, way.v6)
		wantEcho(t, way.what, h, "10.52.0.1")
		wantEcho(t, way.what, h, "fd52::1")
	}
	back("fc00:1::4", "fc00:1::6")
	createTwice(t, v.SRv6().Policies(), srPolicyTo("fc00:1::b4", srWay(1, "fc00:2::4"), srWay(2, "fc00:2::e fc00:2::e fc00:2::4")), policies[1])
	wantEcho(t, "after the policy changed", h, "10.52.0.1")
	createTwice(t, v.SRv6().Globals(), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd51::9"})
	wantEcho(t, "with another source", h, "10.52.0.1")
	wantEcho(t, "with another source", h, "fd52::1")
	inserted := srPolicyTo("fc00:1::b6", srWay(1, "fc00:2::e"))
	inserted.SrhEncapsulation = false
	if err := v.SRv6().Policies().Create(ctx, inserted); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, "with an inserted header", h, "fd52::1")
	if err := v.SRv6().Steerings().Delete(ctx, steerings[0]); err != nil {
		t.Fatal(err)
	}
	wantNoEcho(t, "without the steering", h, "10.52.0.1")
}

// Packets permitted by an access list take another path.
func TestABFOfPackets(t *testing.T) {
	s, v := newRealSite(t)
	h, one, two := newNamespace(t), newNamespace(t), newNamespace(t)
	s.joinHost(t, v, h, "a", "10.51.0.1/24", "10.51.0.9/24")
	s.joinHost(t, v, one, "one", "10.1.0.1/24", "10.1.0.9/24")
	s.joinHost(t, v, two, "two", "10.2.0.1/24", "10.2.0.9/24")
	exec(t, h, "ip route add default via 10.51.0.9")
	exec(t, one, "ip route add default via 10.1.0.9", "ip addr add 10.99.0.1/32 dev lo")
	exec(t, two, "ip route add default via 10.2.0.9", "ip addr add 10.99.0.2/32 dev lo")
	ctx := t.Context()
	route := &vpp_l3.Route{DstNetwork: "10.99.0.0/24", NextHopAddr: "10.1.0.1", OutgoingInterface: "one"}
	if err := v.Routes().Create(ctx, route); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, "by the route", h, "10.99.0.1")
	wantNoEcho(t, "by the route", h, "10.99.0.2")
	list := permitTen("to two")
	list.Rules[0].IpRule.Ip.DestinationNetwork = "10.99.0.2/32"
	if err := v.ACLs().Create(ctx, list); err != nil {
		t.Fatal(err)
	}
	abf := &vpp_abf.ABF{Index: 1, AclName: "to two", ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{NextHopIp: "10.2.0.1", InterfaceName: "two"}}}
	at := &vpp_abf.ABF_AttachedInterface{InputInterface: "a"}
	if err := v.ABFs().Create(ctx, abf); err != nil {
		t.Fatal(err)
	}
	if err := v.ABFs().Attach(ctx, 1, at); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, "by the ABF", h, "10.99.0.2")
	wantEcho(t, "by the route still", h, "10.99.0.1")
	if err := v.ABFs().Detach(ctx, 1, at); err != nil {
		t.Fatal(err)
	}
	wantNoEcho(t, "without the ABF", h, "10.99.0.2")
}

// Packets for VPP's address that VPP does not handle reach the host.
func TestPacketsForTheHost(t *testing.T) {
	s, v := newRealSite(t)
	h, host := newNamespace(t), newNamespace(t)
	ctx := t.Context()
	s.joinHost(t, v, h, "a", "10.51.0.1/24", "10.51.0.9/24")
	s.joinHost(t, v, host, "host", "192.0.2.2/24", "192.0.2.1/24")
	exec(t, host, "ip addr add 10.51.0.9/32 dev lo", "ip route add default via 192.0.2.1")
	port := host.Serve(t, "10.51.0.9")
	asked := func(times int) (err error) {
		for range times {
			if _, err = h.Ask("10.51.0.9", port); err == nil {
				return nil
			}
		}
		return err
	}
	if asked(1) == nil {
		t.Error("VPP's address answers before anything is handed over")
	}
	redirect := &vpp_punt.IPRedirect{L3Protocol: vpp_punt.L3Protocol_IPV4, TxInterface: "host", NextHop: "192.0.2.2"}
	if err := v.IPRedirects().Create(ctx, redirect); err != nil {
		t.Fatal(err)
	}
	if err := asked(3); err != nil {
		t.Errorf("with a redirection: %v", err)
	}
	if err := v.IPRedirects().Delete(ctx, redirect); err != nil {
		t.Fatal(err)
	}
	if asked(1) == nil {
		t.Error("it answers without a redirection")
	}

	rule := &vpp_stn.Rule{IpAddress: "10.51.0.9", Interface: "host"}
	// VPP sends to this fixed hardware address and answers no ARP requests for its own addresses.
	exec(t, host, "ip link set dev eth0 address 00:00:00:00:00:02", "sysctl -qw net.ipv4.conf.all.arp_announce=2")
	if err := v.STNRules().Create(ctx, rule); err != nil {
		t.Fatal(err)
	}
	if err := asked(3); err != nil {
		t.Errorf("with an STN rule: %v", err)
	}
	wantEcho(t, "VPP answers itself if it can", h, "10.51.0.9")
}
