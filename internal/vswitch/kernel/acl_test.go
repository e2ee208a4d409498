package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/kernel/acl"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
)

func permitAll(name string) *vpp_acl.ACL {
	return &vpp_acl.ACL{Name: name, Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}}}}
}

func TestACLThatCannotBe(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	tunnel := &vpp_interfaces.Interface{Name: "vx", Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true, Link: &vpp_interfaces.Interface_Vxlan{
		Vxlan: &vpp_interfaces.VxlanLink{SrcAddress: "192.168.16.1", DstAddress: "192.168.16.2", Vni: 10},
	}}
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip addr add 192.168.16.1/24 dev eth0")
	check(t, v.Interfaces().Create(ctx, tunnel))
	check(t, v.ACLs().Create(ctx, permitAll("web")))
	if err := v.ACLs().Bind(ctx, vswitch.ACLBinding{ACL: "web", Interface: "vx"}); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("on a VXLAN tunnel: %v", err)
	}
	if err := v.ACLs().Create(ctx, permitAll(strings.Repeat("*", 60))); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("with a name that no chain can have: %v", err)
	}
	for _, b := range []vswitch.ACLBinding{{ACL: "nosuchlist", Interface: nic}, {ACL: "web", Interface: "nosuchinterface"}} {
		if err := v.ACLs().Bind(ctx, b); err == nil || errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%v: got %v, want an error that may go away", b, err)
		}
	}
}

func TestACLTablesGo(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	n.Exec(t, "nft add table inet contiv-acl2")
	remove := map[string]func() error{
		"delete":    func() error { return v.ACLs().Delete(ctx, permitAll("web")) },
		"uninstall": func() error { return v.Uninstall(ctx) },
	}
	for name, fn := range remove {
		check(t, v.ACLs().Create(ctx, permitAll("web")))
		check(t, v.ACLs().Bind(ctx, vswitch.ACLBinding{ACL: "web", Interface: nic}))
		if out := n.Exec(t, "nft list tables"); strings.Count(out, acl.AclTableName+"\n") != 2 {
			t.Fatalf("%s: tables before: %s", name, out)
		}
		check(t, fn())
		if out := n.Exec(t, "nft list tables"); strings.Contains(out, acl.AclTableName+"\n") || !strings.Contains(out, "contiv-acl2") {
			t.Errorf("%s: tables after: %s", name, out)
		}
		check(t, fn())
	}
}

func TestACLChangeTouchesOneList(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	for _, name := range []string{"a", "b"} {
		check(t, v.ACLs().Create(ctx, permitAll(name)))
		check(t, v.ACLs().Bind(ctx, vswitch.ACLBinding{ACL: name, Interface: nic}))
	}
	handles := func() string { return n.Exec(t, "nft -a list chain inet contiv-acl acl/b") }
	before := handles()
	check(t, v.ACLs().Update(ctx, nil, manyRulesACL("a", 10)))
	check(t, v.ACLs().Create(ctx, permitAll("c")))
	check(t, v.ACLs().Bind(ctx, vswitch.ACLBinding{ACL: "c", Interface: nic, Egress: true}))
	check(t, v.ACLs().Create(ctx, permitAll("b")))
	if after := handles(); after != before {
		t.Errorf("list b was %s, and is %s", before, after)
	}
}

// Lists see a connection with the addresses that it has between destination and source translation:
// before the source is translated on the way out, and after it is translated back on the way in.
func TestACLBesideNAT(t *testing.T) {
	n := newNode(t)
	pod := newNamespace(t, "pod")
	v := openKernel(t, n)
	ctx := t.Context()
	n.peer.Exec(t, "ip addr add 192.168.16.9/24 dev "+uplink)
	n.Exec(t, "ip addr add 192.168.16.1/24 dev eth0")
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip link add name p type veth peer name eth0 netns "+nsName(pod))
	for _, command := range []string{"ip addr add 10.1.1.1/24 dev p", "ip link set dev p up"} {
		n.Exec(t, command)
	}
	for _, command := range []string{"ip addr add 10.1.1.2/24 dev eth0", "ip link set dev eth0 up", "ip route add default via 10.1.1.1"} {
		pod.Exec(t, command)
	}
	for _, command := range []string{
		"nft add table ip other", "nft add chain ip other post { type nat hook postrouting priority 100; }", "nft add rule ip other post oifname eth0 masquerade",
		"nft add chain ip other pre { type nat hook prerouting priority -100; }", "nft add rule ip other pre ip daddr 10.96.0.1 dnat to 192.168.16.9",
	} {
		n.Exec(t, command)
	}
	rule := func(action vpp_acl.ACL_Rule_Action, src, dst string) *vpp_acl.ACL_Rule {
		return &vpp_acl.ACL_Rule{Action: action, IpRule: &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: src, DestinationNetwork: dst}}}
	}
	const reflect, permit = vpp_acl.ACL_Rule_REFLECT, vpp_acl.ACL_Rule_PERMIT
	lists := []struct {
		acl     *vpp_acl.ACL
		binding vswitch.ACLBinding
	}{
		{&vpp_acl.ACL{Name: "pod", Rules: []*vpp_acl.ACL_Rule{rule(reflect, "10.1.1.2/32", "10.96.0.1/32")}}, vswitch.ACLBinding{Interface: "p"}},
		{&vpp_acl.ACL{Name: "wall"}, vswitch.ACLBinding{Interface: "p", Egress: true}},
		{&vpp_acl.ACL{Name: "out", Rules: []*vpp_acl.ACL_Rule{rule(reflect, "10.1.1.2/32", "192.168.16.9/32")}}, vswitch.ACLBinding{Interface: nic, Egress: true}},
		{&vpp_acl.ACL{Name: "in"}, vswitch.ACLBinding{Interface: nic}},
	}
	for _, l := range lists {
		l.binding.ACL = l.acl.GetName()
		check(t, v.ACLs().Create(ctx, l.acl))
		check(t, v.ACLs().Bind(ctx, l.binding))
	}
	n.peer.Echo(t, "tcp", "192.168.16.9", 80)
	if err := pod.Probe("tcp", "10.96.0.1", 80, true); err != nil {
		t.Errorf("through both translations: %v", err)
	}
	if err := pod.Probe("tcp", "192.168.16.9", 80, false); err == nil {
		t.Error("a forbidden request of the pod was answered")
	}
	lists[0].acl.Rules[0].Action = permit
	check(t, v.ACLs().Update(ctx, nil, lists[0].acl))
	if err := pod.Probe("tcp", "10.96.0.1", 80, false); err == nil {
		t.Error("an answer passed the wall")
	}
}
