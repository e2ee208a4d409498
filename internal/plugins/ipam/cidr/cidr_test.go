package cidr_test

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
	"pgregory.net/rapid"
)

func TestSubnet(t *testing.T) {
	for _, test := range []struct {
		network string
		length  int
		n       uint64
		want    string // "" if unassigned
	}{
		{"10.1.0.0/16", 24, 2, "10.1.2.0/24"},
		{"10.1.7.9/16", 24, 0, "10.1.0.0/24"},
		{"1.2.128.0/17", 29, 5, "1.2.128.40/29"},
		{"10.1.0.0/16", 24, 256, ""},
		{"10.1.0.0/16", 15, 0, ""},
		{"10.1.0.0/16", 33, 0, ""},
		{"2001::/48", 60, 5, "2001:0:0:50::/60"},
		{"fe10:f00d::/90", 120, 5, "fe10:f00d::500/120"},
		{"fe10:f00d::/32", 64, 0x12345678, "fe10:f00d:1234:5678::/64"},
	} {
		got, err := cidr.Subnet(netip.MustParsePrefix(test.network), test.length, test.n)
		if (err != nil) != (test.want == "") || err == nil && got.String() != test.want {
			t.Errorf("Subnet(%s, %d, %d) = %v, %v; want %q", test.network, test.length, test.n, got, err, test.want)
		}
	}
}

func TestHost(t *testing.T) {
	for _, test := range []struct {
		network string
		n       uint64
		want    string
	}{
		{"10.1.2.0/24", 1, "10.1.2.1"},
		{"10.1.2.77/24", 255, "10.1.2.255"},
		{"10.1.2.0/24", 256, ""},
		{"fe10:f00d::/90", 5, "fe10:f00d::5"},
		{"fd00::/64", 1 << 62, "fd00::4000:0:0:0"},
	} {
		got, err := cidr.Host(netip.MustParsePrefix(test.network), test.n)
		if (err != nil) != (test.want == "") || err == nil && got.String() != test.want {
			t.Errorf("Host(%s, %d) = %v, %v; want %q", test.network, test.n, got, err, test.want)
		}
	}
}

func TestLast(t *testing.T) {
	for network, want := range map[string]string{
		"10.1.2.0/24": "10.1.2.255", "10.1.2.8/29": "10.1.2.15", "10.1.2.3/32": "10.1.2.3",
		"fd00::/64": "fd00::ffff:ffff:ffff:ffff", "fd00::/60": "fd00:0:0:f:ffff:ffff:ffff:ffff", "fd00::/120": "fd00::ff",
	} {
		if got := cidr.Last(netip.MustParsePrefix(network)); got != netip.MustParseAddr(want) {
			t.Errorf("Last(%s) = %v, want %s", network, got, want)
		}
	}
}

func TestDissectContivCIDR(t *testing.T) {
	for network, want := range map[string][4]string{
		"10.128.0.0/14": {"10.128.0.0/16", "10.129.0.0/16", "10.130.0.0/23", "10.130.2.0/23"},
		"fe10::/64":     {"fe10::/112", "fe10::1:0/112", "fe10::2:0/119", "fe10::2:200/119"},
	} {
		plan, err := cidr.Dissect(netip.MustParsePrefix(network))
		if err != nil {
			t.Fatal(err)
		}
		got := [4]string{plan.Pods.String(), plan.VPPHost.String(), plan.NodeInterconnect.String(), plan.VXLAN.String()}
		if got != want {
			t.Errorf("Dissect(%s) = %v, want %v", network, got, want)
		}
		if bits := plan.Pods.Addr().BitLen() - plan.OneNodeLen; bits != 7 {
			t.Errorf("Dissect(%s): %d host bits per node, want 7", network, bits)
		}
	}
	if _, err := cidr.Dissect(netip.MustParsePrefix("10.0.0.0/15")); err == nil {
		t.Error("a contivCIDR of 17 bits was accepted")
	}
}

func TestNumbersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.0", "fd00:1:2:3::"}).Draw(t, "base"))
		all := netip.PrefixFrom(base, rapid.IntRange(8, base.BitLen()-8).Draw(t, "all"))
		length := rapid.IntRange(all.Bits(), base.BitLen()).Draw(t, "length")
		n := rapid.Uint64Range(0, 1<<min(length-all.Bits(), 62)-1).Draw(t, "subnet")
		subnet, err := cidr.Subnet(all, length, n)
		if err != nil {
			t.Fatal(err)
		}
		if !all.Masked().Overlaps(subnet) || subnet != subnet.Masked() {
			t.Fatalf("%v is no subnet of %v", subnet, all)
		}
		i := rapid.Uint64Range(0, 1<<min(cidr.HostBits(subnet), 62)-1).Draw(t, "host")
		addr, err := cidr.Host(subnet, i)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := cidr.Index(subnet, addr); !ok || got != i {
			t.Fatalf("Index(%v, %v) = %d, %v; want %d", subnet, addr, got, ok, i)
		}
		if cidr.Last(subnet).Less(addr) {
			t.Fatalf("%v is behind the last address of %v", addr, subnet)
		}
	})
}
