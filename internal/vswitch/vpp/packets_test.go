package vpp

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"google.golang.org/protobuf/proto"
)

// pingTime bounds a ping that must succeed, including address resolution and tunnel handshakes.
const pingTime = 10 * time.Second

func newRealSite(t testing.TB) (*site, *VSwitch) {
	t.Helper()
	vpptest.Need(t)
	h := newNamespace(t)
	s := &site{VPP: vpptest.NewProcess(t, h.NetNS), host: h}
	return s, open(t, s)
}

// attachPod creates a host on an AF_PACKET interface with VPP as the default gateway.
func (s *site) attachPod(t testing.TB, v *VSwitch, name, addr, gateway string) *vswitchtest.Host {
	t.Helper()
	h := newNamespace(t)
	s.addTo(t, h, "v1"+name, addr)
	h.Exec(t, "ip route add default via "+gateway)
	iface := afPacket(name, "v1"+name)
	iface.IpAddresses = []string{gateway + "/24"}
	create(t, v, iface)
	return h
}

func routeVia(t testing.TB, v *VSwitch, dst, via, out string) *vpp_l3.Route {
	t.Helper()
	r := &vpp_l3.Route{DstNetwork: dst, NextHopAddr: via, OutgoingInterface: out}
	if err := v.Routes().Create(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func ping(t testing.TB, h *vswitchtest.Host, dst string) {
	t.Helper()
	if err := h.Ping(dst, 56, pingTime); err != nil {
		t.Error(err)
	}
}

func TestPacketsBetweenPods(t *testing.T) {
	s, v := newRealSite(t)
	a := s.attachPod(t, v, "a", "10.1.0.2/24", "10.1.0.1")
	b := s.attachPod(t, v, "b", "10.2.0.2/24", "10.2.0.1")
	ping(t, a, "10.2.0.2")
	if out, err := a.Try("ping -n -c 1 -W 2 10.2.0.1"); err != nil {
		t.Errorf("the gateway does not answer: %v %s", err, out)
	}

	t.Run("longer than the MTU", func(t *testing.T) {
		old := afPacket("b", "v1b")
		small := proto.CloneOf(old)
		small.Mtu = 1400
		if err := v.Interfaces().Update(t.Context(), old, small); err != nil {
			t.Fatal(err)
		}
		if err := a.Ping("10.2.0.2", 1300, pingTime); err != nil {
			t.Errorf("a packet that is short enough: %v", err)
		}
		// Only once, because the sender learns the MTU from VPP's answer.
		out, err := a.Try("ping -n -M do -c 1 -W 2 -s 1380 10.2.0.2")
		if err == nil || !strings.Contains(err.Error(), "1400") {
			t.Errorf("a packet that is too long: %v, %q: want an answer that says so", err, out)
		}
	})
	t.Run("unnumbered", func(t *testing.T) {
		gateway, pod := loopback("gateway"), afPacket("c", "v1c")
		gateway.IpAddresses = []string{"10.3.0.1/24"}
		pod.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "gateway"}
		c := newNamespace(t)
		s.addTo(t, c, "v1c", "10.3.0.2/32")
		c.Exec(t, "ip route add 10.3.0.1 dev eth0")
		c.Exec(t, "ip route add default via 10.3.0.1")
		create(t, v, gateway, pod)
		routeVia(t, v, "10.3.0.2/32", "10.3.0.2", "c")
		ping(t, c, "10.1.0.2")
		ping(t, a, "10.3.0.2")
	})
	t.Run("made again", func(t *testing.T) {
		iface := afPacket("b", "v1b")
		iface.IpAddresses = []string{"10.2.0.1/24"}
		// The pod has a new device of the same name, but VPP's socket belongs to the old one.
		s.host.Exec(t, "ip link del dev v1b")
		s.addTo(t, b, "v1b", "10.2.0.2/24")
		b.Exec(t, "ip route add default via 10.2.0.1")
		found, err := v.Interfaces().Find(t.Context(), []*vpp_interfaces.Interface{iface})
		if err != nil || len(found) != 1 || proto.Equal(found[0].GetAfpacket(), iface.GetAfpacket()) {
			t.Errorf("found %v, error %v: want it without its device", found, err)
		}
		create(t, v, iface)
		ping(t, a, "10.2.0.2")
	})
}

func TestHostIsKeptFromWhatVPPHasTakenOver(t *testing.T) {
	s, v := newRealSite(t)
	peer := newNamespace(t)
	s.addTo(t, peer, "v1nic", "10.7.0.2/24")
	s.host.Exec(t, "ip addr add 10.7.0.9/24 dev v1nic")
	s.host.Exec(t, "ip link set dev v1nic up")
	ping(t, peer, "10.7.0.9")
	_, mac, _ := strings.Cut(s.host.Exec(t, "ip -o link show dev v1nic"), "link/ether ")
	mac, _, _ = strings.Cut(mac, " ")

	port := nic("v1nic")
	port.IpAddresses = []string{"10.7.0.1/24"}
	for range 2 {
		create(t, v, port)
		ping(t, peer, "10.7.0.1")
		if err := peer.Ping("10.7.0.9", 56, time.Second); err == nil {
			t.Error("the host answers too")
		}
	}
	found, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{port})
	if err != nil || len(found) != 1 || found[0].GetPhysAddress() != mac {
		t.Errorf("found %v, error %v: want the MAC of the device, %s", found, err, mac)
	}
	remove(t, v, port)
	ping(t, peer, "10.7.0.9")
	if out := s.host.Exec(t, "nft list ruleset"); strings.Contains(out, "contiv-vpp") {
		t.Errorf("left over: %s", out)
	}
}

// TestPacketsThroughTunnels connects two VPPs by each kind of tunnel.
func TestPacketsThroughTunnels(t *testing.T) {
	type iface = vpp_interfaces.Interface
	sa, a := newRealSite(t)
	sb, b := newRealSite(t)
	for _, wire := range []string{"v1wire", "v1wire2"} {
		sa.host.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name %s netns %s", wire, wire, nsName(sb.host)))
	}
	ha := sa.attachPod(t, a, "pod", "10.1.0.2/24", "10.1.0.1")
	sb.attachPod(t, b, "pod", "10.2.0.2/24", "10.2.0.1")
	outer := []string{"192.168.16.1", "192.168.16.2"}
	keys := make([]wgtypes.Key, 2)
	for i, v := range []*VSwitch{a, b} {
		wire := nic("v1wire")
		wire.IpAddresses = []string{outer[i] + "/24"}
		create(t, v, wire, afPacket("second", "v1wire2"))
		keys[i], _ = wgtypes.GeneratePrivateKey()
	}
	socket := filepath.Join(t.TempDir(), "memif.sock")
	peer := func(end int) string { return outer[1-end] }

	for name, test := range map[string]func(end int, x *iface){
		"GRE": func(end int, x *iface) {
			x.Type = vpp_interfaces.Interface_GRE_TUNNEL
			x.Link = &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3, SrcAddr: outer[end], DstAddr: peer(end)}}
		},
		"GRE with frames": func(end int, x *iface) {
			x.Type = vpp_interfaces.Interface_GRE_TUNNEL
			x.Link = &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_TEB, SrcAddr: outer[end], DstAddr: peer(end)}}
			x.PhysAddress = fmt.Sprintf("02:00:00:00:99:%02x", end) // VPP assigns the same one to both
		},
		"IPIP": func(end int, x *iface) {
			x.Type = vpp_interfaces.Interface_IPIP_TUNNEL
			x.Link = &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{SrcAddr: outer[end], DstAddr: peer(end)}}
		},
		"WireGuard": func(end int, x *iface) {
			x.Type = vpp_interfaces.Interface_WIREGUARD_TUNNEL
			x.Link = &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: keys[end].String(), Port: 51820, SrcAddr: outer[end]}}
		},
		"VLAN": func(_ int, x *iface) {
			x.Type = vpp_interfaces.Interface_SUB_INTERFACE
			x.Link = &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{ParentName: "second", SubId: 5}}
		},
		"memif": func(end int, x *iface) {
			x.Type = vpp_interfaces.Interface_MEMIF
			x.Link = &vpp_interfaces.Interface_Memif{Memif: &vpp_interfaces.MemifLink{Master: end == 0, SocketFilename: socket, Id: 1}}
		},
		"bond": func(_ int, x *iface) {
			x.Type = vpp_interfaces.Interface_BOND_INTERFACE
			x.Link = &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{Mode: vpp_interfaces.BondLink_ACTIVE_BACKUP}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for end, v := range []*VSwitch{a, b} {
				x := &iface{Name: "x", Enabled: true, IpAddresses: []string{fmt.Sprintf("10.99.0.%d/24", end+1)}}
				test(end, x)
				create(t, v, x)
				t.Cleanup(func() { remove(t, v, x) })
				if name == "bond" {
					member := &vpp_interfaces.BondLink_BondedInterface{Name: "second"}
					if err := v.Interfaces().AddBondMember(t.Context(), "x", member); err != nil {
						t.Fatal(err)
					}
				}
				if name == "WireGuard" {
					p := &vpp_wireguard.Peer{
						WgIfName: "x", PublicKey: keys[1-end].PublicKey().String(), Endpoint: peer(end), Port: 51820, AllowedIps: []string{"10.0.0.0/8"},
					}
					if err := v.WireGuardPeers().Create(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
				r := routeVia(t, v, fmt.Sprintf("10.%d.0.0/24", 2-end), fmt.Sprintf("10.99.0.%d", 2-end), "x")
				t.Cleanup(func() {
					if err := v.Routes().Delete(context.Background(), r); err != nil {
						t.Error(err)
					}
				})
			}
			ping(t, ha, "10.2.0.2")
		})
	}
}

// completeChecksums makes the sender on eth0, a veth, compute checksums like a network card would.
// VPP 25.10 confuses the headers of a missing checksum when it decapsulates or encapsulates
// packets.
func completeChecksums(t testing.TB, h *vswitchtest.Host) {
	t.Helper()
	completeChecksumsOf(t, h, "eth0")
}

func completeChecksumsOf(t testing.TB, h *vswitchtest.Host, device string) {
	t.Helper()
	in, err := hostdev.Open(h.NetNS)
	must(t, err)
	defer in.Close()
	must(t, in.CompleteChecksums(device))
}

func TestPacketsThroughVXLANToTheKernel(t *testing.T) {
	s, v := newRealSite(t)
	pod := s.attachPod(t, v, "pod", "10.1.0.2/24", "10.1.0.1")
	peer := newNamespace(t)
	s.addTo(t, peer, "v1nic", "192.168.16.2/24")
	completeChecksums(t, peer)
	for _, command := range []string{
		"ip link add name vx type vxlan id 10 dstport 4789 local 192.168.16.2 remote 192.168.16.1", "ip link set dev vx up",
		"ip addr add 192.168.30.2/24 dev vx", "ip route add 10.1.0.0/24 via 192.168.30.1",
	} {
		peer.Exec(t, command)
	}
	port, bvi := nic("v1nic"), loopback("bvi")
	port.IpAddresses, bvi.IpAddresses = []string{"192.168.16.1/24"}, []string{"192.168.30.1/24"}
	bvi.PhysAddress = "12:2b:00:00:00:01"
	create(t, v, port, bvi, vxlanTunnel("tunnel", "192.168.16.1", "192.168.16.2", 10))
	bd := &vpp_l2.BridgeDomain{Name: "bd", Forward: true, Learn: true, Flood: true, UnknownUnicastFlood: true}
	if err := v.Bridges().Create(t.Context(), bd); err != nil {
		t.Fatal(err)
	}
	for _, member := range []*vpp_l2.BridgeDomain_Interface{{Name: "bvi", BridgedVirtualInterface: true}, {Name: "tunnel"}} {
		if err := v.Bridges().Bind(t.Context(), "bd", member); err != nil {
			t.Fatal(err)
		}
	}
	ping(t, peer, "10.1.0.2")
	ping(t, pod, "192.168.30.2")
}
