package linux

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	"github.com/contiv/contiv/internal/vswitch/linux/iptables"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func runIn(t testing.TB, netns, command string) string {
	t.Helper()
	out, err := tryIn(netns, command)
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return out
}

func tryIn(netns, command string) (string, error) {
	out, err := exec.Command("ip", append([]string{"netns", "exec", netns}, strings.Fields(command)...)...).CombinedOutput()
	return string(out), err
}

func needsIPTables(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("iptables-restore"); err != nil {
		t.Skip("needs the package iptables")
	}
}

// twoPods connects two namespaces, 10.3.0.1 and 10.3.0.2.
func (a *agent) twoPods() (ns1, ns2 string, values []proto.Message) {
	a.t.Helper()
	ns1, ns2 = netNSName(a.t), netNSName(a.t)
	veth := func(name, peer, netns string, addrs ...string) *linux_interfaces.Interface {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Namespace: byPath(netns), HostIfName: "eth0", Enabled: true,
			IpAddresses: addrs, Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	values = []proto.Message{
		veth("veth-a", "veth-b", ns1, "10.3.0.1/24", "fd00:3::1/64"), veth("veth-b", "veth-a", ns2, "10.3.0.2/24", "fd00:3::2/64"),
	}
	a.commit(a.put(values...))
	pings(a.t, ns1, "fd00:3::2", true)
	return ns1, ns2, values
}

func inputChain(name, netns string, rules ...string) *linux_iptables.RuleChain {
	return &linux_iptables.RuleChain{Name: name, Namespace: byPath(netns), ChainType: linux_iptables.RuleChain_INPUT, Rules: rules}
}

// pings checks whether an address answers. It retries, because the kernel drops the first packets
// on a new veth pair.
func pings(t testing.TB, netns, to string, want bool) {
	t.Helper()
	answers := func() bool { _, err := tryIn(netns, "ping -c1 -W1 "+to); return err == nil }
	if want {
		waitFor(t, answers, to+" answers")
	} else if answers() {
		t.Errorf("%s answers", to)
	}
}

func TestRuleChainDropsAndAcceptsPackets(t *testing.T) {
	needsIPTables(t)
	a := newAgent(t)
	ns1, ns2, _ := a.twoPods()
	pings(t, ns1, "10.3.0.2", true)

	chain := inputChain("no ping", ns2, "-p icmp -s 10.3.0.1 -j DROP")
	chain.Interfaces = []string{"veth-b"}
	a.commit(a.put(chain))
	a.inState(pb.ValueState_CONFIGURED, chain)
	pings(t, ns1, "10.3.0.2", false)
	pings(t, ns1, "fd00:3::2", true)

	accept := proto.Clone(chain).(*linux_iptables.RuleChain)
	accept.Rules = []string{"-p icmp -s 10.3.0.1 -j ACCEPT", "-p icmp -j DROP"}
	accept.DefaultPolicy = linux_iptables.RuleChain_DROP
	a.commit(a.put(accept))
	pings(t, ns1, "10.3.0.2", true)
	contains(t, runIn(t, ns2, "iptables -S"), "-P INPUT DROP")

	six := proto.Clone(chain).(*linux_iptables.RuleChain)
	six.Name, six.Protocol, six.Rules = "six", linux_iptables.RuleChain_IPV6, []string{"-p ipv6-icmp --icmpv6-type echo-request -j DROP"}
	a.commit(a.put(six))
	pings(t, ns1, "fd00:3::2", false)
	pings(t, ns1, "10.3.0.2", true)

	a.commit(a.delete(accept, six))
	pings(t, ns1, "10.3.0.2", true)
	pings(t, ns1, "fd00:3::2", true)
	out := runIn(t, ns2, "iptables-save") + runIn(t, ns2, "ip6tables-save")
	contains(t, out, ":INPUT ACCEPT")
	lacks(t, out, "CONTIV", "contiv")
}

func TestRuleChainsSurviveARestartAndLeaveOthersAlone(t *testing.T) {
	needsIPTables(t)
	a, netns := newAgent(t), netNSName(t)
	runIn(t, netns, "iptables -A INPUT -s 192.0.2.1 -j ACCEPT")
	runIn(t, netns, "iptables -N theirs")
	custom := &linux_iptables.RuleChain{
		Name: "the web", Namespace: byPath(netns), ChainName: "web",
		Rules: []string{`-p tcp --destination-port 80 -m comment --comment "port 80, and it's \"quoted\"" -j ACCEPT`, "-s 10.0.0.1 -j REJECT"},
	}
	last, first := inputChain("b", netns, "-j web"), inputChain("a", netns, "-s 10.0.0.1 -j RETURN")
	first.DefaultPolicy = linux_iptables.RuleChain_DROP
	nat := &linux_iptables.RuleChain{
		Name: "nat", Namespace: byPath(netns), Table: linux_iptables.RuleChain_NAT, ChainType: linux_iptables.RuleChain_POSTROUTING,
		Rules: []string{"-s 10.1.0.0/16 -j MASQUERADE"},
	}
	own := inputChain("own", "", "-i lo -j ACCEPT")
	own.Namespace = nil
	gone := inputChain("gone", netns, "-j LOG --log-prefix gone")
	values := []proto.Message{custom, first, nat, own, last}
	a.commit(a.put(append(values, gone)...), kvscheduler.WithRevert())
	a.inState(pb.ValueState_CONFIGURED, append(values, gone)...)
	input := func() string { return runIn(t, netns, "iptables -S INPUT") }
	jumps := strings.Join([]string{"-P INPUT DROP", "-A INPUT -j " + iptables.ChainName(first), "-A INPUT -j " + iptables.ChainName(last),
		"-A INPUT -j " + iptables.ChainName(gone), "-A INPUT -s 192.0.2.1/32 -j ACCEPT\n"}, "\n")
	if got := input(); got != jumps {
		t.Errorf("got\n%swant\n%s", got, jumps)
	}

	a.restart()
	txn := a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))
	if got := strings.Join(operations(txn), "\n"); got != "DELETE "+models.Key(gone) {
		t.Errorf("the resync did %q", got)
	}
	a.inState(pb.ValueState_CONFIGURED, values...)

	a.commit(a.delete(values...))
	want := "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n-N theirs\n-A INPUT -s 192.0.2.1/32 -j ACCEPT\n"
	if got := runIn(t, netns, "iptables -S"); got != want {
		t.Errorf("left over:\n%s", got)
	}
	lacks(t, runIn(t, netns, "iptables-save")+runIn(t, a.name, "iptables-save"), "CONTIV", "contiv", "MASQUERADE")
}

func TestRuleChainUpdateKeepsCounters(t *testing.T) {
	needsIPTables(t)
	a := newAgent(t)
	ns1, ns2, _ := a.twoPods()
	chain := inputChain("count", ns2, "-p icmp", "-s 192.0.2.1 -j DROP", "-p icmp -j ACCEPT")
	a.commit(a.put(chain))
	pings(t, ns1, "10.3.0.2", true)
	next := proto.Clone(chain).(*linux_iptables.RuleChain)
	next.Rules = []string{"-p icmp", "-s 192.0.2.7 -j DROP", "-s 192.0.2.8 -j DROP", "-p icmp -j ACCEPT"}
	a.commit(a.put(next))
	out := runIn(t, ns2, "iptables-save -c -t filter")
	name := iptables.ChainName(chain)
	contains(t, out, "[1:84] -A "+name+" -p icmp\n", "[0:0] -A "+name+" -s 192.0.2.7/32 -j DROP\n[0:0] -A "+name+
		" -s 192.0.2.8/32 -j DROP\n[1:84] -A "+name+" -p icmp -j ACCEPT")
	lacks(t, out, "192.0.2.1/32")
}

func TestRuleChainWaitsForChainAndInterface(t *testing.T) {
	needsIPTables(t)
	a, netns := newAgent(t), netNSName(t)
	jump := inputChain("jump", netns, "-j web")
	jump.Interfaces = []string{"nowhere"}
	a.commit(a.put(jump))
	status := a.scheduler.ValueStatus(models.Key(jump)).GetValue()
	if got := strings.Join(status.GetDetails(), " "); status.GetState() != pb.ValueState_PENDING || got != "interface-exists-nowhere chain-exists-web" {
		t.Errorf("%v %q", status.GetState(), got)
	}
	web := &linux_iptables.RuleChain{Name: "web", Namespace: byPath(netns), ChainName: "web", Rules: []string{"-j ACCEPT"}}
	jump = proto.Clone(jump).(*linux_iptables.RuleChain)
	jump.Interfaces = nil
	a.commit(a.put(jump, web))
	a.inState(pb.ValueState_CONFIGURED, jump, web)
	a.commit(a.delete(web))
	a.inState(pb.ValueState_PENDING, jump)
	a.commit(a.put(web))
	a.inState(pb.ValueState_CONFIGURED, jump, web)
}

func TestRuleChainErrors(t *testing.T) {
	needsIPTables(t)
	a, netns := newAgent(t), netNSName(t)
	runIn(t, netns, "iptables -N theirs")
	runIn(t, netns, "iptables -A theirs -j ACCEPT")
	foreign := &linux_iptables.RuleChain{Name: "mine", Namespace: byPath(netns), ChainName: "theirs", Rules: []string{"-j DROP"}}
	drop, accept := inputChain("drop", netns), inputChain("accept", netns)
	drop.DefaultPolicy, accept.DefaultPolicy = linux_iptables.RuleChain_DROP, linux_iptables.RuleChain_ACCEPT
	for _, test := range []struct {
		values []proto.Message
		want   string
	}{
		{[]proto.Message{foreign}, "chain theirs of table filter: remove it, or give this one another chain_name"},
		{[]proto.Message{accept, drop}, `rule chain "accept" gives INPUT of table filter the policy ACCEPT, not DROP`},
		{[]proto.Message{inputChain("bad", netns, "-s 10.0.0.1 -j DROP", "-p tcp --dport http-nonsense -j DROP")}, "http-nonsense"},
		{[]proto.Message{inputChain("bad", netns, "-s 10.0.0.1 --no-such-option -j DROP")}, "no-such-option"},
		{[]proto.Message{inputChain("bad", "no-such-namespace")}, namespaces.ErrGone.Error()},
	} {
		_, err := a.put(test.values...).Commit(context.Background(), kvscheduler.WithRevert())
		if err == nil {
			t.Errorf("no error, want %q", test.want)
		} else {
			contains(t, err.Error(), test.want)
		}
	}
	lacks(t, runIn(t, netns, "iptables-save"), "CONTIV", "contiv", "DROP")

	chain := inputChain("late", netns, "-j ACCEPT")
	a.commit(a.put(chain))
	ip(t, "netns", "del", netns)
	a.commit(a.delete(chain))
	a.inState(pb.ValueState_NONEXISTENT, chain)
}

func TestRuleChainWithoutTheProgram(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	path := t.TempDir()
	chain := inputChain("c", netns, "-j ACCEPT")
	t.Setenv("PATH", path)
	if _, err := a.put(chain).Commit(t.Context()); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Error(err)
	}
	a.inState(pb.ValueState_UNIMPLEMENTED, chain)
	contains(t, a.scheduler.ValueStatus(models.Key(chain)).GetValue().GetError(), "iptables-save is missing, install the package iptables")
	a.commit(a.delete(chain))
	a.commit(a.put(), kvscheduler.WithResync(kvscheduler.FullResync))
}

func TestDriftOfRuleChainsIsRepaired(t *testing.T) {
	needsIPTables(t)
	a, netns := newAgent(t), netNSName(t)
	a.watch()
	chain := inputChain("c", netns, "-s 10.0.0.1 -j DROP", "-s 10.0.0.2 -j DROP")
	chain.DefaultPolicy = linux_iptables.RuleChain_DROP
	own := inputChain("own", "", "-s 10.0.0.1 -j DROP")
	own.Namespace = nil
	a.commit(a.put(chain, own))
	before := runIn(t, netns, "iptables-save -t filter")
	for _, change := range []string{
		"iptables -D " + iptables.ChainName(chain) + " -s 10.0.0.1 -j DROP",
		"iptables -A " + iptables.ChainName(chain) + " -j ACCEPT",
		"iptables -P INPUT ACCEPT",
		"iptables -D INPUT 1",
		"iptables -F",
		"iptables -F " + iptables.ChainName(chain),
		"nft delete table ip filter",
	} {
		repairs := len(a.drifts())
		runIn(t, netns, change)
		waitFor(t, func() bool { return len(a.drifts()) > repairs }, "drift is noticed after "+change)
		contains(t, a.drifts()[repairs], "rule chain of iptables was changed")
		a.inState(pb.ValueState_CONFIGURED, chain)
		if after := runIn(t, netns, "iptables-save -t filter"); !sameRules(before, after) {
			t.Errorf("after %s:\n%s", change, after)
		}
	}
	repairs := len(a.drifts())
	runIn(t, a.name, "iptables -F "+iptables.ChainName(own))
	waitFor(t, func() bool { return len(a.drifts()) > repairs }, "drift in the agent's own namespace is noticed")
	a.inState(pb.ValueState_CONFIGURED, own)
	repairs = len(a.drifts())
	runIn(t, netns, "iptables -A INPUT -s 192.0.2.1 -j ACCEPT")
	a.commit(a.delete(chain, own))
	a.awaitEvents()
	if got := a.drifts(); len(got) != repairs {
		t.Errorf("recorded as drift: %q", got[repairs:])
	}
}

// sameRules compares the output of iptables-save without comments and counters.
func sameRules(a, b string) bool {
	lines := func(text string) string {
		var kept []string
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, " [")
			if !strings.HasPrefix(line, "#") {
				kept = append(kept, strings.TrimSpace(line))
			}
		}
		return strings.Join(kept, "\n")
	}
	return lines(a) == lines(b)
}
