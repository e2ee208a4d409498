package vpp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

func wantUnsupported(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("%s: got %v", what, err)
	}
}

func permitTen(name string) *vpp_acl.ACL {
	return &vpp_acl.ACL{Name: name, Rules: []*vpp_acl.ACL_Rule{{
		Action: vpp_acl.ACL_Rule_PERMIT,
		IpRule: &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: "10.0.0.0/8", DestinationNetwork: "0.0.0.0/0"}},
	}}}
}

func TestABFs(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		ctx := t.Context()
		loopbacks(t, v, "in", "out", "other")
		for _, name := range []string{"web", "mail"} {
			if err := v.ACLs().Create(ctx, permitTen(name)); err != nil {
				t.Fatal(err)
			}
		}
		path := func(nextHop, iface string, weight uint32) *vpp_abf.ABF_ForwardingPath {
			return &vpp_abf.ABF_ForwardingPath{NextHopIp: nextHop, InterfaceName: iface, Weight: weight}
		}
		abf := &vpp_abf.ABF{Index: 7, AclName: "web", ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{path("10.1.0.1", "out", 1)}}
		six := &vpp_abf.ABF{Index: 8, AclName: "mail", ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{path("fd00::1", "out", 1), path("fd00::2", "other", 3)}}
		port := v.ABFs()
		createTwice[*vpp_abf.ABF](t, port, abf, six)

		at := &vpp_abf.ABF_AttachedInterface{InputInterface: "in", Priority: 5}
		abf.AttachedInterfaces = []*vpp_abf.ABF_AttachedInterface{at}
		six.AttachedInterfaces = []*vpp_abf.ABF_AttachedInterface{{InputInterface: "in", Priority: 6, IsIpv6: true}}
		attach := func() {
			t.Helper()
			for range 2 {
				for _, a := range []*vpp_abf.ABF{abf, six} {
					if err := port.Attach(ctx, a.Index, a.AttachedInterfaces[0]); err != nil {
						t.Fatal(err)
					}
				}
			}
			wantValues[*vpp_abf.ABF](t, port, nil, abf, six)
		}
		attach()
		at.Priority = 1
		attach()
		wantValues[*vpp_abf.ABF](t, open(t, s).ABFs(), nil, abf, six)

		// The paths, and the whole list, can be replaced while attached.
		for _, paths := range [][]*vpp_abf.ABF_ForwardingPath{
			{path("10.1.0.1", "out", 1), path("10.1.0.2", "other", 2)},
			{path("10.1.0.2", "other", 1)},
			{path("10.1.0.3", "out", 1)},
			{path("10.1.0.3", "out", 9)},
			{{NextHopIp: "10.1.0.4", InterfaceName: "out", Weight: 1, Dvr: true}},
		} {
			abf.ForwardingPaths = paths
			if err := port.Create(ctx, abf); err != nil {
				t.Fatal(err)
			}
			wantValues[*vpp_abf.ABF](t, port, []*vpp_abf.ABF{abf}, abf, six)
		}
		abf.ForwardingPaths = abf.ForwardingPaths[:1]
		abf.ForwardingPaths[0] = path("10.1.0.1", "", 1)
		abf.AclName = "mail"
		if err := port.Create(ctx, abf); err != nil {
			t.Fatal(err)
		}
		wantValues[*vpp_abf.ABF](t, port, nil, abf, six)

		for range 2 {
			if err := port.Detach(ctx, 7, at); err != nil {
				t.Fatal(err)
			}
		}
		abf.AttachedInterfaces = nil
		wantValues[*vpp_abf.ABF](t, port, nil, abf, six)
		deleteTwice[*vpp_abf.ABF](t, port, abf, six)

		wantUnsupported(t, "without paths", port.Create(ctx, &vpp_abf.ABF{Index: 9, AclName: "web"}))
		for name, err := range map[string]error{
			"an access list that is not there": port.Create(ctx, &vpp_abf.ABF{Index: 9, AclName: "no", ForwardingPaths: abf.ForwardingPaths}),
			"an ABF that is not there":         port.Attach(ctx, 99, at),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestSTNRules(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "a", "b")
		rules := []*vpp_stn.Rule{{IpAddress: "10.0.0.1", Interface: "a"}, {IpAddress: "FD00::1", Interface: "a"}}
		createTwice(t, v.STNRules(), rules...)
		wantValues(t, open(t, s).STNRules(), rules, rules...)
		other := &vpp_stn.Rule{IpAddress: "10.0.0.1", Interface: "b"}
		if err := v.STNRules().Create(t.Context(), other); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("an address of another interface: %v", err)
		}
		if err := v.STNRules().Delete(t.Context(), other); err != nil {
			t.Error(err)
		}
		wantValues(t, v.STNRules(), rules, rules...)
		deleteTwice(t, v.STNRules(), rules...)
	})
}

// A rule is complete only if VPP's own messages to the host are included.
func TestSTNRulesVouchForVPP(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		host := loopback("host")
		create(t, v, host)
		rules := []*vpp_stn.Rule{{IpAddress: "10.0.0.1", Interface: "host"}, {IpAddress: "10.0.0.2", Interface: "host"}, {IpAddress: "fd00::1", Interface: "host"}}
		createTwice(t, v.STNRules(), rules...)
		must(t, v.Interfaces().AddAddress(t.Context(), "host", netip.MustParsePrefix("172.30.1.1/24")))
		wantValues(t, v.STNRules(), rules, rules...)
		for range 2 {
			all := translations(t, v, false)
			if len(all) != 1 || convert.Addr(all[0].Vip.Addr) != netip.MustParseAddr("172.30.1.1") || all[0].Vip.Port != 0 {
				t.Fatalf("VPP translates %v, want 172.30.1.1 alone, which is not translated", all)
			}
			wantDNAT66(t, v) // it belongs to no value
			must(t, v.vpp.Call(t.Context(), session.Core, &cnat.CnatTranslationDel{ID: all[0].ID}, &cnat.CnatTranslationDelReply{}))
			restarted := open(t, s)
			wantValues(t, restarted.STNRules(), rules, rules[2])
			must(t, restarted.STNRules().Create(t.Context(), rules[0]))
			wantValues(t, restarted.STNRules(), rules, rules...)
			v = restarted
		}
		must(t, v.STNRules().Delete(t.Context(), rules[0]))
		wantValues(t, v.STNRules(), rules[1:], rules[1:]...)
		deleteTwice(t, v.STNRules(), rules[1:]...)
		if all := translations(t, v, false); len(all) > 0 {
			t.Errorf("left: %v", all)
		}
	})
}

func TestIPRedirects(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "in", "out", "other")
		redirects := []*vpp_punt.IPRedirect{
			{L3Protocol: vpp_punt.L3Protocol_IPV4, TxInterface: "out", NextHop: "10.0.0.1"},
			{L3Protocol: vpp_punt.L3Protocol_IPV6, RxInterface: "in", TxInterface: "other", NextHop: "fd00::1"},
		}
		createTwice(t, v.IPRedirects(), redirects...)
		redirects[0].NextHop = "10.0.0.2"
		createTwice(t, v.IPRedirects(), redirects...)
		wantValues(t, open(t, s).IPRedirects(), nil, redirects...)
		taken := &vpp_punt.IPRedirect{L3Protocol: vpp_punt.L3Protocol_ALL, TxInterface: "other", NextHop: "10.0.0.1"}
		if err := v.IPRedirects().Create(t.Context(), taken); err == nil || !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("already redirected: %v", err)
		}
		deleteTwice(t, v.IPRedirects(), redirects...)
		createTwice(t, v.IPRedirects(), taken)
		deleteTwice(t, v.IPRedirects(), taken)
	})
}

func TestPuntSockets(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		ports := []*vpp_punt.ToHost{
			{L3Protocol: vpp_punt.L3Protocol_ALL, L4Protocol: vpp_punt.L4Protocol_UDP, Port: 1234, SocketPath: "/run/a.sock"},
			{L3Protocol: vpp_punt.L3Protocol_IPV4, L4Protocol: vpp_punt.L4Protocol_UDP, Port: 4321, SocketPath: "/run/b.sock"},
		}
		createTwice(t, v.PuntsToHost(), ports...)
		ports[1].SocketPath = "/run/c.sock"
		createTwice(t, v.PuntsToHost(), ports...)
		exceptions := []*vpp_punt.Exception{{Reason: "ipsec4-no-such-tunnel", SocketPath: "/run/d.sock"}}
		createTwice(t, v.PuntExceptions(), exceptions...)
		wantValues(t, open(t, s).PuntsToHost(), ports, ports...)
		wantUnsupported(t, "TCP", v.PuntsToHost().Create(t.Context(), &vpp_punt.ToHost{
			L3Protocol: vpp_punt.L3Protocol_IPV4, L4Protocol: vpp_punt.L4Protocol_TCP, Port: 80, SocketPath: "/run/a.sock"}))
		wantUnsupported(t, "a reason that is none", v.PuntExceptions().Create(t.Context(), &vpp_punt.Exception{Reason: "boredom", SocketPath: "/run/a.sock"}))
		deleteTwice(t, v.PuntsToHost(), ports...)
		deleteTwice(t, v.PuntExceptions(), exceptions...)
	})
}

func TestAgeOfNeighbours(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		port := v.IPScanNeighbors()
		wantValues(t, port, nil)
		for _, scan := range []*vpp_l3.IPScanNeighbor{
			{Mode: vpp_l3.IPScanNeighbor_BOTH, ScanInterval: 1, StaleThreshold: 7}, {Mode: vpp_l3.IPScanNeighbor_IPV6},
			{Mode: vpp_l3.IPScanNeighbor_IPV4, StaleThreshold: 1}, {Mode: vpp_l3.IPScanNeighbor_DISABLED},
		} {
			createTwice(t, port, scan)
		}
		wantUnsupported(t, "for ever", port.Create(t.Context(), &vpp_l3.IPScanNeighbor{Mode: vpp_l3.IPScanNeighbor_BOTH, StaleThreshold: math.MaxUint32}))
		age := &ip_neighbor.IPNeighborConfig{Af: ip_types.ADDRESS_IP4, MaxNumber: 100, MaxAge: 61}
		if err := v.vpp.Call(t.Context(), session.Core, age, &ip_neighbor.IPNeighborConfigReply{}); err != nil {
			t.Fatal(err)
		}
		if list, err := port.List(t.Context(), nil); err != nil || len(list) != 1 || vswitch.StaleThreshold(list[0]) == 1 {
			t.Errorf("listed %v %v", list, err)
		}
		deleteTwice(t, port, &vpp_l3.IPScanNeighbor{})
		now := &ip_neighbor.IPNeighborConfigGetReply{}
		if err := v.vpp.Call(t.Context(), session.Core, &ip_neighbor.IPNeighborConfigGet{}, now); err != nil || now.MaxNumber != 100 {
			t.Errorf("the limit of neighbours is %d %v", now.MaxNumber, err)
		}
	})
}

func TestDHCPProxies(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		proxy := func(source string, servers ...string) *vpp_l3.DHCPProxy {
			p := &vpp_l3.DHCPProxy{SourceIpAddress: source}
			for _, addr := range servers {
				p.Servers = append(p.Servers, &vpp_l3.DHCPProxy_DHCPServer{IpAddress: addr})
			}
			return p
		}
		createTwice(t, v.DHCPProxies(), proxy("10.0.0.1", "10.0.1.1", "10.0.1.2"), proxy("fd00::1", "fd01::1"))
		for _, p := range []*vpp_l3.DHCPProxy{proxy("10.0.0.1", "10.0.1.2"), proxy("10.0.0.2", "10.0.1.2"), proxy("10.0.0.2", "10.0.1.3")} {
			createTwiceAmong(t, v.DHCPProxies(), p, proxy("fd00::1", "fd01::1"))
		}
		deleteTwice(t, v.DHCPProxies(), proxy("10.0.0.2", "10.0.1.3"), proxy("fd00::1", "fd01::1"))
	})
}

// createTwiceAmong creates a value twice and lists it among others.
func createTwiceAmong(t testing.TB, port vswitch.Values[*vpp_l3.DHCPProxy], p *vpp_l3.DHCPProxy, others ...*vpp_l3.DHCPProxy) {
	t.Helper()
	for range 2 {
		if err := port.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	wantValues(t, port, nil, append(others, p)...)
}

func TestTEIBs(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "a")
		entry := &vpp_l3.TeibEntry{Interface: "a", PeerAddr: "10.0.0.1", NextHopAddr: "192.0.2.1"}
		other := &vpp_l3.TeibEntry{Interface: "a", PeerAddr: "FD00::2", NextHopAddr: "2001:db8::1"}
		createTwice(t, v.TEIBs(), entry, other)
		entry.NextHopAddr = "192.0.2.9"
		createTwice(t, v.TEIBs(), entry, other)
		wantValues(t, open(t, s).TEIBs(), []*vpp_l3.TeibEntry{other}, entry, other)
		deleteTwice(t, v.TEIBs(), entry, other)
	})
}

// Without a plugin, only its features are missing.
func TestExtrasOfMissingPlugins(t *testing.T) {
	s := vpptest.New(t)
	s.Without("abf", "stn", "dhcp", "wireguard")
	v := open(t, s)
	for name, list := range map[string]func() (int, error){
		"ABF":  func() (int, error) { l, err := v.ABFs().List(t.Context(), nil); return len(l), err },
		"STN":  func() (int, error) { l, err := v.STNRules().List(t.Context(), nil); return len(l), err },
		"DHCP": func() (int, error) { l, err := v.DHCPProxies().List(t.Context(), nil); return len(l), err },
		"WG":   func() (int, error) { l, err := v.WireGuardPeers().List(t.Context(), nil); return len(l), err },
	} {
		if n, err := list(); n != 0 || err != nil {
			t.Errorf("%s: %d values, %v", name, n, err)
		}
	}
	loopbacks(t, v, "a")
	err := v.STNRules().Create(t.Context(), &vpp_stn.Rule{IpAddress: "10.0.0.1", Interface: "a"})
	if wantUnsupported(t, "STN", err); err == nil || !strings.Contains(err.Error(), "stn_plugin.so") {
		t.Errorf("the error does not name the plugin: %v", err)
	}
}

func TestWireGuardPeers(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		key := func(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }
		tunnel := &vpp_interfaces.Interface{Name: "wg", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Link: &vpp_interfaces.Interface_Wireguard{
			Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: key(64), Port: 51820, SrcAddr: "192.0.2.1"}}}
		if err := v.Interfaces().Create(t.Context(), tunnel); err != nil {
			t.Fatal(err)
		}
		peers := []*vpp_wireguard.Peer{
			{WgIfName: "wg", PublicKey: key(2), Endpoint: "192.0.2.2", Port: 51820, PersistentKeepalive: 25, AllowedIps: []string{"10.1.0.0/16", "fd00::/64"}},
			{WgIfName: "wg", PublicKey: key(3), Endpoint: "192.0.2.3", Port: 51820, AllowedIps: []string{"10.2.0.0/16"}},
		}
		createTwice(t, v.WireGuardPeers(), peers...)
		wantValues(t, open(t, s).WireGuardPeers(), nil, peers...)
		peers[1].AllowedIps = []string{"10.3.0.0/16"}
		createTwice(t, v.WireGuardPeers(), peers...)
		wantUnsupported(t, "no allowed IPs", v.WireGuardPeers().Create(t.Context(), &vpp_wireguard.Peer{WgIfName: "wg", PublicKey: key(4), Endpoint: "192.0.2.4"}))
		deleteTwice(t, v.WireGuardPeers(), peers...)
	})
}
