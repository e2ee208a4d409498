package vpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// TestConformanceOfVPP runs the suite on a real VPP, with packets.
func TestConformanceOfVPP(t *testing.T) {
	if os.Getenv(vpptest.BinaryVariable) == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + vpptest.BinaryVariable + "=/usr/bin/vpp")
	}
	vswitchtest.Run(t, vswitchtest.Config{
		SessionsOfDNAT: true, NoICMPErrors: true, ErrorsOfNoConnection: true, L3CrossConnectsAll: true, ForwardsByAddress: true,
		ClientsOfDNAT66Move: true, FlowsOfDNAT66Stay: true, ClientIPIgnored: true, ReflectionsStay: true,
		SilentDrops: true, PeersOfGroups: true,
		NewSite: func(t testing.TB) vswitchtest.Site { return newProcessSite(t) }, Parallel: true,
	})
}

// processSite is a VPP in a network namespace, with one end of a veth as its NIC.
//
//	peer ── uplink ══ eth0 ── VPP ── v<hash> ══ <host_if_name> ── pod
//
// Without vhost-net, VPP cannot create TAPs. Then each TAP is a veth, with VPP at one end by
// AF_PACKET.
type processSite struct {
	*vpptest.Process
	node, peer *vswitchtest.Host
	taps       bool
}

const uplink = "uplink"

func newProcessSite(t testing.TB) *processSite {
	t.Helper()
	s := &processSite{node: newNamespace(t), peer: newNamespace(t), taps: vhostNet()}
	s.node.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name %s netns %s", nicDevice, uplink, nsName(s.peer)))
	s.node.Exec(t, "ip link set dev "+nicDevice+" up")
	s.peer.Exec(t, "ip link set dev "+uplink+" up")
	s.Process = vpptest.NewProcess(t, s.node.NetNS)
	return s
}

func (s *processSite) NIC() string { return nicDevice }

// Self is the node's own stack, without objects of the vswitch.
func (s *processSite) Self() *vswitchtest.Host { return s.node }

func (s *processSite) Open(t testing.TB) vswitch.VSwitch {
	t.Helper()
	v, err := New(t.Context(), Options{Socket: s.Socket(), StatsSocket: s.StatsSocket(), Logger: silentLog})
	if err != nil {
		t.Fatal(err)
	}
	if s.taps {
		return v
	}
	return vethVSwitch{v, s}
}

// Connect bridges the far ends of both NICs.
func (s *processSite) Connect(t testing.TB, other vswitchtest.PacketSite) {
	t.Helper()
	o := other.(*processSite)
	o.peer.Exec(t, fmt.Sprintf("ip link set dev %s name other netns %s", uplink, nsName(s.peer)))
	for _, command := range []string{
		"ip link add name sw type bridge", "ip link set dev sw up",
		"ip link set dev uplink master sw", "ip link set dev other master sw up",
	} {
		s.peer.Exec(t, command)
	}
}

// Outside is the switch that joins the NICs.
func (s *processSite) Outside(t testing.TB, addr string) *vswitchtest.Host {
	t.Helper()
	s.peer.Exec(t, "ip addr add "+addr+" dev sw")
	completeChecksumsOf(t, s.peer, "sw")
	return s.peer
}

// Plug attaches a host that computes checksums in software, like pods: see
// tcpChecksumOffloadDisabled.
func (s *processSite) Plug(t testing.TB, hostIfName string) *vswitchtest.Host {
	t.Helper()
	pod := newNamespace(t)
	s.node.Exec(t, fmt.Sprintf("ip link set dev %s netns %s name eth0", hostIfName, nsName(pod)))
	completeChecksums(t, pod)
	return pod
}

// Foreign creates objects with vppctl and in the namespace.
func (s *processSite) Foreign(t testing.TB) func() []string {
	t.Helper()
	for _, command := range []string{
		"create loopback interface instance 99", "set interface state loop99 up", "set interface ip address loop99 10.200.0.1/24",
		"ip route add 10.202.0.0/16 via 10.200.0.9 loop99", "ip route add 10.203.0.0/16 via drop", "ip table add 77",
		"ip route add table 77 10.204.0.0/16 via drop", "set ip neighbor static loop99 10.200.0.9 02:00:00:00:00:09",
		"create bridge-domain 77", "create loopback interface instance 98", "set interface l2 bridge loop98 77",
		"l2fib add 02:00:00:00:00:08 77 loop98 static",
	} {
		s.CLI(command)
	}
	s.node.Exec(t, "ip link add name foreign0 type veth peer name foreign1")
	state := func() map[string]string {
		now := map[string]string{"foreign0": s.node.Exec(t, "ip -o link show dev foreign0")}
		for _, command := range []string{
			"show interface addr", "show ip fib 10.202.0.0/16", "show ip fib 10.203.0.0/16", "show ip fib table 77 10.204.0.0/16", "show ip neighbors loop99",
			"show bridge-domain 77 detail", "show l2fib bd_id 77",
		} {
			for line := range strings.Lines(s.CLI(command)) {
				fields := strings.Fields(line)
				if strings.HasPrefix(command, "show ip neighbors") && len(fields) > 1 {
					fields = fields[1:] // the first one is the time
				}
				for _, foreign := range []string{"loop99", "loop98", "10.200", "CLI", "02:00:00:00:00:0"} {
					if strings.Contains(line, foreign) && !strings.Contains(line, "to:[") {
						now[command] += fields[0] + foreign + "\n"
					}
				}
			}
		}
		return now
	}
	before := state()
	return func() (damage []string) {
		for what, now := range state() {
			if now != before[what] {
				damage = append(damage, fmt.Sprintf("%s: was %q, is %q", what, before[what], now))
			}
		}
		return damage
	}
}

func (s *processSite) nameOf(t testing.TB, tag string) string {
	t.Helper()
	v := open(t, s)
	defer v.Close()
	i, err := v.ifs.Index(t.Context(), tag)
	must(t, err)
	d, err := v.ifs.Details(t.Context(), i)
	must(t, err)
	return strings.TrimRight(d.InterfaceName, "\x00")
}

// Accidents returns the changes that VPP reports.
func (s *processSite) Accidents() []vswitchtest.Accident {
	topo := vswitchtest.Topology{Node: 1, NIC: nicDevice, Pods: 2}
	arp := models.Key(&vpp_l3.ARPEntry{Interface: vswitchtest.BVI, IpAddress: "192.168.30.2"})
	accident := func(name, iface, command string, keys ...string) vswitchtest.Accident {
		return vswitchtest.Accident{Name: name, Keys: keys, Do: func(t testing.TB) {
			t.Helper()
			if text := s.CLI(strings.ReplaceAll(command, "IF", s.nameOf(t, iface))); strings.Contains(text, "unknown") {
				t.Fatal(text)
			}
		}}
	}
	key := models.VPPInterfaceKey
	return []vswitchtest.Accident{
		accident("TAP down", topo.Tap(1), "set interface state IF down", key(topo.Tap(1))),
		accident("NIC down", nicDevice, "set interface state IF down", key(nicDevice)),
		accident("VXLAN tunnel down", "vxlan-default-2", "set interface state IF down", key("vxlan-default-2")),
		accident("loopback deleted", vswitchtest.BVI, "delete loopback interface intfc IF", key(vswitchtest.BVI)),
		accident("neighbour deleted", vswitchtest.BVI, "set ip neighbor del static IF 192.168.30.2 12:2b:00:00:00:02", arp),
		accident("neighbour changed", vswitchtest.BVI, "set ip neighbor static IF 192.168.30.2 02:00:00:00:00:03", arp),
	}
}

// vethVSwitch replaces each TAP by a veth.
type vethVSwitch struct {
	*VSwitch
	site *processSite
}

func (v vethVSwitch) Interfaces() vswitch.Interfaces {
	return vethInterfaces{v.VSwitch.Interfaces(), v.site}
}

type vethInterfaces struct {
	vswitch.Interfaces
	site *processSite
}

func vethOf(iface *vpp_interfaces.Interface) string {
	return "v" + models.TapHostIfName(iface.GetName())[:10]
}

func isTap(iface *vpp_interfaces.Interface) bool {
	return iface.GetType() == vpp_interfaces.Interface_TAP && iface.GetTap().GetToMicroservice() == ""
}

func hostEnd(iface *vpp_interfaces.Interface) string {
	if name := iface.GetTap().GetHostIfName(); name != "" {
		return name
	}
	return models.TapHostIfName(iface.GetName())
}

func asVeth(iface *vpp_interfaces.Interface) *vpp_interfaces.Interface {
	if !isTap(iface) {
		return iface
	}
	iface = proto.CloneOf(iface)
	iface.Type = vpp_interfaces.Interface_AF_PACKET
	iface.Link = &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: vethOf(iface)}}
	return iface
}

func (p vethInterfaces) Create(ctx context.Context, iface *vpp_interfaces.Interface) error {
	if isTap(iface) {
		if _, err := p.site.node.Try("ip link show dev " + vethOf(iface)); err != nil {
			_, err := p.site.node.Try(fmt.Sprintf("ip link add name %s type veth peer name %s", vethOf(iface), hostEnd(iface)))
			_, up := p.site.node.Try("ip link set dev " + vethOf(iface) + " up")
			if err := errors.Join(err, up); err != nil {
				return err
			}
		}
	}
	return p.Interfaces.Create(ctx, asVeth(iface))
}

func (p vethInterfaces) Update(ctx context.Context, old, new *vpp_interfaces.Interface) error {
	return p.Interfaces.Update(ctx, asVeth(old), asVeth(new))
}

func (p vethInterfaces) Delete(ctx context.Context, iface *vpp_interfaces.Interface) error {
	err := p.Interfaces.Delete(ctx, asVeth(iface))
	device := asVeth(iface).GetAfpacket().GetHostIfName()
	if err == nil && strings.HasPrefix(device, "v") {
		_, _ = p.site.node.Try("ip link del dev " + device)
	}
	return err
}

func (p vethInterfaces) List(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	return asTaps(ctx, p.Interfaces.List, expected)
}

func (p vethInterfaces) Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	return asTaps(ctx, p.Interfaces.Find, expected)
}

// asTaps calls a method with veths in place of TAPs and converts its results back.
func asTaps(ctx context.Context, list func(context.Context, []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error), expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	veths, taps := make([]*vpp_interfaces.Interface, len(expected)), map[string]*vpp_interfaces.Interface{}
	for i, iface := range expected {
		if veths[i] = asVeth(iface); isTap(iface) {
			taps[iface.GetName()] = iface
		}
	}
	found, err := list(ctx, veths)
	for i, iface := range found {
		if tap := taps[iface.GetName()]; tap != nil && iface.GetAfpacket().GetHostIfName() == vethOf(iface) {
			found[i] = proto.CloneOf(iface)
			found[i].Type, found[i].Link = tap.GetType(), tap.GetLink()
		}
	}
	return found, err
}
