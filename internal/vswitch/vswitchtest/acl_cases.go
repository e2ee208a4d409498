package vswitchtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
)

type (
	aclRule = vpp_acl.ACL_Rule
	ipRule  = vpp_acl.ACL_Rule_IpRule
	ports   = vpp_acl.ACL_Rule_IpRule_PortRange
	icmp    = vpp_acl.ACL_Rule_IpRule_Icmp
)

// list makes an access list. interfaces has the form "left in" or "right out".
func list(name, interfaces string, rules ...*aclRule) *vpp_acl.ACL {
	acl := &vpp_acl.ACL{Name: name, Rules: rules, Interfaces: &vpp_acl.ACL_Interfaces{}}
	for at := range strings.SplitSeq(interfaces, ", ") {
		if at == "" {
			continue
		}
		if iface, ok := strings.CutSuffix(at, " out"); ok {
			acl.Interfaces.Egress = append(acl.Interfaces.Egress, iface)
		} else {
			acl.Interfaces.Ingress = append(acl.Interfaces.Ingress, strings.TrimSuffix(at, " in"))
		}
	}
	return acl
}

func permit(r *ipRule) *aclRule  { return &aclRule{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: r} }
func deny(r *ipRule) *aclRule    { return &aclRule{Action: vpp_acl.ACL_Rule_DENY, IpRule: r} }
func reflect(r *ipRule) *aclRule { return &aclRule{Action: vpp_acl.ACL_Rule_REFLECT, IpRule: r} }

func everything() *ipRule { return &ipRule{} }

func from(network string) *ipRule {
	return &ipRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: network}}
}

func to(network string) *ipRule {
	return &ipRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{DestinationNetwork: network}}
}

func protocol(number uint32) *ipRule {
	return &ipRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{Protocol: number}}
}

func tcp(first, last uint32) *ipRule {
	return &ipRule{Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{DestinationPortRange: &ports{LowerPort: first, UpperPort: last}}}
}

func udp(first, last uint32) *ipRule {
	return &ipRule{Udp: &vpp_acl.ACL_Rule_IpRule_Udp{DestinationPortRange: &ports{LowerPort: first, UpperPort: last}}}
}

func icmpTypes(v6 bool, first, last uint32) *ipRule {
	return &ipRule{Icmp: &icmp{Icmpv6: v6, IcmpTypeRange: &vpp_acl.ACL_Rule_IpRule_Icmp_Range{First: first, Last: last}}}
}

var aclCases = []aclCase{
	{name: "permit by destination, with the end denying the rest", lists: []*vpp_acl.ACL{
		list("l", "left in", permit(to("10.20.0.3/14"))),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "ping", "right2", 0, true}, {"left", "ping6", "right", 0, false}, {"left", "udp6", "right", 80, false},
		{"right", "udp", "left", 80, true}, {"right", "udp6", "left", 80, false}, // the reply is denied
	}},
	{name: "deny one address, permit its network", lists: []*vpp_acl.ACL{
		list("l", "left in", deny(to("10.21.0.4/32")), deny(to("10.22.0.4/32")), deny(to("fd21::4/128")), deny(to("fd22::4/128")), permit(everything())),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "tcp", "right2", 80, false}, {"left", "ping", "right2", 0, false},
		{"left", "tcp6", "right", 80, true}, {"left", "tcp6", "right2", 80, false}, {"left", "ping6", "right2", 0, false},
	}},
	{name: "permit before deny: the first rule decides", lists: []*vpp_acl.ACL{
		list("l", "left in", permit(tcp(80, 80)), deny(everything()), permit(everything())),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "udp", "right", 80, false}, {"left", "tcp6", "right", 80, true},
	}},
	{name: "by source", lists: []*vpp_acl.ACL{
		list("l", "right out", permit(from("10.21.0.2/32")), permit(from("fd21::2/128"))),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "tcp6", "right", 80, true}, {"right", "udp", "left", 80, true},
	}},
	{name: "by another source", lists: []*vpp_acl.ACL{
		list("l", "right out", permit(from("10.21.0.7/32")), permit(from("fd21::7/128"))),
	}, probes: []probe{{"left", "tcp", "right", 80, false}, {"left", "tcp6", "right", 80, false}}},
	{name: "by protocol", lists: []*vpp_acl.ACL{
		list("l", "left in", permit(protocol(17))),
	}, probes: []probe{
		{"left", "udp", "right", 80, true}, {"left", "udp6", "right", 8080, true}, {"left", "tcp", "right", 80, false}, {"left", "ping", "right", 0, false},
	}},
	{name: "by ports", lists: []*vpp_acl.ACL{
		list("l", "left in", permit(tcp(79, 81)), permit(udp(8000, 9000)), deny(tcp(8080, 8080)),
			deny(&ipRule{Udp: &vpp_acl.ACL_Rule_IpRule_Udp{SourcePortRange: &ports{UpperPort: 65535}}})),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "udp", "right", 80, false}, {"left", "udp", "right", 8080, true},
		{"left", "tcp6", "right", 80, true}, {"left", "tcp6", "right", 8080, false},
	}},
	{name: "answers by source port", lists: []*vpp_acl.ACL{
		list("l", "left out", permit(&ipRule{Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{SourcePortRange: &ports{LowerPort: 80, UpperPort: 80}}})),
	}, probes: []probe{{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}}},
	{name: "by TCP flags: no connections to the left", lists: []*vpp_acl.ACL{
		list("l", "left out", deny(&ipRule{Tcp: &vpp_acl.ACL_Rule_IpRule_Tcp{TcpFlagsMask: 18, TcpFlagsValue: 2}}), permit(everything())),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"right", "tcp", "left", 80, false}, {"right", "tcp6", "left", 80, false}, {"right", "udp", "left", 80, true},
	}},
	{name: "by ICMP type: echo requests only", lists: []*vpp_acl.ACL{
		list("l", "left in", permit(icmpTypes(false, 8, 8)), permit(icmpTypes(true, 128, 128))),
	}, probes: []probe{
		{"left", "ping", "right", 0, true}, {"left", "ping6", "right", 0, true}, {"right", "ping", "left", 0, false}, {"right", "ping6", "left", 0, false},
		{"left", "tcp", "right", 80, false},
	}},
	{name: "by ICMP type and code: all but echo requests", lists: []*vpp_acl.ACL{
		list("l", "left in", deny(&ipRule{Icmp: &icmp{
			IcmpTypeRange: &vpp_acl.ACL_Rule_IpRule_Icmp_Range{First: 5, Last: 8}, IcmpCodeRange: &vpp_acl.ACL_Rule_IpRule_Icmp_Range{},
		}}), deny(icmpTypes(true, 100, 128)), permit(everything())),
	}, probes: []probe{
		{"left", "ping", "right", 0, false}, {"left", "ping6", "right", 0, false}, {"right", "ping", "left", 0, true}, {"right", "ping6", "left", 0, true},
		{"left", "tcp", "right", 80, true},
	}},
	{name: "reflect: replies pass, nothing else", lists: []*vpp_acl.ACL{
		list("pod", "left in", reflect(everything())), list("wall", "left out", deny(everything())),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "udp", "right", 80, true}, {"left", "ping", "right", 0, true},
		{"left", "tcp6", "right", 80, true}, {"left", "udp6", "right", 80, true}, {"left", "ping6", "right", 0, true},
		{"right", "tcp", "left", 80, false}, {"right", "udp", "left", 80, false}, {"right", "ping", "left", 0, false},
		{"right", "tcp6", "left", 80, false}, {"right", "udp6", "left", 80, false}, {"right", "ping6", "left", 0, false},
	}},
	{name: "permit lets no answers pass", lists: []*vpp_acl.ACL{
		list("pod", "left in", permit(everything())), list("wall", "left out", deny(everything())),
	}, probes: []probe{{"left", "tcp", "right", 80, false}, {"left", "udp6", "right", 80, false}, {"left", "ping", "right", 0, false}}},
	{name: "reflect in the other direction", lists: []*vpp_acl.ACL{
		list("in", "left out", reflect(tcp(80, 80)), reflect(icmpTypes(false, 8, 8))), list("wall", "left in", deny(everything())),
	}, probes: []probe{
		{"right", "tcp", "left", 80, true}, {"right", "tcp6", "left", 80, true}, {"right", "ping", "left", 0, true},
		{"right", "tcp", "left", 8080, false}, {"right", "ping6", "left", 0, false}, {"left", "tcp", "right", 80, false},
	}},
	{name: "reflect on one interface says nothing on another", lists: []*vpp_acl.ACL{
		list("pod", "left in", reflect(everything())), list("wall", "right in", deny(everything())),
	}, probes: []probe{{"left", "tcp", "right", 80, false}, {"left", "udp", "right", 80, false}}},
	{name: "two isolated hosts with policies", lists: []*vpp_acl.ACL{
		list("reflection", "left in, right in", reflect(everything())),
		list("table-left", "left out", deny(everything())),
		list("table-right", "right out", permit(tcp(80, 80)), deny(everything())),
	}, probes: []probe{
		{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "udp", "right", 80, false},
		{"right", "tcp", "left", 80, false}, {"left", "tcp6", "right", 80, true}, {"right", "ping6", "left", 0, false},
	}},
	{name: "lists count in the order of their names", lists: []*vpp_acl.ACL{
		list("b", "left in", permit(everything())), list("a", "left in", deny(tcp(80, 80))),
	}, probes: []probe{{"left", "tcp", "right", 80, false}, {"left", "tcp", "right", 8080, true}, {"left", "ping6", "right", 0, true}}},
	{name: "lists count in the order of their names, the other way round", lists: []*vpp_acl.ACL{
		list("a", "left in", permit(everything())), list("b", "left in", deny(tcp(80, 80))),
	}, probes: []probe{{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, true}}},
	{name: "a list without rules denies everything, but not elsewhere", lists: []*vpp_acl.ACL{
		list("none", "left in"),
	}, probes: []probe{{"left", "tcp", "right", 80, false}, {"left", "ping6", "right", 0, false}}},
	{name: "the node itself", node: true, lists: []*vpp_acl.ACL{
		list("in", "left in", deny(to("10.21.0.1/32")), deny(to("fd21::1/128")), permit(everything())),
		list("out", "left out", permit(tcp(80, 80)), deny(from("10.21.0.1/32")), permit(everything())),
	}, probes: []probe{
		{"left", "tcp", "node", 80, false}, {"left", "udp6", "node", 80, false}, {"left", "ping", "node", 0, false},
		{"left", "tcp", "right", 80, true}, {"node", "udp", "left", 80, false}, {"right", "ping", "left", 0, true},
	}},
	{name: "the node itself, reflected", node: true, lists: []*vpp_acl.ACL{
		list("in", "left in", deny(everything())), list("out", "left out", reflect(everything())),
	}, probes: []probe{
		{"node", "tcp", "left", 80, true}, {"node", "udp6", "left", 80, true}, {"node", "ping", "left", 0, true}, {"left", "tcp", "node", 80, false},
	}},
}

// checkRunning: a change applies to established connections and leaves unrelated ones alone.
func (lab *aclLab) checkRunning(t *testing.T) {
	rules := func(web ...*aclRule) []*vpp_acl.ACL {
		return []*vpp_acl.ACL{list("pod", "left in", append(web, permit(icmpTypes(false, 8, 8)))...), list("wall", "left out", deny(everything()))}
	}
	lab.set(t, rules(reflect(tcp(80, 80)))...)
	c, err := lab.left.dial("tcp", lab.rightNet[0]+"3", 80, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	works := connectionCheck(t, c)
	works("at first", true)
	var others []*aclRule
	for port := uint32(1000); port < 1020; port++ {
		others = append(others, deny(tcp(port, port)), permit(udp(port, port)))
	}
	lab.set(t, rules(append(others, reflect(tcp(80, 80)))...)...)
	works("with other rules before", true)
	lab.set(t, rules(deny(tcp(80, 80)))...)
	works("denied", false)
	lab.set(t, rules(permit(tcp(80, 80)))...)
	works("permitted, but not its answers", false)
	lab.set(t, rules(reflect(tcp(80, 81)))...)
	works("reflected again", true)
	lab.set(t)
	works("without lists", true)
}

// checkForgotten: replies pass only while a reflecting list exists.
func (lab *aclLab) checkForgotten(t *testing.T, stay bool) {
	pod, wall := list("pod", "left in", reflect(everything())), list("wall", "left out", deny(everything()))
	for _, kind := range []string{"tcp", "udp"} {
		for _, network := range lab.rightNet {
			lab.set(t, pod, wall)
			c, err := lab.left.dial(kind, network+"3", 80, longWait)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			works := connectionCheck(t, c)
			works("at first", true)
			lab.set(t, wall)
			works("the list that reflected it is gone", stay)
			lab.set(t)
			works("without lists", true)
			lab.set(t, wall)
			works("after all lists were gone", false)
			lab.set(t, pod, wall)
			works("reflected again", true)
		}
	}
	lab.set(t)
}

func (lab *aclLab) checkReplacement(t *testing.T) {
	rules := func(others int) []*vpp_acl.ACL {
		var list1 []*aclRule
		for port := range uint32(others) {
			list1 = append(list1, deny(tcp(port, port)), permit(udp(1000+port, 1000+port)))
		}
		return []*vpp_acl.ACL{list("l", "left in", append(list1, permit(udp(80, 80)))...)}
	}
	lab.set(t, rules(1)...)
	permitted, err := lab.left.dial("udp", lab.rightNet[0]+"3", 80, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer permitted.Close()
	denied, err := lab.left.dial("udp", lab.rightNet[0]+"3", 8080, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer denied.Close()
	stop, lost := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(lost)
		for sent := 0; ; sent++ {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = denied.Write([]byte("ping"))
			if err := exchange(permitted, longWait); err != nil {
				lost <- fmt.Errorf("packet %d: %w", sent, err)
				return
			}
		}
	}()
	for n := range 20 {
		lab.set(t, rules(1+n%3*50)...)
	}
	close(stop)
	if err := <-lost; err != nil {
		t.Errorf("a permitted packet was not answered: %v", err)
	}
	if err := exchange(denied, shortWait); err == nil {
		t.Error("a denied packet was answered")
	}
}

func (lab *aclLab) checkMACIP(t *testing.T) {
	rule := func(action vpp_acl.ACL_Rule_Action, addr string, prefix uint32, mac, mask string) *aclRule {
		return &aclRule{Action: action, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{
			SourceAddress: addr, SourceAddressPrefix: prefix, SourceMacAddress: mac, SourceMacAddressMask: mask,
		}}
	}
	const yes, no = vpp_acl.ACL_Rule_PERMIT, vpp_acl.ACL_Rule_DENY
	nd := rule(yes, "fe80::", 10, "", "")
	for _, test := range []struct {
		name  string
		rules []*aclRule
		v4    bool
		v6    bool
	}{
		{"its own addresses", []*aclRule{rule(yes, "10.21.0.2", 32, leftMAC, ""), rule(yes, "fd21::2", 128, leftMAC, "ff:ff:ff:ff:ff:ff"), nd}, true, true},
		{"another MAC address", []*aclRule{rule(yes, "10.21.0.2", 32, "02:fe:00:00:ac:03", ""), rule(yes, "", 0, leftMAC, "ff:ff:ff:00:00:00"), nd}, true, true},
		{"another MAC address only", []*aclRule{rule(yes, "", 0, "02:fe:00:00:ac:03", ""), nd}, false, false},
		{"another IP address", []*aclRule{rule(yes, "10.21.0.3", 32, leftMAC, ""), rule(yes, "fd21::2", 64, "02:00:00:00:00:00", "ff:00:00:00:00:00"), nd}, false, true},
		{"deny first", []*aclRule{rule(no, "10.21.0.0", 24, "", ""), rule(yes, "", 0, "", "")}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			lab.check(t, aclCase{
				// MAC and IP lists must both permit a packet.
				lists: []*vpp_acl.ACL{list("macs", "left in", test.rules...), list("web", "left in", permit(tcp(80, 80)))},
				probes: []probe{
					{"left", "tcp", "right", 80, test.v4}, {"left", "tcp6", "right", 80, test.v6}, {"left", "tcp", "right", 8080, false}, {"left", "tcp6", "right", 8080, false},
				},
			})
		})
	}
}

func (lab *aclLab) checkRestart(t *testing.T) {
	lists := []*vpp_acl.ACL{
		list("pod/1 *", "left in", reflect(everything())), list("wall", "left out", deny(everything())),
		list("macs", "right in", &aclRule{Action: vpp_acl.ACL_Rule_PERMIT, MacipRule: &vpp_acl.ACL_Rule_MacIpRule{}}),
	}
	probes := []probe{{"left", "tcp", "right", 80, true}, {"right", "tcp", "left", 80, false}}
	lab.check(t, aclCase{lists: lists, probes: probes})
	c, err := lab.left.dial("tcp", lab.rightNet[0]+"3", 80, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lab.agent.stop()
	ask := func(when string) {
		t.Helper()
		if err := exchange(c, longWait); err != nil {
			t.Errorf("%s: the connection: %v", when, err)
		}
		for _, p := range probes {
			if err := lab.send(p); (err == nil) != p.passes {
				t.Errorf("%s: %v: %v", when, p, err)
			}
		}
	}
	ask("while the agent is down")
	lab.agent = startAgent(t, lab.site)
	values := slices.Clone(lab.values)
	for _, l := range lists {
		values = append(values, l)
	}
	wantNothingExecuted(t, "resync after the restart", lab.agent.resync(values...))
	ask("after the restart")

	wantSomethingExecuted(t, "resync without lists", lab.agent.resync(lab.values...))
	if err := lab.send(probe{"right", "tcp", "left", 80, true}); err != nil {
		t.Errorf("without lists: %v", err)
	}
	found, err := lab.agent.vs.ACLs().List(t.Context(), nil)
	if err != nil || len(found) > 0 {
		t.Errorf("left: %v, %v", found, err)
	}
}
