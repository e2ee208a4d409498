package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
)

func manyRulesACL(name string, n int) *vpp_acl.ACL {
	acl := &vpp_acl.ACL{Name: name}
	for i := range n {
		src := netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i % 250)})
		port := uint32(1 + i%5000)
		acl.Rules = append(acl.Rules, &vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{
			Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: src.String() + "/32"},
			Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{
				DestinationPortRange: &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: port, UpperPort: port},
			},
		}})
	}
	return acl
}

// BenchmarkACL measures a list of 1 000 rules on 100 interfaces, and adding a small list to 100
// small ones.
func BenchmarkACL(b *testing.B) {
	const interfaces = 100
	site := newNode(b)
	v := site.Open(b).(*VSwitch)
	b.Cleanup(func() { v.Close() })
	ctx := b.Context()
	for i := range interfaces {
		check(b, v.Interfaces().Create(ctx, tap(fmt.Sprintf("tap%d", i))))
	}
	big, changed := manyRulesACL("big", 1000), manyRulesACL("big", 1000)
	changed.Rules[500].Action = vpp_acl.ACL_Rule_REFLECT
	bind := func(acl string, i int) {
		check(b, v.ACLs().Bind(ctx, vswitch.ACLBinding{ACL: acl, Interface: fmt.Sprintf("tap%d", i), Egress: true}))
	}
	b.Run("create 1000 rules", func(b *testing.B) {
		for b.Loop() {
			check(b, v.ACLs().Create(ctx, big))
			b.StopTimer()
			check(b, v.ACLs().Delete(ctx, big))
			b.StartTimer()
		}
	})
	check(b, v.ACLs().Create(ctx, big))
	b.Run("bind to 100 interfaces", func(b *testing.B) {
		for b.Loop() {
			for i := range interfaces {
				bind("big", i)
			}
			b.StopTimer()
			check(b, v.ACLs().Delete(ctx, big))
			check(b, v.ACLs().Create(ctx, big))
			b.StartTimer()
		}
	})
	for i := range interfaces {
		bind("big", i)
	}
	now, next := big, changed
	b.Run("update one rule of 1000 on 100 interfaces", func(b *testing.B) {
		for b.Loop() {
			check(b, v.ACLs().Update(ctx, now, next))
			now, next = next, now
		}
	})
	check(b, v.ACLs().Update(ctx, now, big))
	list := func(b *testing.B, forget bool) {
		for b.Loop() {
			if forget {
				b.StopTimer()
				site.Exec(b, "nft add table ip foreign")
				site.Exec(b, "nft delete table ip foreign")
				b.StartTimer()
			}
			found, err := v.ACLs().List(ctx, []*vpp_acl.ACL{big})
			check(b, err)
			if len(found) != 1 || len(found[0].GetRules()) != 1000 || len(found[0].GetInterfaces().GetEgress()) != interfaces {
				b.Fatal(found)
			}
		}
	}
	b.Run("resync, after others changed the ruleset", func(b *testing.B) { list(b, true) })
	b.Run("resync", func(b *testing.B) { list(b, false) })
	for i := range interfaces {
		check(b, v.ACLs().Create(ctx, manyRulesACL(fmt.Sprintf("small%d", i), 10)))
		bind(fmt.Sprintf("small%d", i), i)
	}
	b.Run("create 10 rules in addition to 100 lists", func(b *testing.B) {
		one := manyRulesACL("one", 10)
		for b.Loop() {
			check(b, v.ACLs().Create(ctx, one))
			bind("one", 7)
			b.StopTimer()
			check(b, v.ACLs().Delete(ctx, one))
			b.StartTimer()
		}
	})
}
