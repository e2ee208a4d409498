package vswitchtest

import (
	"fmt"
	"net"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// ipvsLab is a serviceLab with an IPVS service of another program on the node. Its virtual address
// is local, its server is pod2, and it masquerades like kube-proxy and keepalived (ipvsadm -m).
//
//	client ── node's address vip ── hook input ── IPVS ── hook output ── pod2
type ipvsLab struct {
	*serviceLab
	node *Host
	vip  string
}

const ipvsPort = 80

func runIPVS(t *testing.T, c Config) {
	site, ok := c.NewSite(t).(PacketSite)
	if !ok {
		t.Skip("this driver carries no packets")
	}
	if !open(t, site).Capabilities().HostStackShared {
		t.Skip("IPVS sees no packets of this vswitch: the node has another stack")
	}
	if _, err := site.Self().Try("ipvsadm --list"); err != nil {
		t.Skipf("this machine has no IPVS, or no ipvsadm: %v", err)
	}
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			l := &ipvsLab{serviceLab: newServiceLab(t, c, ipv6), vip: "10.98.0.1"}
			l.node = l.site.Self()
			if ipv6 {
				l.vip = "fd98::1"
			}
			l.run(t)
		})
	}
}

func (l *ipvsLab) run(t *testing.T) {
	l.serve(t, l.mapping(tcp44, 1), l.mapping(udp44, 1))
	l.node.Exec(t, fmt.Sprintf("ip addr add %s/%d dev lo", l.vip, l.bits()))
	for _, protocol := range []string{"--tcp-service", "--udp-service"} {
		at := protocol + " " + net.JoinHostPort(l.vip, fmt.Sprint(ipvsPort))
		l.node.Exec(t, "ipvsadm --add-service "+at+" --scheduler rr")
		l.node.Exec(t, fmt.Sprintf("ipvsadm --add-server %s --real-server %s --masquerading", at, net.JoinHostPort(l.pod(2), fmt.Sprint(servicePort))))
	}
	rules := l.node.Exec(t, "ipvsadm --save --numeric")

	for name, conntrack := range map[string]string{"without conntrack": "0", "with conntrack, as kube-proxy has it": "1"} {
		t.Run(name, func(t *testing.T) {
			l.node.Exec(t, "sysctl -qw net.ipv4.vs.conntrack="+conntrack)
			l.wantTheirs(t)
			l.wantOurs(t)
		})
	}
	t.Run("network policies", l.testPolicies)
	t.Run("a restarted agent leaves IPVS alone", func(t *testing.T) {
		l.agent.stop()
		l.agent = startAgent(t, l.site)
		wantNothingExecuted(t, "resync", l.agent.resync(append(l.values, l.network, l.value(l.mapping(tcp44, 1), l.mapping(udp44, 1)))...))
		l.wantTheirs(t)
		l.wantOurs(t)
		l.agent.resync()
		if now := l.node.Exec(t, "ipvsadm --save --numeric"); now != rules {
			t.Errorf("rules of IPVS were\n%s\nand are\n%s", rules, now)
		}
	})
}

func (l *ipvsLab) wantTheirs(t *testing.T) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		l.pods[3].want(t, network, l.vip, ipvsPort, "pod2", l.pod(3))
		l.world.want(t, network, l.vip, ipvsPort, "pod2", l.outside)
		l.node.want(t, network, l.vip, ipvsPort, "pod2", l.vip)
	}
}

// wantOurs checks Contiv's services, connections between pods, and SNAT. IPVS servers are among the
// pods.
func (l *ipvsLab) wantOurs(t *testing.T) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		l.pods[2].want(t, network, l.service, 80, "pod1", l.pod(2))
		l.world.want(t, network, l.service, 80, "pod1", l.outside)
		l.node.want(t, network, l.service, 80, "pod1", l.gateway(1))
		l.pods[1].want(t, network, l.pod(2), servicePort, "pod2", l.pod(1))
		who, seen, err := l.pods[2].who(t, network, "", l.outside, servicePort)
		if translated := seen == poolFirst || seen == poolLast; err != nil || who != "world" || translated == l.ipv6 {
			t.Errorf("pod2 reaches %s by %s, which sees it as %s (%v)", who, network, seen, err)
		}
	}
}

// testPolicies: policies apply to IPVS traffic. Allowed connections require IPVS conntrack, because
// replies are otherwise not associated with a client.
func (l *ipvsLab) testPolicies(t *testing.T) {
	world := filterList("from the world", ingress, &filterRule{Networks: []string{fmt.Sprintf("%s/%d", l.outside, l.bits())}})
	for _, test := range []struct {
		name, conntrack     string
		isolated            *contiv_filter.Subject
		pod3Asks, worldAsks bool
	}{
		{"server that the client may not reach", "1", filterSubject("prod/pod2", []string{l.pod(2)}, []string{world.GetName()}, nil), false, true},
		{"client without permitted destinations", "1", filterSubject("prod/pod3", []string{l.pod(3)}, nil, []string{}), false, true},
		{"without conntrack", "0", filterSubject("prod/pod2", []string{l.pod(2)}, []string{world.GetName()}, nil), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.node.Exec(t, "sysctl -qw net.ipv4.vs.conntrack="+test.conntrack)
			l.set(t, l.network, l.value(l.mapping(tcp44, 1), l.mapping(udp44, 1)), world, test.isolated)
			for _, network := range []string{"tcp", "udp"} {
				for who, answered := range map[*Host]bool{l.pods[3]: test.pod3Asks, l.world: test.worldAsks} {
					before := l.datagrams(t)
					if err := who.Probe(network, l.vip, ipvsPort, answered); (err == nil) != answered {
						t.Errorf("by %s from the world %v: %v, want an answer: %v", network, who == l.world, err, answered)
					}
					if now := l.datagrams(t); !answered && now != before {
						t.Errorf("by %s from the world %v: the server took datagrams: %s, before %s", network, who == l.world, now, before)
					}
				}
			}
		})
	}
	l.node.Exec(t, "sysctl -qw net.ipv4.vs.conntrack=1")
	l.serve(t, l.mapping(tcp44, 1), l.mapping(udp44, 1))
}

func (l *ipvsLab) datagrams(t *testing.T) string {
	t.Helper()
	var counts []string
	for line := range strings.Lines(l.pods[2].Exec(t, "cat /proc/net/snmp /proc/net/snmp6")) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "Udp:" || fields[0] == "Udp6InDatagrams") {
			counts = append(counts, fields[1])
		}
	}
	return strings.Join(counts, " ")
}
