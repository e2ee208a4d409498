package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

func createOrSkip(t *testing.T, v *VSwitch, iface *vpp_interfaces.Interface) {
	t.Helper()
	err := v.Interfaces().Create(t.Context(), iface)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func greTunnel(name string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_GRE_TUNNEL, Enabled: true,
		Link: &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{TunnelType: vpp_interfaces.GreLink_L3, SrcAddr: "10.60.0.1", DstAddr: "10.60.0.2"}},
	}
}

func TestCreateOverADeviceThatExists(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	createOrSkip(t, v, greTunnel("a"))
	index := func() string { return strings.Fields(n.Exec(t, "ip -o link show dev c-a"))[0] }
	first := index()
	again := openKernel(t, n)
	if err := again.Interfaces().Create(t.Context(), greTunnel("a")); err != nil || index() != first {
		t.Errorf("the same: %v, device %s, was %s", err, index(), first)
	}
	other := greTunnel("a")
	other.GetGre().DstAddr = "10.60.0.3"
	if err := again.Interfaces().Create(t.Context(), other); err != nil || index() == first {
		t.Errorf("with another destination: %v, device %s, was %s", err, index(), first)
	}
	if err := again.Interfaces().Create(t.Context(), func() *vpp_interfaces.Interface { i := greTunnel("b"); i.GetGre().DstAddr = "10.60.0.3"; return i }()); err == nil ||
		!strings.Contains(err.Error(), "another device of kind gre has the same parameters") {
		t.Errorf("a second one: %v", err)
	}
	list, err := again.Interfaces().List(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].GetGre().GetDstAddr() != "10.60.0.3" {
		t.Errorf("%v, %v", list, err)
	}
	n.Exec(t, "ip link add c-half type gre local 10.61.0.1 remote 10.61.0.2")
	n.Exec(t, fmt.Sprintf("ip link set dev c-half group %d", own.DeviceGroup))
	n.Exec(t, "ip link add c-foreign type gre local 10.62.0.1 remote 10.62.0.2")
	list, err = again.Interfaces().List(t.Context(), nil)
	if err != nil || len(list) != 2 {
		t.Fatalf("with a half-made one: %v, %v", list, err)
	}
	for _, iface := range list {
		if err := again.Interfaces().Delete(t.Context(), iface); err != nil {
			t.Error(err)
		}
	}
	if left := n.Exec(t, "ip -br link show type gre"); strings.Contains(left, "c-a") || strings.Contains(left, "c-half") || !strings.Contains(left, "c-foreign") {
		t.Errorf("left: %s", left)
	}
}

func watch(t *testing.T, v *VSwitch) <-chan []string {
	t.Helper()
	reports := make(chan []string, 100)
	if err := v.Watch(t.Context(), func(_ string, keys ...string) { reports <- keys }); err != nil {
		t.Fatal(err)
	}
	return reports
}

func wantReport(t *testing.T, reports <-chan []string, key string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case keys := <-reports:
			for _, k := range keys {
				if k == key {
					return
				}
			}
		case <-deadline:
			t.Fatalf("%s is not reported", key)
		}
	}
}

func TestAccidentsOfTunnels(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	iface := greTunnel("a")
	createOrSkip(t, v, iface)
	reports := watch(t, v)
	for _, accident := range []string{"ip link set dev c-a down", "ip link del dev c-a"} {
		n.Exec(t, accident)
		wantReport(t, reports, models.Key(iface))
		if err := v.Interfaces().Create(t.Context(), iface); err != nil {
			t.Fatal(err)
		}
		if state := n.Exec(t, "ip -br link show dev c-a"); !strings.Contains(state, "UP") {
			t.Errorf("repaired after %q: %s", accident, state)
		}
	}
}

func TestBondSurvivesTheLossOfALink(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	bond := &vpp_interfaces.Interface{
		Name: "bond", Type: vpp_interfaces.Interface_BOND_INTERFACE, Enabled: true,
		Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{Mode: vpp_interfaces.BondLink_ACTIVE_BACKUP, BondedInterfaces: []*vpp_interfaces.BondLink_BondedInterface{
			{Name: "a"}, {Name: "b"},
		}}},
	}
	createOrSkip(t, v, bond)
	host := newNamespace(t, "host")
	host.Exec(t, "ip link add name br0 type bridge")
	host.Exec(t, "ip link set dev br0 up")
	host.Exec(t, "ip addr add 10.70.0.2/24 dev br0")
	for _, name := range []string{"a", "b"} {
		tap := &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, PhysAddress: "02:00:00:00:70:0" + name,
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2, HostIfName: "far-" + name}},
		}
		if err := v.Interfaces().Create(t.Context(), tap); err != nil {
			t.Fatal(err)
		}
		n.Exec(t, fmt.Sprintf("ip link set dev far-%s netns %s", name, nsName(host)))
		host.Exec(t, fmt.Sprintf("ip link set dev far-%s master br0 up", name))
	}
	for _, m := range bond.GetBond().GetBondedInterfaces() {
		if err := v.Interfaces().AddBondMember(t.Context(), "bond", m); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Interfaces().AddAddress(t.Context(), "bond", netip.MustParsePrefix("10.70.0.1/24")); err != nil {
		t.Fatal(err)
	}
	self := &vswitchtest.Host{NetNS: n.NetNS}
	ping := func(when string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			if err = self.Ping("10.70.0.2", 56, time.Second); err == nil {
				return
			}
		}
		t.Errorf("%s: %v", when, err)
	}
	ping("with both links")
	host.Exec(t, "ip link set dev far-a down")
	ping("without the first one")
	host.Exec(t, "ip link set dev far-a up")
	ping("with both again")
	host.Exec(t, "ip link set dev far-b down")
	ping("without the second one")

	list, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{bond})
	if err != nil {
		t.Fatal(err)
	}
	for _, iface := range list {
		if iface.GetType() == vpp_interfaces.Interface_TAP && iface.GetPhysAddress() != "02:00:00:00:70:0"+iface.GetName() {
			t.Errorf("a member has address %s of the bond", iface.GetPhysAddress())
		}
		if iface.GetType() == vpp_interfaces.Interface_BOND_INTERFACE && len(iface.GetBond().GetBondedInterfaces()) != 2 {
			t.Errorf("members: %v", iface)
		}
	}
	reports := watch(t, v)
	n.Exec(t, "ip link set dev c-a nomaster")
	wantReport(t, reports, models.Key(bond))
	for _, m := range bond.GetBond().GetBondedInterfaces() {
		if err := v.Interfaces().AddBondMember(t.Context(), "bond", m); err != nil {
			t.Error(err)
		}
		if err := v.Interfaces().RemoveBondMember(t.Context(), "bond", m); err != nil {
			t.Error(err)
		}
		if state := n.Exec(t, "ip -o link show dev c-"+m.GetName()); strings.Contains(state, "master") || !strings.Contains(state, "02:00:00:00:70:0"+m.GetName()) || !strings.Contains(state, ",UP") {
			t.Errorf("released: %s", state)
		}
	}
}

func TestWireGuardPeers(t *testing.T) {
	const private, public = "sBNOn07hMmOP826SC+QxwhfpVfehZQ31P5SC4P4sE2E=", "tOW9x/ri8O/kAJyYZjY5Wvca2rdviJ4KKY+y0jYdGDw="
	n := newNode(t)
	v := openKernel(t, n)
	iface := &vpp_interfaces.Interface{
		Name: "wg", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Enabled: true,
		Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: private, Port: 51820, SrcAddr: "10.60.0.1"}},
	}
	createOrSkip(t, v, iface)
	peer := &vpp_wireguard.Peer{WgIfName: "wg", PublicKey: public, Endpoint: "10.60.0.2", Port: 51820, AllowedIps: []string{"10.1.0.0/16", "fd00::7"}}
	if err := v.WireGuardPeers().Create(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	same := &vpp_wireguard.Peer{WgIfName: "wg", PublicKey: public, Endpoint: "10.60.0.3", Port: 51820}
	if err := v.WireGuardPeers().Create(t.Context(), same); err == nil || !strings.Contains(err.Error(), "same public key") {
		t.Errorf("a second peer with the key: %v", err)
	}
	again := openKernel(t, n)
	list, err := again.WireGuardPeers().List(t.Context(), nil)
	if err == nil && len(list) == 0 {
		t.Error("no peer is found")
	}
	for _, p := range list {
		if p.GetEndpoint() != "10.60.0.2" || p.GetPublicKey() != public || strings.Join(p.GetAllowedIps(), " ") != "10.1.0.0/16 fd00::7/128" {
			t.Errorf("found %v", p)
		}
		err = errors.Join(err, again.WireGuardPeers().Delete(t.Context(), p))
	}
	if err != nil {
		t.Error(err)
	}
	if list, err := again.WireGuardPeers().List(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// router advertises fd00:80::/64 on a device several times a second.
func router(t *testing.T, h *vswitchtest.Host, device string) {
	t.Helper()
	h.Exec(t, "ip addr add fe80::99/64 dev "+device+" nodad")
	ns := &namespace.Namespace{}
	var err error
	if ns, err = namespace.Open(h.NetNS); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	var fd, index int
	err = ns.Run(func() error {
		data, err := os.ReadFile("/proc/thread-self/net/if_inet6")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); f[5] == device {
				fmt.Sscanf(f[1], "%x", &index)
			}
		}
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParseAddr("fd00:80::").As16()
	message := append([]byte{
		134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, // router advertisement: hops 64, lifetime 1800 s
		3, 4, 64, 0xc0, 0, 0, 0x07, 0x08, 0, 0, 0x07, 0x08, 0, 0, 0, 0,
	}, prefix[:]...)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				_ = unix.Sendto(fd, message, 0, &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: uint32(index)})
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done; unix.Close(fd) })
}

func TestRouterAdvertisements(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	tap := &vpp_interfaces.Interface{
		Name: "a", Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2, HostIfName: "far-a"}},
	}
	if err := v.Interfaces().Create(t.Context(), tap); err != nil {
		t.Fatal(err)
	}
	host := n.Plug(t, "far-a")
	host.Exec(t, "ip link set dev eth0 up")
	router(t, host, "eth0")
	await := func(what, command, wanted string, there bool) {
		t.Helper()
		eventually(t, what+", "+command, func() bool { return strings.Contains(n.Exec(t, command), wanted) == there })
	}
	const addrs, routes = "ip -6 -o addr show dev c-a scope global", "ip -6 route show default dev c-a"
	for _, nd := range []*vpp_interfaces.Interface_IP6ND{
		{AddressAutoconfig: true}, {InstallDefaultRoutes: true}, {AddressAutoconfig: true, InstallDefaultRoutes: true},
	} {
		if err := v.Interfaces().SetIP6ND(t.Context(), "a", nd); err != nil {
			t.Fatal(err)
		}
		await(fmt.Sprint(nd), addrs, "fd00:80:", nd.GetAddressAutoconfig())
		await(fmt.Sprint(nd), routes, "via fe80::99", nd.GetInstallDefaultRoutes())
		list, err := openKernel(t, n).Interfaces().List(t.Context(), nil)
		if err != nil || len(list) != 1 || list[0].GetIp6Nd().String() != nd.String() {
			t.Errorf("a restarted driver finds %v, %v", list, err)
		}
		if err := v.Interfaces().UnsetIP6ND(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		await("afterwards", addrs, "fd00:80:", false)
		await("afterwards", routes, "via", false)
	}
	list, err := v.Interfaces().List(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].GetIp6Nd() != nil {
		t.Errorf("unset: %v, %v", list, err)
	}
}
