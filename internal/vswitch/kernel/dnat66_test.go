package kernel

import (
	"errors"
	"os"
	"strings"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

func everyFeature66() *contiv_nat.DNat66 {
	type local = contiv_nat.DNat66_StaticMapping_LocalIP
	three := []*local{
		{LocalIp: "fd10::2", LocalPort: 8080, Probability: 1}, {LocalIp: "fd10::3", LocalPort: 8080, Probability: 2}, {LocalIp: "fd10::4", LocalPort: 8080, Probability: 3},
	}
	return &contiv_nat.DNat66{Label: "every/feature", StMappings: []*contiv_nat.DNat66_StaticMapping{
		{
			ExternalIp: "fd96::1", ExternalPort: 80, LocalIps: three, SessionAffinity: 10800,
			TwiceNat: contiv_nat.DNat66_StaticMapping_SELF, TwiceNatIp: "fd10::fffe",
		},
		{ExternalIp: "fd96::2", ExternalPort: 80, LocalIps: three[:2], TwiceNat: contiv_nat.DNat66_StaticMapping_ENABLED, TwiceNatIp: "fd10::fffe"},
		{ExternalIp: "fd96::3", ExternalPort: 53, LocalIps: three[:1], Protocol: contiv_nat.DNat66_UDP},
		{ExternalIp: "fd96::3", ExternalPort: 53, LocalIps: three[:1], Protocol: contiv_nat.DNat66_SCTP},
	}}
}

func listDNAT66(t *testing.T, v *VSwitch, expected ...*contiv_nat.DNat66) []*contiv_nat.DNat66 {
	t.Helper()
	list, err := v.DNAT66().List(t.Context(), expected)
	check(t, err)
	return list
}

func TestTableOfDNAT66ThatIsGoneIsMadeAnew(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	value := everyFeature66()
	check(t, v.DNAT66().Set(t.Context(), value))
	listDNAT66(t, v, value)
	n.Exec(t, "nft delete table ip6 contiv")
	other := &contiv_nat.DNat66{Label: "other", StMappings: []*contiv_nat.DNat66_StaticMapping{proto.CloneOf(value.StMappings[0])}}
	other.StMappings[0].ExternalIp = "fd97::1"
	check(t, v.DNAT66().Set(t.Context(), other))
	if list := listDNAT66(t, openKernel(t, n), other); len(list) != 1 || !proto.Equal(list[0], other) {
		t.Errorf("found %v", list)
	}
}

func TestDamagedDNAT66IsRepaired(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	value := everyFeature66()
	other := &contiv_nat.DNat66{Label: "other", StMappings: []*contiv_nat.DNat66_StaticMapping{proto.CloneOf(value.StMappings[0])}}
	other.StMappings[0].ExternalIp = "fd97::1"
	check(t, v.DNAT66().Set(t.Context(), value, other))
	for _, command := range []string{"nft list ruleset", "nft -j list ruleset"} {
		out, err := n.Try(command)
		if err != nil || strings.Contains(out, "Error") || !strings.Contains(out, "every/feature") || !strings.Contains(out, "sctp") {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	for damage, spared := range map[string]bool{
		"delete element ip6 contiv nat-balanced { fd96::1 . tcp . 80 }":                           true,
		"delete element ip6 contiv nat-balance-6-10800 { fd96::1 . tcp . 80 . 0x00000003 }":       true,
		"delete element ip6 contiv nat-self-ip { fd96::1 . tcp . 80 . fd10::2 . fd10::2 }":        true,
		"delete element ip6 contiv nat-static { fd96::3 . udp . 53 }":                             true,
		"delete element ip6 contiv nat-twice-ip { fd96::2 . tcp . 80 }":                           true,
		"delete element ip6 contiv nat-port { fd96::1 . tcp . 80 }":                               true,
		"add element ip6 contiv nat-balance-3 { fd96::2 . tcp . 80 . 0x00000077 : fd99::9 . 80 }": true,
		"flush chain ip6 contiv nat-prerouting":                                                   false,
		"flush chain ip6 contiv nat-balance":                                                      false,
		"delete table ip6 contiv":                                                                 false,
	} {
		script := t.TempDir() + "/nft"
		check(t, os.WriteFile(script, []byte(damage), 0o600))
		n.Exec(t, "nft -f "+script)
		for _, list := range [][]*contiv_nat.DNat66{listDNAT66(t, v, value, other), listDNAT66(t, openKernel(t, n), value, other)} {
			whole := 0
			for _, found := range list {
				if proto.Equal(found, value) {
					t.Errorf("%s: not noticed", damage)
				}
				if proto.Equal(found, other) {
					whole++
				}
			}
			if (whole == 1) != spared {
				t.Errorf("%s: found %v", damage, list)
			}
		}
		check(t, v.DNAT66().Set(t.Context(), value, other))
		list := listDNAT66(t, openKernel(t, n), value, other)
		if len(list) != 2 || !proto.Equal(list[0], value) || !proto.Equal(list[1], other) {
			t.Errorf("%s: after the repair: %v", damage, list)
		}
		for range 2 {
			check(t, v.DNAT66().Remove(t.Context(), value, other))
		}
		if out := n.Exec(t, "nft list table ip6 contiv"); strings.Contains(out, "elements") || strings.Contains(out, "nat-balance-") {
			t.Errorf("%s: left: %s", damage, out)
		}
		check(t, v.DNAT66().Set(t.Context(), value, other))
	}
	check(t, v.DNAT66().Remove(t.Context(), value, other))
	check(t, v.Uninstall(t.Context()))
	if out := n.Exec(t, "nft list ruleset"); strings.Contains(out, "ip6 contiv") {
		t.Errorf("left: %s", out)
	}
	value.Label = strings.Repeat("x", 128)
	if err := v.DNAT66().Set(t.Context(), value); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("a label that is too long: %v", err)
	}
}
