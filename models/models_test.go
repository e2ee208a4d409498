package models_test

import (
	"strings"
	"testing"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		msg proto.Message
		key string
	}{
		{&vpp_interfaces.Interface{Name: "GigabitEthernet0/9/0"}, "config/vpp/v2/interfaces/GigabitEthernet0/9/0"},
		{&vpp_l2.BridgeDomain{Name: "vxlanBD"}, "config/vpp/l2/v2/bridge-domain/vxlanBD"},
		{&vpp_l2.FIBEntry{BridgeDomain: "bd", PhysAddress: "aa:bb:cc:dd:ee:ff"}, "config/vpp/l2/v2/fib/bd/mac/aa:bb:cc:dd:ee:ff"},
		{&vpp_l3.Route{DstNetwork: "10.1.2.3/24"}, "config/vpp/v2/route/vrf/0/dst/10.1.2.0/24"},
		{&vpp_l3.Route{DstNetwork: "0.0.0.0/0", VrfId: 1, OutgoingInterface: "tap", NextHopAddr: "1.2.3.4"}, "config/vpp/v2/route/if/tap/vrf/1/dst/0.0.0.0/0/gw/1.2.3.4"},
		{&vpp_l3.Route{DstNetwork: "fd00::1/64"}, "config/vpp/v2/route/vrf/0/dst/fd00::/64"},
		{&vpp_l3.Route{DstNetwork: "alloc:net/if"}, "config/vpp/v2/route/vrf/0/dst/alloc:net/if"},
		{&vpp_l3.ARPEntry{Interface: "tap", IpAddress: "10.1.1.2"}, "config/vpp/v2/arp/tap/10.1.1.2"},
		{&vpp_l3.VrfTable{Id: 1, Protocol: vpp_l3.VrfTable_IPV6}, "config/vpp/v2/vrf-table/id/1/protocol/IPV6"},
		{&vpp_nat.Nat44Global{}, "config/vpp/nat/v2/nat44-global"},
		{&vpp_nat.Nat44AddressPool{FirstIp: "1.1.1.1", LastIp: "1.1.1.9", VrfId: 2}, "config/vpp/nat/v2/nat44-pool/vrf/2/address/1.1.1.1-1.1.1.9"},
		{&vpp_nat.Nat44AddressPool{Name: "p", FirstIp: "1.1.1.1"}, "config/vpp/nat/v2/nat44-pool/p"},
		{&linux_l3.Route{DstNetwork: "0.0.0.0/0", OutgoingInterface: "eth"}, "config/linux/l3/v2/route/0.0.0.0/0/eth"},
		{&linux_l3.ARPEntry{Interface: "eth", IpAddress: "10.1.1.1"}, "config/linux/l3/v2/arp/eth/10.1.1.1"},
	} {
		if key := models.Key(test.msg); key != test.key {
			t.Errorf("key of %T: got %q, want %q", test.msg, key, test.key)
		}
		m, ok := models.ForKey(test.key)
		if !ok || m.ProtoName() != string(proto.MessageName(test.msg)) {
			t.Errorf("model of %q: got %v", test.key, m)
		}
	}
}

func TestModelsDoNotOverlap(t *testing.T) {
	for i, a := range models.All() {
		for _, b := range models.All()[i+1:] {
			if strings.HasPrefix(b.KeyPrefix(), a.KeyPrefix()) {
				t.Errorf("%s contains %s", a.KeyPrefix(), b.KeyPrefix())
			}
		}
	}
}

func TestUnmarshal(t *testing.T) {
	want := &vpp_interfaces.Interface{
		Name: "tap1", Type: vpp_interfaces.Interface_TAP, IpAddresses: []string{"10.0.0.1/24"},
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
	data, err := models.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		string(data),
		`{"name":"tap1","type":"TAP","ip_addresses":["10.0.0.1/24"],"tap":{"version":2}}`,
		`{"name":"tap1","type":"TAP","ipAddresses":["10.0.0.1/24"],"tap":{"version":2}}`,
	} {
		got, err := models.Unmarshal("config/vpp/v2/interfaces/tap1", []byte(form))
		if err != nil {
			t.Errorf("%s: %v", form, err)
		} else if diff := cmp.Diff(want, got.(*vpp_interfaces.Interface), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

func TestUnmarshalErrors(t *testing.T) {
	for _, test := range []struct{ key, data, want string }{
		{"config/vpp/v2/interface/tap1", `{}`, "matches no model"},
		{"config/vpp/v2/interfaces/tap1", `{"name":`, "is no JSON"},
		{"config/vpp/v2/interfaces/tap1", `{"nam":"tap1"}`, `"nam"`},
		{"config/vpp/v2/interfaces/tap1", `{"name":"tap2"}`, "config/vpp/v2/interfaces/tap2"},
	} {
		_, err := models.Unmarshal(test.key, []byte(test.data))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: got %v, want an error with %q", test.key, test.data, err, test.want)
		}
	}
}
