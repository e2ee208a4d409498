package vpp

import (
	"fmt"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

// BenchmarkServices measures 1000 services with three ports and three pods each on a real VPP.
func BenchmarkServices(b *testing.B) {
	v := openNAT(b, &site{VPP: vpptest.NewProcess(b, newNamespace(b).NetNS)}, &vpp_nat.Nat44Global{Forwarding: true})
	var values []*vpp_nat.DNat44
	for n := range 1000 {
		ip := fmt.Sprintf("10.96.%d.%d", n/256, n%256)
		value := dnatValue(fmt.Sprintf("default/service-%d", n))
		for port := range uint32(3) {
			value.StMappings = append(value.StMappings, service(ip, 80+port, 3*n, 3*n+1, 3*n+2))
		}
		values = append(values, value)
	}
	b.Run("SetDNAT of all", func(b *testing.B) {
		for b.Loop() {
			if err := v.NAT().RemoveDNAT(b.Context(), values...); err != nil {
				b.Fatal(err)
			}
			if err := v.NAT().SetDNAT(b.Context(), values...); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("SetDNAT of one more pod", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			pods := []int{1, 2, 3, 4}[:3+n%2]
			if err := v.NAT().SetDNAT(b.Context(), dnatValue("default/service-0", service("10.96.0.0", 80, pods...))); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := v.NAT().SetDNAT(b.Context(), values...); err != nil {
		b.Fatal(err)
	}
	b.Run("ListDNAT", func(b *testing.B) {
		for b.Loop() {
			if found, err := v.NAT().ListDNAT(b.Context(), values); err != nil || len(found) != len(values) {
				b.Fatal(len(found), err)
			}
		}
	})
}

// BenchmarkAccessLists measures 1000 rules on 250 interfaces of a real VPP.
func BenchmarkAccessLists(b *testing.B) {
	v := open(b, vpptest.NewProcess(b, newNamespace(b).NetNS))
	list := accessList("big", nil, nil)
	for n := range uint32(1000) {
		list.Rules = append(list.Rules, &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{
			Ip:  &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: fmt.Sprintf("10.%d.%d.0/24", n/256, n%256)},
			Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{DestinationPortRange: &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: n, UpperPort: n}},
		}})
	}
	replace := func(b *testing.B) {
		for b.Loop() {
			list.Rules[0], list.Rules[1] = list.Rules[1], list.Rules[0]
			if err := v.ACLs().Update(b.Context(), nil, list); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := v.ACLs().Create(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	b.Run("replacing 1000 rules, bound to nothing", replace)
	for n := range 250 {
		name := fmt.Sprintf("loop%d", n)
		create(b, v, loopback(name))
		if n == 1 {
			b.Run("replacing 1000 rules, bound to one interface", replace)
		}
		bindACL(b, v, "big", name, true)
		list.Interfaces.Egress = append(list.Interfaces.Egress, name)
	}
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			if found, err := v.ACLs().List(b.Context(), []*vpp_acl.ACL{list}); err != nil || len(found) != 1 {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("replacing 1000 rules, bound to 250 interfaces", replace)
}
