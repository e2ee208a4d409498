package ctl

import (
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/google/go-cmp/cmp"
)

func TestTimesAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 1, 2, 10, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"now":                       "2026-01-02T10:30:00+01:00",
		"-5m":                       "2026-01-02T10:25:00+01:00",
		"-1h30m":                    "2026-01-02T09:00:00+01:00",
		"10:29":                     "2026-01-02T10:29:00+01:00",
		"10:29:59.5":                "2026-01-02T10:29:59.5+01:00",
		"10:31:05":                  "2026-01-01T10:31:05+01:00", // today it lies ahead
		"2026-01-01":                "2026-01-01T00:00:00+01:00",
		"2026-01-01 10:31:05":       "2026-01-01T10:31:05+01:00",
		"2026-01-01T10:31:05":       "2026-01-01T10:31:05+01:00",
		"2026-01-01T10:31:05Z":      "2026-01-01T10:31:05Z",
		"2026-01-01T10:31:05-02:00": "2026-01-01T10:31:05-02:00",
		"01-01 10:31:05.123":        "2026-01-01T10:31:05.123+01:00", // as tables show it
		"12-31 23:59:59.000":        "2025-12-31T23:59:59+01:00",
	} {
		got, err := parseTime(text, now)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: got %v %v, want %s", text, got.Format(time.RFC3339Nano), err, want)
		}
	}
	for text, want := range map[string]string{
		"":                    "is not a time: use",
		"25:00":               "is not a time: use",
		"5m":                  `for the past, use "-5m"`,
		"+5m":                 `for the past, use "-5m"`,
		"2026-01-02 10:32:00": "is in the future: the time is 2026-01-02 10:30:00 CET",
		"tomorrow":            "is not a time: use",
	} {
		if got, err := parseTime(text, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestWordsThatMeanKeys(t *testing.T) {
	const id = "0d7a4e1bb2f94a3f8c6d5e7f8091a2b3"
	keys := []string{
		"config/vpp/l2/v2/bridge-domain/vxlanBD",
		"config/vpp/v2/interfaces/vpp-tap-" + id,
		"config/vpp/v2/interfaces/vxlanBVI",
		"config/vpp/v2/route/vrf/0/dst/10.1.0.0/16",
		"vpp/bd/vxlanBD/interface/vxlanBVI",
	}
	for word, want := range map[string]string{
		"vxlanBVI":                         keys[2], // the derived value contains the same name
		"interface/vxlanBVI":               keys[4],
		"vpp/bd":                           keys[4],
		"10.1.0.0/16":                      keys[3],
		keys[3]:                            keys[3],
		strings.TrimSuffix(keys[3], "/"):   keys[3],
		"vpp-tap-0d7a4e1bb2f9…":            keys[1],
		"config/…":                         "matches 4 keys",
		"config/vpp/v2/interfaces/":        "matches 2 keys",
		"vxlanbvi":                         `did you mean "vxlanBVI"?`,
		"config/vpp/v2/interface/vxlanBVI": `did you mean "config/vpp/v2/interfaces/vxlanBVI"?`,
		"(.*":                              "lists the keys",
	} {
		got, err := meant(printer{}, keys, word)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestFieldsAndChanges(t *testing.T) {
	before := &vpp_interfaces.Interface{Name: "tap1", Mtu: 1450, IpAddresses: []string{"10.0.0.1/24", "fd00::1/64"}, Enabled: true}
	if got, want := fieldsText(before), "name=tap1  enabled=true  ip_addresses=10.0.0.1/24,fd00::1/64  mtu=1450"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	after := &vpp_interfaces.Interface{Name: "tap1", Mtu: 9000, IpAddresses: []string{"10.0.0.1/24"}, Vrf: 2}
	want := []string{"ip_addresses: 10.0.0.1/24,fd00::1/64 → 10.0.0.1/24", "vrf: unset → 2", "mtu: 1450 → 9000", "enabled: true → unset"}
	if diff := cmp.Diff(want, changes(before, after)); diff != "" {
		t.Error(diff)
	}
	bd := &vpp_l2.BridgeDomain{Name: "bd", Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "a"}, {Name: "b", SplitHorizonGroup: 1}}}
	if got, want := fieldsText(bd), "name=bd  interfaces[0].name=a  interfaces[1].name=b  interfaces[1].split_horizon_group=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// A remaining list item is compared with itself, at any position.
	mapping := func(ip string, protocol vpp_nat.DNat44_Protocol, local ...string) *vpp_nat.DNat44_StaticMapping {
		m := &vpp_nat.DNat44_StaticMapping{ExternalIp: ip, ExternalPort: 80, Protocol: protocol}
		for _, l := range local {
			m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: l, LocalPort: 8080, Probability: 1})
		}
		return m
	}
	was := &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{mapping("10.96.0.9", vpp_nat.DNat44_TCP, "10.1.1.2"), mapping("10.96.0.100", vpp_nat.DNat44_UDP, "10.1.1.2", "10.1.1.3", "fd00::2")}}
	is := &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{mapping("10.96.0.100", vpp_nat.DNat44_UDP, "10.1.1.3", "10.1.1.4"), mapping("10.96.0.100", vpp_nat.DNat44_TCP, "10.1.1.2")}}
	is.StMappings[0].LocalIps[0].Probability = 2
	const udp = "st_mappings[10.96.0.100:80/UDP]"
	want = []string{
		udp + ".local_ips[10.1.1.3:8080].probability: 1 → 2", udp + ".local_ips[10.1.1.4:8080] added", "st_mappings[10.96.0.100:80] added", "st_mappings[10.96.0.9:80] removed",
		udp + ".local_ips[10.1.1.2:8080] removed", udp + ".local_ips[[fd00::2]:8080] removed",
	}
	if diff := cmp.Diff(want, changes(was, is)); diff != "" {
		t.Error(diff)
	}
	if got := fieldsText(nil) + fieldsText(&vpp_interfaces.Interface{}); got != "" {
		t.Errorf("nothing: got %q", got)
	}
}
