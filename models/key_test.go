package models_test

import (
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func TestCheckKey(t *testing.T) {
	for _, test := range []struct{ key, want string }{
		{"config/vpp/v2/interfaces/GigabitEthernet0/9/0", ""},
		{"config/vpp/v2/interfaces/", "matches no model"},
		{"config/vpp/v2/interface/tap1", `did you mean "config/vpp/v2/interfaces/"`},
		{"config/vpp/v3/interfaces/tap1", `did you mean "config/vpp/v2/interfaces/"`},
		{"vpp/config/v2/interfaces/tap1", `did you mean "config/vpp/v2/interfaces/"`},
		{"config/vpp/v2/vrf-table/id/1/protocol/IPV6", ""},
		{"config/vpp/v2/vrf-table/1", "write it as config/vpp/v2/vrf-table/id/{id}/protocol/{protocol}"},
		{"config/vpp/v2/vrf-table/id/one/protocol/IPV4", "no ligato.vpp.l3.VrfTable can have the key"},
		{"config/vpp/v2/vrf-table/id/1/protocol/IPv4", "no ligato.vpp.l3.VrfTable can have the key"},
		{"config/vpp/v2/route/vrf/0/dst/10.0.0.0/8", ""},
		{"config/vpp/v2/route/if/tap1/vrf/0/dst/10.0.0.0/8/gw/10.1.1.1", ""},
		{"config/vpp/v2/route/10.0.0.0/8/gw/10.1.1.1", "write it as"},
		{"config/vpp/v2/tohost/l3/IPV4/l4/UDP/port/53", ""},
		{"config/vpp/v2/tohost/l3/4/l4/UDP/port/53", ""},
		{"config/vpp/v2/tohost/l3/IPV4/l4/UDP/port/-1", "write it as"},
		{"config/vpp/v2/span//to/tap2", "write it as"},
		{"config/vpp/nat/v2/nat44-global", ""},
		{"config/vpp/nat/v2/nat44-global/1", "matches no model"},
		{"", "matches no model"},
	} {
		err := models.CheckKey(test.key)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: got %v, want an error with %q", test.key, err, test.want)
		}
	}
}

func TestKeyOf(t *testing.T) {
	for _, test := range []struct {
		msg       proto.Message
		key, want string
	}{
		{&vpp_interfaces.Interface{Name: "tap1"}, "config/vpp/v2/interfaces/tap1", ""},
		{&vpp_interfaces.Interface{Mtu: 1}, "", "set the fields in config/vpp/v2/interfaces/{name}"},
		{&vpp_interfaces.Span{InterfaceTo: "tap1"}, "", "set the fields in"},
		{&vpp_l3.DHCPProxy{SourceIpAddress: "ten"}, "", "set the fields in"},
		{&vpp_l3.ProxyARP{}, "config/vpp/v2/proxyarp-global", ""},
		{&vpp_punt.ToHost{L4Protocol: 99}, "config/vpp/v2/tohost/l3/UNDEFINED_L3/l4/99/port/0", ""},
		{&vpp_interfaces.Interface{Name: "/host//tap1/"}, "config/vpp/v2/interfaces/host/tap1", ""},
		{&vpp_interfaces.Interface{Name: "./tap1/."}, "config/vpp/v2/interfaces/tap1", ""},
		{&vpp_interfaces.Interface{Name: "//"}, "", "set the fields in"},
		{&vpp_interfaces.Interface{Name: "../route/tap1"}, "", "no element of two dots"},
		{&vpp_interfaces.Interface{Name: "tap..1"}, "config/vpp/v2/interfaces/tap..1", ""},
		{&vpp_l3.Route{DstNetwork: "10.0.0.0/8", OutgoingInterface: "/tap1/"}, "config/vpp/v2/route/if/tap1/vrf/0/dst/10.0.0.0/8", ""},
		{&generic.Item{}, "", "ligato.generic.Item is not a northbound value"},
	} {
		key, err := models.KeyOf(test.msg)
		if key != test.key || test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: got %q, %v; want %q, %q", test.msg, key, err, test.key, test.want)
		}
	}
}

// Every key of a message is recognised as a key of its model.
func FuzzKeyOf(f *testing.F) {
	for i, m := range models.All() {
		for _, s := range readSamples(f, filepath.Join("testdata", m.Name()+".txtar")) {
			wire, err := hex.DecodeString(strings.ReplaceAll(s.binary, "\n", ""))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, wire)
		}
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		m := models.All()[uint(i)%uint(len(models.All()))]
		msg := m.New()
		if proto.Unmarshal(data, msg) != nil {
			return
		}
		key, err := models.KeyOf(msg)
		if err != nil {
			return
		}
		if found, ok := models.ForKey(key); !ok || found != m {
			t.Errorf("model of %q: %v", key, found)
		}
		if err := models.CheckKey(key); err != nil {
			t.Error(err)
		}
		if _, _, err := models.Decode(key, data); err != nil && data[0] != '{' && data[0] > ' ' {
			t.Error(err)
		}
	})
}

// CheckKey does not panic.
func FuzzCheckKey(f *testing.F) {
	f.Add("config/vpp/v2/route/if/tap1/vrf/0/dst/10.0.0.0/8/gw/10.1.1.1")
	f.Add("config//v2")
	f.Fuzz(func(t *testing.T, key string) {
		_, known := models.ForKey(key)
		if models.CheckKey(key) == nil && !known {
			t.Errorf("%q is right and of no model", key)
		}
		if _, err := models.Unmarshal(key, []byte("{}")); err == nil && models.CheckKey(key) != nil {
			t.Errorf("%q is wrong and has a value", key)
		}
	})
}
