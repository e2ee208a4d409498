package pathexplain

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Names the cause inside a pod's network namespace: rules of service meshes or images, programs,
// and processes that listen elsewhere.
func TestContentOfAPod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	chain := func(hook, rule string) string {
		return "nft add table inet some; nft add chain inet some both; nft add rule inet some both limit rate over 10/second drop; nft \"add chain inet some c { type " + hook + " priority 0; }\"; nft add rule inet some c " + rule
	}
	for name, c := range map[string]struct {
		then       string
		from       bool
		protocol   string
		listen     string
		want, also string
	}{
		"nothing":                {then: "true", protocol: "tcp", listen: "10.1.1.2:80"},
		"received":               {then: chain("filter hook input", "tcp dport 80 drop"), protocol: "tcp", listen: ":80", want: "pod default/web packets from 10.1.2.2 to 10.1.1.2 are dropped: a rule of chain c"},
		"received, others":       {then: chain("filter hook input", "tcp dport 81 drop"), protocol: "tcp", listen: ":80"},
		"answers":                {then: chain("filter hook output", "ip daddr 10.1.2.2 drop"), protocol: "tcp", listen: ":80", want: "answers from 10.1.1.2 to 10.1.2.2 are dropped"},
		"sent":                   {then: chain("filter hook output", "tcp dport 80 drop"), from: true, protocol: "tcp", want: "packets from 10.1.1.2 to 10.1.2.2 are dropped"},
		"a service mesh":         {then: chain("nat hook prerouting", "tcp dport 80 redirect to 15006"), protocol: "tcp", also: "way: pod default/web: packets from 10.1.2.2 to 10.1.1.2 get another destination"},
		"a rate":                 {then: chain("filter hook input", "limit rate over 10/second drop"), protocol: "tcp", listen: ":80", also: "doubt: packets from 10.1.2.2 to 10.1.1.2 may be dropped by a rule of chain c in table inet some, which is not evaluated because it limits a rate"},
		"a rate, both ways":      {then: chain("filter hook input", "jump both") + "; nft \"add chain inet some d { type filter hook output priority 0; }\"; nft add rule inet some d jump both", protocol: "tcp", listen: ":80", also: "by a rule of chain both "},
		"a program":              {then: "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress bpf da bytecode \"1,6 0 0 2,\"", protocol: "tcp", listen: ":80", also: "doubt: packets may be dropped by a filter of traffic control at device eth0, which is not evaluated: see `tc filter show dev eth0 ingress`"},
		"a program, a queue":     {then: "tc qdisc add dev eth0 root tbf rate 1mbit burst 10kb latency 50ms", protocol: "tcp", listen: ":80", also: "doubt: packets may be dropped by the queueing discipline tbf at device eth0, which is not evaluated: see `tc -s qdisc show dev eth0`"},
		"nobody listens":         {then: "true", protocol: "tcp", also: "unheard: no process listens on port 80/tcp"},
		"only at loopback":       {then: "true", protocol: "tcp", listen: "127.0.0.1:80", also: "unheard: the process on port 80/tcp listens only on 127.0.0.1, not on 10.1.1.2"},
		"only IPv6, which is ::": {then: "true", protocol: "tcp", listen: "[::]:80"},
		"UDP":                    {then: "true", protocol: "udp", listen: ":80"},
		"UDP at loopback":        {then: "true", protocol: "udp", listen: "127.0.0.1:80", also: "unheard: the process on port 80/udp listens only on 127.0.0.1"},
		"UDP, nobody":            {then: "true", protocol: "udp", also: "unheard: no process listens on port 80/udp"},
		"a policy rule":          {then: "ip rule add pref 7 blackhole", protocol: "tcp", listen: ":80", want: "a route or policy rule in the pod blocks packets to 10.1.2.2"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := fmt.Sprintf("path%d", os.Getpid())
			const whole = "ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.1.1.2/32 dev eth0; ip route add 10.1.1.1 dev eth0; ip route add default via 10.1.1.1"
			t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
			for _, line := range []string{"ip netns add " + ns, "ip netns exec " + ns + " sh -ec '" + whole + "; " + c.then + "'"} {
				if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
					if strings.HasPrefix(name, "a program") {
						t.Skipf("this kernel has no such classifier: %s", out)
					}
					t.Fatalf("%s: %v: %s", line, err, out)
				}
			}
			pod := &Pod{Name: "default/web", NetNS: "/var/run/netns/" + ns, Interface: "eth0"}
			handle, h, err := pod.open()
			if err != nil {
				t.Fatal(err)
			}
			defer handle.Close()
			defer h.Close()
			if c.listen != "" {
				if err := handle.Run(func() error {
					if c.protocol == "udp" {
						l, err := net.ListenPacket("udp4", c.listen)
						if err == nil {
							t.Cleanup(func() { l.Close() })
						}
						return err
					}
					l, err := net.Listen("tcp", c.listen)
					if err == nil {
						t.Cleanup(func() { l.Close() })
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			own, other := netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.2.2")
			q := Question{From: other, To: own, Protocol: c.protocol, Port: 80}
			if c.from {
				q.From, q.To = own, other
			}
			r := &Report{}
			r.pod(pod, nil, own, other)
			r.Way = nil
			New(Options{MTU: func() int { return 1450 }}).content(r, end{pod: pod, out: pod}, q, c.from)
			var found, others []string
			for _, f := range r.Findings {
				found = append(found, f.Where+" "+f.Text)
			}
			for _, f := range r.Unjudged {
				others = append(others, "doubt: "+f.Text)
			}
			for _, line := range r.Way {
				others = append(others, "way: "+line)
			}
			if r.Unheard != nil {
				others = append(others, "unheard: "+r.Unheard.Text)
			}
			if n := strings.Count(strings.Join(others, "\n"), "by a rule of chain both "); n > 1 {
				t.Errorf("a rule is named %d times: %q", n, others)
			}
			for _, x := range []struct {
				got  []string
				want string
			}{{found, c.want}, {others, c.also}} {
				if text := strings.Join(x.got, "\n"); !strings.Contains(text, x.want) || x.want == "" && text != "" {
					t.Errorf("got %q, want %q", text, x.want)
				}
			}
		})
	}
}
