package models_test

import (
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		value proto.Message
		want  string
	}{
		{&vpp_l3.VrfTable{Id: 1, Protocol: vpp_l3.VrfTable_IPV6}, ""},
		{&vpp_l3.VrfTable{Id: 1, Protocol: 99}, `field "protocol" cannot be 99, but one of IPV4, IPV6`},
		{&vpp_l3.VrfTable{Id: 1, Protocol: -1}, `field "protocol" cannot be -1, but one of IPV4, IPV6`},
		{&vpp_acl.ACL{Name: "a", Rules: []*vpp_acl.ACL_Rule{{}, {Action: 7}}}, `field "rules[1].action" cannot be 7, but one of DENY, PERMIT, REFLECT`},
		{&vpp_interfaces.Interface{Name: "i", RxModes: []*vpp_interfaces.Interface_RxMode{{Mode: 9}}},
			`field "rx_modes[0].mode" cannot be 9, but one of UNKNOWN, POLLING, INTERRUPT, ADAPTIVE, DEFAULT`},
		{&vpp_acl.ACL{Name: "a\x00b"}, `field "name" has a zero byte: leave it out`},
		{&vpp_interfaces.Interface{Name: "i", IpAddresses: []string{"10.0.0.1/8", "\x00"}}, `field "ip_addresses[1]" has a zero byte: leave it out`},
	} {
		got := ""
		if err := models.Check(tt.value); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Check(%v) = %q, want %q", tt.value, got, tt.want)
		}
	}
}
