package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

func askWhy(t *testing.T, l *lab.Lab, args ...string) (why.Answer, int) {
	t.Helper()
	return labtest.AskWhy(t, l, binaries, args...)
}

// contivctl why reports each of these faults, and nothing without a fault.
func TestWhy(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	web, db := pod(t, l, "why-web", "node1"), pod(t, l, "why-db", "node2")
	node1, err := st.Endpoint("node1")
	if err != nil {
		t.Fatal(err)
	}
	node2, err := st.Endpoint("node2")
	if err != nil {
		t.Fatal(err)
	}
	healthy := func() {
		t.Helper()
		await.That(t, "packets arrive and nothing is wrong", func() error {
			if a, code := askWhy(t, l, web.Name, db.Name); code != 0 || a.Verdict != why.Reached {
				return fmt.Errorf("exit code %d: %+v", code, a)
			}
			return nil
		})
	}
	healthy()
	for _, args := range [][]string{{"node1", "node2"}, {"why-web", "node2"}, {"why-web", "why-web"}, {"default/why-db", "203.0.113.10"}, {web.Address.String(), db.Address.String()}, {"node2", "why-web"}} {
		if a, code := askWhy(t, l, args...); code != 0 || a.Verdict != why.Reached {
			t.Errorf("why %v: exit code %d, %+v", args, code, a)
		}
	}
	if a, code := askWhy(t, l, "why-web", "why-db", "81"); code != 1 || a.Verdict != why.NotReached || !strings.Contains(fmt.Sprint(a.Probes), "refused") {
		t.Errorf("a closed port: %d, %+v", code, a)
	}

	for name, fault := range map[string]struct{ netns, fault, undo, verdict, where, want string }{
		"ip_forward": {node1.Netns, "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1",
			why.NotReached, "node node1", "net/ipv4/ip_forward is 0"},
		"foreign rule": {node1.Netns, "nft add table inet foreign; nft 'add chain inet foreign theirs { type filter hook forward priority 0; }'; " +
			"nft add rule inet foreign theirs ip daddr 10.1.2.0/24 drop comment mine", "nft delete table inet foreign",
			why.NotReached, "node node1", `a rule of chain theirs in table inet foreign drops the packet (comment "mine")`},
		"foreign policy": {node1.Netns, "nft add table ip foreign; nft 'add chain ip foreign FORWARD { type filter hook forward priority 0; policy drop; }'; " +
			"nft add rule ip foreign FORWARD ct state established,related accept", "nft delete table ip foreign",
			why.NotReached, "node node1", "the policy of chain FORWARD in table ip foreign is drop"},
		"port of the switch": {st.Underlay(), "ip link set port2 down", "ip link set port2 up",
			why.NotReached, "node node2", "its device eth0 has no carrier"},
		"path MTU": {st.Underlay(), "ip link set port2 mtu 1400", "ip link set port2 mtu 1500",
			why.Narrow, "path", "bytes are lost, but pods send up to 1450: raise the MTU"},
		"foreign route": {node1.Netns, "ip route add 10.1.2.0/25 via 192.168.16.254", "ip route del 10.1.2.0/25 via 192.168.16.254",
			why.NotReached, "node node1", "route 10.1.2.0/25 dev eth0 via 192.168.16.254 is foreign"},
		"wrong neighbour": {node1.Netns, "ip neigh replace 192.168.16.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent", "ip neigh del 192.168.16.2 dev eth0",
			why.NotReached, "node node1", "its neighbour entry for 192.168.16.2 of node node2 is 02:00:00:00:00:99 (a permanent neighbour, added manually on eth0)"},
		"answers": {node1.Netns, chain("inet", "filter hook forward", "ip saddr 10.1.2.0/24 ct state established drop"), "nft delete table inet foreign",
			why.NotReached, "node node1", "answers from " + db.Address.String() + " to " + web.Address.String() + " are dropped: a rule of chain theirs in table inet foreign"},
		"answers, elsewhere": {node2.Netns, chain("inet", "filter hook prerouting", "ip saddr 10.1.2.0/24 drop"), "nft delete table inet foreign",
			why.NotReached, "node node2", "answers from " + db.Address.String() + " to " + web.Address.String() + " are dropped: a rule of chain theirs in table inet foreign"},
		"after routing": {node1.Netns, chain("ip", "filter hook postrouting", "ip daddr 10.1.2.0/24 drop"), "nft delete table ip foreign",
			why.NotReached, "node node1", "are dropped: a rule of chain theirs in table ip foreign"},
		"as packets come": {node2.Netns, chain("netdev", "filter hook ingress device eth0", "udp dport 4789 drop"), "nft delete table netdev foreign",
			why.NotReached, "node node2", "tunnel packets from node node1 are dropped: a rule of chain theirs in table netdev foreign"},
		"as packets leave": {node1.Netns, chain("netdev", "filter hook egress device c-vxlanBVI", "ip daddr 10.1.2.0/24 drop"), "nft delete table netdev foreign",
			why.NotReached, "node node1", "are dropped: a rule of chain theirs in table netdev foreign"},
		"in the bridge": {node1.Netns, chain("bridge", "filter hook forward", "ip daddr 10.1.2.0/24 drop"), "nft delete table bridge foreign",
			why.NotReached, "node node1", "are dropped: a rule of chain theirs in table bridge foreign"},
		"translation": {node1.Netns, chain("ip", "nat hook prerouting", "ip daddr 10.1.2.0/24 dnat to 192.168.16.253"), "nft delete table ip foreign",
			why.NotReached, "node node1", "get another destination: a rule of chain theirs in table ip foreign translates it"},
		"tunnel's port rewritten": {node2.Netns, chain("ip", "filter hook prerouting", "udp dport 4789 udp dport set 9000"), "nft delete table ip foreign",
			why.NotReached, "node node2", "tunnel packets from node node1 get another destination: a rule of chain theirs in table ip foreign translates it"},
		"tunnel's port translated in a zone": {node2.Netns, "nft 'table ip zone { chain before { type filter hook prerouting priority -250; ct zone set 7; }; }'; " + chain("ip", "nat hook prerouting", "udp dport 4789 dnat to 192.168.16.2:9000"),
			"nft delete table ip zone; nft delete table ip foreign",
			why.NotReached, "node node2", "tunnel packets from node node1 get another destination: a rule of chain theirs in table ip foreign translates it"},
		"policy rule": {node1.Netns, "ip rule add from 10.1.1.0/24 to 10.1.2.0/24 pref 77 blackhole", "ip rule del pref 77",
			why.NotReached, "node node1", `are diverted by policy rule "77: from 10.1.1.0/24 to 10.1.2.0/24 blackhole": remove it with`},
		"policy rule for answers": {node2.Netns, "ip rule add to 10.1.1.0/24 pref 77 prohibit", "ip rule del pref 77",
			why.NotReached, "node node2", "packets from " + db.Address.String() + " to " + web.Address.String() + " are diverted by policy rule"},
		"policy rule to a table": {node1.Netns, "ip route add default via 192.168.16.254 table 77; ip rule add iif " + device(t, l, web) + " pref 77 lookup 77", "ip rule del pref 77; ip route flush table 77",
			why.NotReached, "node node1", `lookup 77": remove it with`},
		"pod's address elsewhere": {node2.Netns, "ip addr add " + web.Address.String() + "/32 dev lo", "ip addr del " + web.Address.String() + "/32 dev lo",
			why.NotReached, "node node2", "pod address " + web.Address.String() + " is assigned to device lo of this node"},
		"pod's address on its node": {node2.Netns, "ip addr add " + db.Address.String() + "/32 dev lo", "ip addr del " + db.Address.String() + "/32 dev lo",
			why.AnsweredByNode, "node node2", "pod address " + db.Address.String() + " is assigned to device lo of this node"},
		"foreign route that drops": {node1.Netns, "ip route add blackhole " + db.Address.String(), "ip route del blackhole " + db.Address.String(),
			why.NotReached, "node node1", "route blackhole " + db.Address.String() + "/32 is foreign (protocol 3, boot: made by hand, or by a script)"},
		"rule in the pod": {db.Netns, chain("inet", "filter hook input", "ip saddr 10.1.1.0/24 drop"), "nft delete table inet foreign",
			why.NotReached, "pod default/why-db", "are dropped: a rule of chain theirs in table inet foreign"},
		"policy rule in the pod": {db.Netns, "ip rule add pref 7 blackhole", "ip rule del pref 7",
			why.NotReached, "pod default/why-db", "a route or policy rule in the pod blocks packets to " + web.Address.String()},
	} {
		t.Run(name, func(t *testing.T) {
			command.In(t, fault.netns, fault.fault)
			undone := false
			undo := func() {
				if !undone {
					undone = true
					command.In(t, fault.netns, fault.undo)
				}
			}
			t.Cleanup(undo)
			await.That(t, "why says "+fault.want, func() error {
				a, code := askWhy(t, l, web.Name, db.Name)
				for _, f := range a.Findings {
					if f.Where == fault.where && strings.Contains(f.Text, fault.want) && a.Verdict == fault.verdict && code == 1 {
						return nil
					}
				}
				return fmt.Errorf("exit code %d: %+v", code, a)
			})
			undo()
			healthy()
		})
	}

	// NAT does not see packets of tunnels.
	t.Run("tunnel's port in tables of NAT", func(t *testing.T) {
		for hook, rule := range map[string]string{"prerouting": "udp dport 4789 dnat to 192.168.16.2:9000", "output": "udp dport 4789 redirect to :9000", "postrouting": "udp dport 4789 masquerade to :9000-9010"} {
			command.In(t, node2.Netns, strings.Replace(chain("ip", "nat hook "+hook, rule), "foreign", "of"+hook, -1))
		}
		command.In(t, node1.Netns, "iptables -t nat -A PREROUTING -p udp --dport 4789 -j DNAT --to-destination 192.168.16.1:9000")
		undo := func() {
			command.In(t, node2.Netns, "nft delete table ip ofprerouting; nft delete table ip ofoutput; nft delete table ip ofpostrouting")
			command.In(t, node1.Netns, "iptables -t nat -F PREROUTING")
		}
		defer undo()
		healthy()
		if a, code := askWhy(t, l, web.Name, db.Name); code != 0 || len(a.Findings)+len(a.PossibleCauses) > 0 {
			t.Errorf("exit code %d, %+v", code, a)
		}
	})

	t.Run("not judged", func(t *testing.T) {
		command.In(t, node1.Netns, chain("inet", "filter hook forward", "limit rate over 1/hour burst 1 packets drop"))
		a, code := askWhy(t, l, web.Name, db.Name)
		command.In(t, node1.Netns, "nft delete table inet foreign")
		if code != 1 || a.Verdict != why.NotReached || len(a.Findings) > 0 || !strings.Contains(fmt.Sprint(a.PossibleCauses), "may be dropped by a rule of chain theirs in table inet foreign, which is not evaluated because it limits a rate") {
			t.Errorf("exit code %d, %+v", code, a)
		}
		healthy()
	})

	// A server that accepts connections and then loses packets is faulty.
	t.Run("later packets", func(t *testing.T) {
		port := (&vswitchtest.Host{NetNS: lab.NetnsPath(db.Netns)}).Serve(t, db.Address.String())
		command.In(t, node1.Netns, chain("inet", "filter hook forward", "tcp flags & (syn|ack) == ack drop"))
		a, code := askWhy(t, l, web.Name, db.Name, fmt.Sprint(port))
		command.In(t, node1.Netns, "nft delete table inet foreign")
		if code != 1 || !strings.Contains(fmt.Sprint(a.Findings), "later packets from "+web.Address.String()+" to "+db.Address.String()+" are dropped: a rule of chain theirs") {
			t.Errorf("exit code %d, %+v", code, a)
		}
	})

	t.Run("echo requests ignored", func(t *testing.T) {
		ignore := func(value string) {
			for _, netns := range []string{node2.Netns, db.Netns} {
				command.In(t, netns, "sysctl -qw net.ipv4.icmp_echo_ignore_all="+value)
			}
		}
		ignore("1")
		a, code := askWhy(t, l, web.Name, db.Name)
		ignore("0")
		if i := slices.IndexFunc(a.Probes, func(p pathexplain.Probe) bool { return p.End }); code != 0 || a.Verdict != why.Reached || i < 0 || a.Probes[i].Kind != "udp" {
			t.Errorf("exit code %d, %+v", code, a)
		}
	})

	// Packets enter through the custom interface, and replies leave through eth0.
	t.Run("custom interface", func(t *testing.T) {
		const declared = "apiVersion: v1\nkind: Pod\nmetadata: {name: why-db, namespace: default, annotations: {contivpp.io/custom-if: net1/tap}}\nspec: {nodeName: node2, containers: [{name: c, image: none}]}\n"
		labtest.Apply(t, l, declared)
		net1 := ""
		await.That(t, "net1 has an address", func() error {
			out, err := exec.Command("ip", "-n", db.Netns, "-4", "-o", "addr", "show", "net1").CombinedOutput()
			if words := strings.Fields(string(out)); err == nil && len(words) > 3 {
				net1, _, _ = strings.Cut(words[3], "/")
				return nil
			}
			return fmt.Errorf("%w: %s", err, out)
		})
		defer labtest.Apply(t, l, strings.Replace(declared, "contivpp.io/custom-if: net1/tap", "", 1))
		for _, ends := range [][2]string{{web.Name, net1}, {net1, web.Name}} {
			await.That(t, "nothing is wrong", func() error {
				if a, code := askWhy(t, l, ends[0], ends[1]); code != 0 || a.Verdict != why.Reached || !strings.Contains(fmt.Sprint(a.From, a.To), "pod default/why-db ("+net1+" on node2)") {
					return fmt.Errorf("%v: exit code %d, %+v", ends, code, a)
				}
				return nil
			})
		}
		for _, strict := range []struct{ netns, want string }{
			{node2.Netns, "{node node2 answers from " + net1 + " to " + web.Address.String() + " are dropped on arrival at device " + device(t, l, db)},
			{db.Netns, "{pod default/why-db packets from " + web.Address.String() + " are dropped on arrival at net1"},
		} {
			command.In(t, strict.netns, "sysctl -qw net.ipv4.conf.all.rp_filter=1")
			a, code := askWhy(t, l, web.Name, net1)
			command.In(t, strict.netns, "sysctl -qw net.ipv4.conf.all.rp_filter=0")
			if code != 1 || a.Verdict != why.NotReached || !strings.Contains(fmt.Sprint(a.Findings), strict.want) {
				t.Errorf("want %q: exit code %d, %+v", strict.want, code, a)
			}
		}
	})

	t.Run("nobody listens", func(t *testing.T) {
		for _, port := range []string{"81", "53/udp"} {
			if a, code := askWhy(t, l, web.Name, db.Name, port); code != 1 || !strings.Contains(fmt.Sprint(a.Findings), "{pod default/why-db no process listens on port ") {
				t.Errorf("%s: exit code %d, %+v", port, code, a)
			}
		}
	})

	// Only the tunnel is down, which no node detects.
	t.Run("overlay", func(t *testing.T) {
		command.In(t, st.Underlay(), chain("bridge", "filter hook prerouting", "udp dport 4789 drop"))
		undo := func() { command.In(t, st.Underlay(), "nft delete table bridge foreign") }
		a, code := askWhy(t, l, "node1", "node2")
		pods, podsCode := askWhy(t, l, web.Name, db.Name)
		undo()
		if code != 1 || a.Verdict != why.NoOverlay {
			t.Errorf("between nodes: exit code %d, %+v", code, a)
		}
		if podsCode != 1 || pods.Verdict != why.NotReached || !strings.Contains(pods.Last, "node node2") {
			t.Errorf("between pods: exit code %d, %+v", podsCode, pods)
		}
		healthy()
	})

	t.Run("from outside", func(t *testing.T) {
		port := (&vswitchtest.Host{NetNS: lab.NetnsPath(db.Netns)}).Serve(t, db.Address.String())
		a, code := askWhy(t, l, "203.0.113.77", db.Name, fmt.Sprint(port))
		if code != 2 || a.Verdict != why.NotProbed || !strings.Contains(a.Untried, fmt.Sprintf("try it there: `nc -vz %v %d`", db.Address, port)) {
			t.Errorf("exit code %d, %+v", code, a)
		}
	})

	// The agent restores a pod's interface that was removed, and the pod's timeline shows it.
	// internal/agent/pathexplain tests the findings during the fault.
	t.Run("namespace emptied", func(t *testing.T) {
		command.In(t, web.Netns, "ip addr flush dev eth0")
		healthy()
		mustMatch(t, ctl(t, l, "timeline", web.Name), `because of .*address `+web.Address.String()+`/32 of the interface of pod default/`+web.Name+` was deleted`)
	})

	t.Run("agent gone", func(t *testing.T) {
		if err := l.KillAgent(t.Context(), "node2"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.StartAgent(context.WithoutCancel(t.Context()), "node2"); err != nil {
				t.Error(err)
			}
		})
		a, code := askWhy(t, l, web.Name, db.Address.String())
		if code != 1 || a.Verdict != why.Reached || len(a.Findings) != 1 || a.Findings[0].Where != "node node2" || !strings.Contains(a.Findings[0].Text, "its agent does not answer") {
			t.Errorf("%d, %+v", code, a)
		}
		if _, code := askWhy(t, l, "node1", "node2"); code != 1 {
			t.Errorf("between the nodes: %d", code)
		}
	})
}

// chain returns a shell command that adds another program's nftables table with one rule.
func chain(family, hook, rule string) string {
	return fmt.Sprintf("nft add table %s foreign; nft 'add chain %s foreign theirs { type %s priority 0; }'; nft 'add rule %s foreign theirs %s'", family, family, hook, family, rule)
}

func device(t *testing.T, l *lab.Lab, p lab.Pod) string {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node, err := st.Endpoint(p.Node)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ip", "-n", node.Netns, "-o", "route", "get", p.Address.String()).Output()
	words := strings.Fields(string(out))
	if i := slices.Index(words, "dev"); err == nil && i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	t.Fatalf("no route to %v: %v: %s", p.Address, err, out)
	return ""
}

// The path to a service consists of the paths to its endpoints. A fault on one of them is found.
// Rules that allow the endpoints also allow the service.
func TestWhyOfServices(t *testing.T) {
	l := require(t)
	client, near, far := pod(t, l, "svc-client", "node1"), pod(t, l, "svc-near", "node1"), pod(t, l, "svc-far", "node2")
	apply := func(name, text string) (remove func()) {
		t.Helper()
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Apply(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		return sync.OnceFunc(func() {
			if _, err := l.Delete(context.WithoutCancel(t.Context()), file); err != nil {
				t.Error(err)
			}
		})
	}
	const label = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: why-svc}}\nspec: {nodeName: %s, containers: [{name: c, image: none}]}\n"
	host := func(p lab.Pod) *vswitchtest.Host { return &vswitchtest.Host{NetNS: lab.NetnsPath(p.Netns)} }
	pods, endpoints := "", "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: why-svc-%[1]s, namespace: default, labels: {kubernetes.io/service-name: why-svc}}\n"+
		"addressType: IPv4\nports: [{name: '', protocol: TCP, port: %[2]d}]\nendpoints: [{addresses: [%[3]s], nodeName: %[4]s, conditions: {ready: true}}]\n"
	manifest := "apiVersion: v1\nkind: Service\nmetadata: {name: why-svc, namespace: default}\nspec: {type: NodePort, clusterIP: 10.96.0.77, clusterIPs: [10.96.0.77], ports: [{protocol: TCP, port: 80, nodePort: 30077}]}\n"
	ports := map[string]int{}
	for _, p := range []lab.Pod{near, far} {
		port := host(p).Serve(t, p.Address.String())
		ports[p.Name] = port
		manifest += fmt.Sprintf(endpoints, p.Name, port, p.Address, p.Node)
		pods += fmt.Sprintf(label, p.Name, p.Node)
	}
	apply("pods", strings.TrimPrefix(pods, "---\n"))
	defer apply("service", manifest)()
	ask := func(what string, wantCode int, verdict string, findings ...string) {
		t.Helper()
		await.That(t, what, func() error {
			a, code := askWhy(t, l, client.Name, "svc/why-svc")
			text := fmt.Sprint(a.Findings)
			missing := slices.ContainsFunc(findings, func(f string) bool { return !strings.Contains(text, f) })
			if code != wantCode || a.Verdict != verdict || len(a.Endpoints) != 2 || missing || len(findings) == 0 && len(a.Findings) > 0 {
				return fmt.Errorf("exit code %d: %+v", code, a)
			}
			return nil
		})
	}
	await.That(t, "the service is known", func() error {
		_, err := contivLab(t, l, "ctl", "services", "default/why-svc", "--node", "node1")
		return err
	})
	ask("nothing is wrong", 0, why.Reached)

	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node2, err := st.Endpoint("node2")
	if err != nil {
		t.Fatal(err)
	}
	farEnd := fmt.Sprintf("endpoint %v:%d", far.Address, ports[far.Name])
	command.In(t, node2.Netns, chain("inet", "filter hook forward", "ip daddr "+far.Address.String()+" drop"))
	ask("a foreign rule on the way to one endpoint", 1, why.SomeStopped, farEnd, "are dropped: a rule of chain theirs")
	command.In(t, node2.Netns, "nft delete table inet foreign")
	command.In(t, node2.Netns, "ip rule add to 10.1.1.0/24 pref 77 blackhole")
	ask("a policy rule on the way back", 1, why.SomeStopped, farEnd, "diverted by policy rule")
	command.In(t, node2.Netns, "ip rule del pref 77")
	ask("mended", 0, why.Reached)

	policy := func(name, spec string) (remove func()) {
		return apply(name, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: default, name: "+name+"}\nspec: "+spec+"\n")
	}
	remove := policy("why-closed", "{podSelector: {matchLabels: {app: why-svc}}, policyTypes: [Ingress]}")
	ask("a policy of the endpoints", 1, why.NotReached, farEnd, "is isolated by NetworkPolicy default/why-closed")
	remove()
	remove = policy("why-out", "{podSelector: {matchLabels: {app: svc-client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: why-svc}}}]}]}")
	ask("an egress policy that allows the endpoints", 0, why.Reached)
	remove()

	for _, c := range []struct {
		to, way string
		code    int
	}{
		{"svc/why-svc", "30077/TCP (NodePort of service default/why-svc): connections for clients outside of this node go to", 2},
		{st.Nodes[1].Address.Addr().String(), "(NodePort of service default/why-svc)", 2},
	} {
		args := []string{"203.0.113.77", c.to}
		if c.to != "svc/why-svc" {
			args = append(args, "30077")
		}
		a, code := askWhy(t, l, args...)
		if code != c.code || a.Verdict != why.NotProbed || len(a.Endpoints) != 2 || !strings.Contains(fmt.Sprint(a.Way), c.way) || !strings.Contains(a.Untried, " 30077`") {
			t.Errorf("from outside to %s: exit code %d, %+v", c.to, code, a)
		}
	}
}
