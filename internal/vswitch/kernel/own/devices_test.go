package own

import (
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/rtnl"
)

func TestDevicesBehindNames(t *testing.T) {
	host := &Host{Reg: NewRegistry()}
	host.Reg.Put(&vpp_interfaces.Interface{Name: "af", Type: vpp_interfaces.Interface_AF_PACKET,
		Link: &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: "eth1"}}})
	host.Reg.Put(&vpp_interfaces.Interface{Name: "side", Type: vpp_interfaces.Interface_AF_PACKET,
		Link: &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{LinuxInterface: "veth1"}}})
	for _, test := range []struct {
		device  rtnl.LinkIdentity
		logical string
		want    bool
	}{
		{rtnl.LinkIdentity{Name: "c-tap1", Alias: AliasInterface + "tap1"}, "tap1", true},
		{rtnl.LinkIdentity{Name: "c-tap1", Alias: AliasInterface + "tap2"}, "tap1", false},
		{rtnl.LinkIdentity{Name: "c-tap1"}, "tap1", false},
		{rtnl.LinkIdentity{Name: "tap1", Alias: AliasBridge + "x"}, "tap1", false},
		{rtnl.LinkIdentity{Name: "eth0"}, "eth0", true},
		{rtnl.LinkIdentity{Name: "eth0", Alias: "uplink"}, "eth0", true},
		{rtnl.LinkIdentity{Name: "eth1"}, "eth0", false},
		{rtnl.LinkIdentity{Name: "eth1"}, "af", true},
		{rtnl.LinkIdentity{Name: "af"}, "af", false},
		{rtnl.LinkIdentity{Name: "any", Alias: aliasLinux + "veth1"}, "side", true},
		{rtnl.LinkIdentity{Name: "veth1"}, "side", false},
	} {
		if got := host.isBehind(test.device, test.logical); got != test.want {
			t.Errorf("%+v behind %q: %v, want %v", test.device, test.logical, got, test.want)
		}
	}
}
