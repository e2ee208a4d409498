package kernel

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/nat"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/kvscheduler"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

func manyServices(services, backends int) []*vpp_nat.DNat44 {
	var list []*vpp_nat.DNat44
	for s := range services {
		m := &vpp_nat.DNat44_StaticMapping{
			ExternalIp: fmt.Sprintf("10.%d.%d.%d", 96+s/62500, s/250%250, s%250+1), ExternalPort: 80, TwiceNat: vpp_nat.DNat44_StaticMapping_SELF,
		}
		for n := range backends {
			m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{
				LocalIp: fmt.Sprintf("10.1.%d.%d", (s+n)/250%250, (s+n)%250+1), LocalPort: 8080, Probability: 1,
			})
		}
		list = append(list, &vpp_nat.DNat44{Label: fmt.Sprintf("default/service-%d", s), StMappings: []*vpp_nat.DNat44_StaticMapping{m}})
	}
	return list
}

func everyFeature() *vpp_nat.DNat44 {
	locals := func(n int, port uint32) (list []*vpp_nat.DNat44_StaticMapping_LocalIP) {
		for i := range n {
			list = append(list, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: fmt.Sprintf("10.1.1.%d", i+2), LocalPort: port, Probability: uint32(i + 1)})
		}
		return list
	}
	return &vpp_nat.DNat44{
		Label: "every/feature",
		StMappings: []*vpp_nat.DNat44_StaticMapping{
			{ExternalIp: "10.96.0.1", ExternalPort: 80, LocalIps: locals(3, 8080), SessionAffinity: 10800, TwiceNat: vpp_nat.DNat44_StaticMapping_SELF},
			{ExternalIp: "10.96.0.2", ExternalPort: 80, LocalIps: locals(2, 8080), TwiceNat: vpp_nat.DNat44_StaticMapping_ENABLED},
			{ExternalIp: "10.96.0.3", ExternalPort: 53, LocalIps: locals(1, 53), Protocol: vpp_nat.DNat44_UDP},
			{
				ExternalIp: "10.96.0.3", ExternalPort: 53, LocalIps: locals(1, 53),
				TwiceNat: vpp_nat.DNat44_StaticMapping_ENABLED, TwiceNatPoolIp: "10.1.1.254",
			},
			{ExternalIp: "10.96.0.4", LocalIps: locals(1, 0)},
			{ExternalIp: "10.96.0.6", ExternalPort: 80, LocalIps: locals(1, 80), SessionAffinity: 600, Clients: vpp_nat.DNat44_StaticMapping_INSIDE},
			{ExternalIp: "10.96.0.6", ExternalPort: 80, Otherwise: vpp_nat.DNat44_StaticMapping_DROP, Clients: vpp_nat.DNat44_StaticMapping_OUTSIDE},
			{ExternalIp: "10.96.0.7", ExternalPort: 80, LocalIps: locals(1, 80), Protocol: vpp_nat.DNat44_SCTP, MasqueradeOutside: true, SourceRanges: []string{"10.1.0.0/16", "10.1.1.0/24"}},
			{ExternalIp: "10.96.0.8", ExternalPort: 80, Otherwise: vpp_nat.DNat44_StaticMapping_REFUSE},
			{ExternalIp: "10.96.0.5", LocalIps: locals(1, 0), Protocol: vpp_nat.DNat44_ICMP},
		},
		IdMappings: []*vpp_nat.DNat44_IdentityMapping{
			{IpAddress: "192.168.16.1", Port: 4789, Protocol: vpp_nat.DNat44_UDP}, {IpAddress: "192.168.16.2"},
			{IpAddress: "192.168.16.3", Protocol: vpp_nat.DNat44_ICMP},
		},
	}
}

func enableNAT(t testing.TB, v *VSwitch) {
	t.Helper()
	check(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
	check(t, v.NAT().AddPool(t.Context(), &vpp_nat.Nat44AddressPool{FirstIp: "10.1.1.254", TwiceNat: true}))
	for _, last := range []string{"", "192.168.16.9"} {
		check(t, v.NAT().AddPool(t.Context(), &vpp_nat.Nat44AddressPool{FirstIp: "192.168.16.7", LastIp: last}))
	}
}

// nft 1.0 must be able to list the table: it aborts on some rules that the kernel accepts.
func TestNFTPrintsNAT(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	enableNAT(t, v)
	check(t, v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{Inside: []string{"10.1.1.0/24", "fd10::/64"}, ServiceSubnets: []string{"10.96.0.0/12", "fd96::/108"}}))
	check(t, v.NAT().SetDNAT(t.Context(), everyFeature()))
	wantPrinted(t, n)
}

// nft loads the tables that it has listed, as administrators save and restore rules, and the loaded
// tables have all values. Only rules of session affinity cannot be loaded.
func TestSavedNATLoads(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	enableNAT(t, v)
	for _, iface := range []*vpp_nat.Nat44Interface{{Name: nic, NatOutside: true}, {Name: nic, NatInside: true}} {
		check(t, v.NAT().AddInterface(t.Context(), iface))
	}
	check(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{})) // drops what is not translated
	network := &contiv_nat.ServiceNetwork{Inside: []string{"10.1.1.0/24", "fd10::/64"}, ServiceSubnets: []string{"10.96.0.0/12", "fd96::/108"}}
	check(t, v.ServiceNetworks().Create(t.Context(), network))
	value, value66 := everyFeature(), everyFeature66()
	for _, m := range value.StMappings {
		m.SessionAffinity = 0
	}
	for _, m := range value66.StMappings {
		m.SessionAffinity = 0
	}
	check(t, v.NAT().SetDNAT(t.Context(), value))
	check(t, v.DNAT66().Set(t.Context(), value66))
	check(t, v.NAT66().Create(t.Context(), &contiv_nat.SourceNAT66{Interface: nic, Address: "fd16::1"}))

	listing := func() string { return n.Exec(t, "nft list table ip contiv") + n.Exec(t, "nft list table ip6 contiv") }
	saved := listing()
	file := t.TempDir() + "/saved"
	check(t, os.WriteFile(file, []byte("delete table ip contiv\ndelete table ip6 contiv\n"+saved), 0o600))
	n.Exec(t, "nft -f "+file)
	if loaded := listing(); loaded != saved {
		t.Errorf("loaded:\n%s\nwant:\n%s", loaded, saved)
	}
	again := openKernel(t, n)
	if list := listDNAT(t, again, value); len(list) != 1 || !proto.Equal(list[0], value) {
		t.Errorf("DNat44 values %v", list)
	}
	if list := listDNAT66(t, again, value66); len(list) != 1 || !proto.Equal(list[0], value66) {
		t.Errorf("DNat66 values %v", list)
	}
	if list, err := again.ServiceNetworks().List(t.Context(), []*contiv_nat.ServiceNetwork{network}); err != nil || len(list) != 1 || list[0] != network {
		t.Errorf("service networks %v, error %v", list, err)
	}
}

func wantPrinted(t *testing.T, n *node) {
	t.Helper()
	for _, command := range []string{"nft list ruleset", "nft -j list ruleset"} {
		out, err := n.Try(command)
		if err != nil || strings.Contains(out, "Error") || !strings.Contains(out, "every/feature") {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

func listDNAT(t *testing.T, v *VSwitch, expected ...*vpp_nat.DNat44) []*vpp_nat.DNat44 {
	t.Helper()
	list, err := v.NAT().ListDNAT(t.Context(), expected)
	check(t, err)
	return list
}

func TestDamagedDNATIsRepaired(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	enableNAT(t, v)
	value, other := everyFeature(), manyServices(1, 3)[0]
	other.StMappings[0].ExternalIp = "10.97.0.1"
	check(t, v.NAT().SetDNAT(t.Context(), value, other))
	for _, damage := range []string{
		"delete element ip contiv nat-balanced { 10.96.0.1 . tcp . 80 }",
		"delete element ip contiv nat-balance-6-10800 { 10.96.0.1 . tcp . 80 . 0x00000003 }",
		"delete element ip contiv nat-self { 10.96.0.1 . tcp . 80 . 10.1.1.2 . 10.1.1.2 }",
		"delete element ip contiv nat-static { 10.96.0.3 . udp . 53 }",
		"delete element ip contiv nat-twice-ip { 10.96.0.3 . tcp . 53 }",
		"delete element ip contiv nat-port { 10.96.0.1 . tcp . 80 }",
		"delete element ip contiv nat-apart { 10.96.0.1 . tcp . 80 }",
		"flush set ip contiv nat-usable",
		"flush map ip contiv nat-port-in",
		"delete element ip contiv nat-balance-in-1-600 { 10.96.0.6 . tcp . 80 . 0x00000000 }",
		"delete element ip contiv nat-balanced-in { 10.96.0.6 . tcp . 80 }",
		"flush set ip contiv nat-dropped",
		"flush set ip contiv nat-refused",
		"flush set ip contiv nat-restricted",
		"flush set ip contiv nat-allowed",
		"flush set ip contiv nat-masquerade",
		"add element ip contiv nat-allowed { 10.96.0.7 . sctp . 80 . 10.9.0.0/16 }",
		"add element ip contiv nat-balance-3 { 10.96.0.2 . tcp . 80 . 0x00000077 : 10.9.9.9 . 80 }",
		"add element ip contiv nat-identity-address { 10.6.6.6 comment every/feature }",
		"flush set ip contiv nat-identity-address",
		"flush map ip contiv nat-balance-6-10800",
	} {
		script := t.TempDir() + "/nft"
		check(t, os.WriteFile(script, []byte(strings.Replace(damage, "comment every/feature", `comment "every/feature"`, 1)), 0o600))
		n.Exec(t, "nft -f "+script)
		for _, list := range [][]*vpp_nat.DNat44{listDNAT(t, v, value, other), listDNAT(t, openKernel(t, n), value, other)} {
			if len(list) != 2 || proto.Equal(list[0], value) || !proto.Equal(list[1], other) {
				t.Errorf("%s: found %v", damage, list)
			}
		}
		check(t, v.NAT().SetDNAT(t.Context(), value))
		list := listDNAT(t, openKernel(t, n), value, other)
		if len(list) != 2 || !proto.Equal(list[0], value) || !proto.Equal(list[1], other) {
			t.Errorf("%s: after the repair: %v", damage, list)
		}
	}

	stray := t.TempDir() + "/nft"
	check(t, os.WriteFile(stray, []byte("add element ip contiv nat-self { 10.66.0.1 . tcp . 80 . 10.1.1.2 . 10.1.1.2 }"), 0o600))
	n.Exec(t, "nft -f "+stray)
	list := listDNAT(t, v, value, other)
	if len(list) != 3 || list[2].GetLabel() != "UNTAGGED-DNAT" {
		t.Errorf("a stray element is listed as %v", list)
	}
	check(t, v.NAT().RemoveDNAT(t.Context(), list...))
	if out := n.Exec(t, "nft list table ip contiv"); strings.Contains(out, "elements") || strings.Contains(out, "nat-balance-") {
		t.Errorf("left: %s", out)
	}
}

func TestChangeOfDNATThatIsGone(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	enableNAT(t, v)
	value := everyFeature()
	check(t, v.NAT().SetDNAT(t.Context(), value))
	n.Exec(t, "nft flush map ip contiv nat-balance-6-10800")
	less := proto.CloneOf(value)
	less.StMappings = less.StMappings[1:]
	check(t, v.NAT().SetDNAT(t.Context(), less))
	if list := listDNAT(t, openKernel(t, n), less); len(list) != 1 || !proto.Equal(list[0], less) {
		t.Errorf("found %v", list)
	}
	n.Exec(t, "nft delete table ip contiv")
	check(t, v.NAT().RemoveDNAT(t.Context(), less))
}

// A value created between the loss of the table and its repair recreates the table with the
// settings of Nat44Global. So a pod's CNI ADD does not fail right after the ruleset was flushed.
func TestTableOfNATThatIsGoneIsMadeAnew(t *testing.T) {
	value := everyFeature()
	pool := &vpp_nat.Nat44AddressPool{FirstIp: "192.168.16.30"}
	iface := &vpp_nat.Nat44Interface{Name: nic, NatOutside: true}
	for name, set := range map[string]struct {
		put func(v *VSwitch) error
		in  string
	}{
		"DNAT":      {func(v *VSwitch) error { return v.NAT().SetDNAT(t.Context(), value) }, "every/feature"},
		"pool":      {func(v *VSwitch) error { return v.NAT().AddPool(t.Context(), pool) }, "192.168.16.30"},
		"interface": {func(v *VSwitch) error { return v.NAT().AddInterface(t.Context(), iface) }, nic},
		"service network": {func(v *VSwitch) error {
			return v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{Inside: []string{"10.7.7.0/24"}})
		}, "10.7.7.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			v := openKernel(t, n)
			enableNAT(t, v)
			check(t, v.NAT().SetDNAT(t.Context(), manyServices(30, 2)[29:]...))
			n.Exec(t, "nft delete table ip contiv")
			check(t, set.put(v))
			if out := n.Exec(t, "nft list table ip contiv"); !strings.Contains(out, set.in) {
				t.Errorf("%q is missing: %s", set.in, out)
			}
			global := &vpp_nat.Nat44Global{Forwarding: true}
			if found, err := v.NAT().Global(t.Context(), global); err != nil || !proto.Equal(found, global) {
				t.Errorf("the global value is %v, %v", found, err)
			}
			check(t, v.NAT().Disable(t.Context()))
			if err := set.put(v); !errors.Is(err, nat.ErrDisabled) {
				t.Errorf("after the global value: %v", err)
			}
		})
	}
}

func TestDNATThatIsReadAhead(t *testing.T) {
	n := newNode(t)
	first := openKernel(t, n)
	enableNAT(t, first)
	values := append(manyServices(50, 10)[10:], everyFeature())
	check(t, first.NAT().SetDNAT(t.Context(), values...))
	for _, damaged := range []bool{false, true} {
		v := openKernel(t, n)
		v.ReadAhead()
		v.watchers.Wait()
		if damaged {
			n.Exec(t, "nft flush map ip contiv nat-balance-10")
		}
		found := map[string]*vpp_nat.DNat44{}
		for _, value := range listDNAT(t, v, values...) {
			found[value.GetLabel()] = value
		}
		for _, value := range values {
			of10 := value.GetLabel() != "every/feature"
			if is := proto.Equal(found[value.GetLabel()], value); is == (damaged && of10) {
				t.Errorf("damaged: %t: %s is as expected: %t", damaged, value.GetLabel(), is)
			}
		}
	}
}

func TestUntranslatable(t *testing.T) {
	v := openKernel(t, newNode(t))
	ctx := t.Context()
	enableNAT(t, v)
	static := func(edit func(*vpp_nat.DNat44_StaticMapping)) error {
		value := manyServices(1, 1)[0]
		edit(value.StMappings[0])
		return v.NAT().SetDNAT(ctx, value)
	}
	for name, err := range map[string]error{
		"VRF":                      static(func(m *vpp_nat.DNat44_StaticMapping) { m.LocalIps[0].VrfId = 7 }),
		"ICMP identifier":          static(func(m *vpp_nat.DNat44_StaticMapping) { m.Protocol = vpp_nat.DNat44_ICMP }),
		"endpoint-independent":     v.NAT().Enable(ctx, &vpp_nat.Nat44Global{Forwarding: true, EndpointIndependent: true}),
		"VRF table":                v.NAT().AddVRFTable(ctx, &vpp_nat.Nat44VrfTable{}),
		"VRF route":                v.NAT().AddVRFRoute(ctx, &vpp_nat.Nat44VrfRoute{}),
		"pool in a VRF":            v.NAT().AddPool(ctx, &vpp_nat.Nat44AddressPool{FirstIp: "10.0.0.1", VrfId: 7}),
		"a label that is too long": v.NAT().SetDNAT(ctx, &vpp_nat.DNat44{Label: strings.Repeat("x", 128)}),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kvscheduler.ErrUnsupported)
		}
	}
	check(t, static(func(m *vpp_nat.DNat44_StaticMapping) { m.LocalIps[0].VrfId = vswitch.AllVRFs }))
}

// The kernel is still moving the elements of sets that have just grown.
func TestAllElementsAreFoundWhileTheirSetGrows(t *testing.T) {
	v := openKernel(t, newNode(t))
	enableNAT(t, v)
	const backends = 20
	want := 0
	for part := range slices.Chunk(manyServices(4096, backends), 256) {
		check(t, v.NAT().SetDNAT(t.Context(), part...))
		want += len(part) * backends
		list, err := v.NFT.Elements(unix.NFPROTO_IPV4, "contiv", "nat-self")
		check(t, err)
		if len(list) != want {
			t.Fatalf("found %d of %d elements", len(list), want)
		}
	}
}

// BenchmarkDNAT: services with ten backends each. The cost of a change should not depend on their
// number, and a resync of 10 000 services should cost less than three times as much per service as
// one of 100: the kernel rereads sets from their start.
func BenchmarkDNAT(b *testing.B) {
	for _, services := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			v := newNode(b).Open(b).(*VSwitch)
			b.Cleanup(func() { v.Close() })
			enableNAT(b, v)
			values := manyServices(services, 10)
			create := func() {
				for part := range slices.Chunk(values, 256) {
					check(b, v.NAT().SetDNAT(b.Context(), part...))
				}
			}
			b.Run("create", func(b *testing.B) {
				for b.Loop() {
					create()
					b.StopTimer()
					check(b, v.NAT().Disable(b.Context()))
					v.Reg = own.NewRegistry()
					enableNAT(b, v)
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*services), "ns/service")
			})
			create()
			b.Run("change one backend", func(b *testing.B) {
				changed := [2]*vpp_nat.DNat44{proto.CloneOf(values[services/2]), values[services/2]}
				changed[0].StMappings[0].LocalIps[9].LocalIp = "10.2.2.2"
				for i := 0; b.Loop(); i++ {
					check(b, v.NAT().SetDNAT(b.Context(), changed[i%2]))
				}
				check(b, v.NAT().SetDNAT(b.Context(), changed[1]))
			})
			b.Run("resync", func(b *testing.B) {
				for b.Loop() {
					list, err := v.NAT().ListDNAT(b.Context(), values)
					check(b, err)
					if len(list) != services || list[0] != values[0] {
						b.Fatal("services are missing")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*services), "ns/service")
			})
		})
	}
}

// BenchmarkDifferentDNAT: a service of many ports, one of which is missing in the kernel. The cost
// per mapping should not depend on their number.
func BenchmarkDifferentDNAT(b *testing.B) {
	for _, ports := range []int{100, 10000} {
		b.Run(fmt.Sprintf("ports=%d", ports), func(b *testing.B) {
			v := newNode(b).Open(b).(*VSwitch)
			b.Cleanup(func() { v.Close() })
			enableNAT(b, v)
			want := &vpp_nat.DNat44{Label: "default/many"}
			for port := range uint32(ports) {
				want.StMappings = append(want.StMappings, &vpp_nat.DNat44_StaticMapping{
					ExternalIp: "10.96.0.1", ExternalPort: port + 1, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 80}},
				})
			}
			fewer := proto.CloneOf(want)
			fewer.StMappings = fewer.StMappings[1:]
			check(b, v.NAT().SetDNAT(b.Context(), fewer))
			for b.Loop() {
				list, err := v.NAT().ListDNAT(b.Context(), []*vpp_nat.DNat44{want})
				check(b, err)
				if len(list) != 1 || len(list[0].GetStMappings()) != ports-1 {
					b.Fatal("found something else")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ports), "ns/port")
		})
	}
}
