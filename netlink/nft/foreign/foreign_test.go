package foreign_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/nft/foreign"
)

// Rulesets as others write them, in the kernel, and what becomes of a TCP packet of a pod.
func TestDrops(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	const base = "chain FORWARD { type filter hook forward priority 0; policy %s; %s }"
	accept := func(rules string) string { return "table ip filter { " + fmt.Sprintf(base, "accept", rules) + " }" }
	drop := func(rules string) string { return "table ip filter { " + fmt.Sprintf(base, "drop", rules) + " }" }
	for name, c := range map[string]struct{ ruleset, want string }{
		"nothing":               {"table ip filter { }", ""},
		"drops all":             {accept("drop"), "a rule of chain FORWARD in table ip filter drops the packet"},
		"with a comment":        {accept(`counter drop comment "no pods"`), `(comment "no pods")`},
		"rejects":               {accept("reject"), "drops the packet"},
		"network of the pod":    {accept("ip saddr 10.1.0.0/16 drop"), "drops"},
		"another network":       {accept("ip saddr 10.2.0.0/16 drop"), ""},
		"odd network":           {accept("ip daddr 10.1.2.0/23 drop"), "drops"},
		"device":                {accept(`iifname "c-pod" oifname "c-vxlan*" drop`), "drops"},
		"another device":        {accept(`oifname "docker0" drop`), ""},
		"port":                  {accept("tcp dport 80 drop"), "drops"},
		"another port":          {accept("tcp dport 81 drop"), ""},
		"another protocol":      {accept("udp dport 80 drop"), ""},
		"invalid connections":   {accept("ct state invalid drop"), ""},
		"too large":             {accept("meta length 1000-65535 drop"), "drops"},
		"not too large":         {accept("meta length 2000-65535 drop"), ""},
		"maybe":                 {accept("ip dscp 3 drop"), ""},
		"accepted before":       {accept("ip saddr 10.1.1.2 accept; drop"), ""},
		"maybe accepted before": {accept("ip dscp 3 accept; drop"), ""},
		"policy":                {drop(""), "the policy of chain FORWARD in table ip filter is drop, and none of its rules accepts the packet"},
		"policy but accepted":   {drop("ip saddr 10.1.0.0/16 accept"), ""},
		"as docker":             {drop("ct state related,established accept; oifname docker0 accept"), "the policy of chain FORWARD"},
		"policy, maybe":         {drop("ip dscp 3 accept"), ""},
		"in a chain":            {"table inet x { chain user { ip saddr 10.1.1.2 drop; }; chain f { type filter hook forward priority 5; jump user; } }", "a rule of chain user in table inet x drops"},
		"returned":              {"table inet x { chain user { ip saddr 10.1.1.2 return; drop; }; chain f { type filter hook forward priority 5; jump user; } }", ""},
		"jump maybe":            {"table inet x { chain user { drop; }; chain f { type filter hook forward priority 5; ip dscp 3 jump user; } }", ""},
		"IPv6 only":             {"table ip6 filter { " + fmt.Sprintf(base, "drop", "") + " }", ""},
		"another hook":          {"table inet x { chain i { type filter hook input priority 0; policy drop; } }", ""},
		"ours":                  {"table ip contiv { " + fmt.Sprintf(base, "drop", "") + " }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ns := fmt.Sprintf("foreign%d", os.Getpid())
			run := func(args ...string) {
				t.Helper()
				if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			run("netns", "add", ns)
			defer run("netns", "del", ns)
			run("netns", "exec", ns, "nft", strings.NewReplacer("; };", "\n}\n", "; }", "\n}\n", " }", "\n}\n").Replace(c.ruleset))
			handle, err := namespace.Open("/var/run/netns/" + ns)
			if err != nil {
				t.Fatal(err)
			}
			defer handle.Close()
			rules, err := foreign.Read(handle, func(table string) bool { return table == "contiv" })
			if err != nil {
				t.Fatal(err)
			}
			got := rules.Drops(foreign.Packet{Hook: foreign.Forward, In: "c-pod", Out: "c-vxlanBVI", Protocol: 6, DstPort: 80, Size: 1450,
				Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr("10.1.2.2")})
			if (len(got) > 0) != (c.want != "") || len(got) > 0 && !strings.Contains(got[0], c.want) {
				t.Errorf("%s\ngot %q, want %q", c.ruleset, got, c.want)
			}
		})
	}
}
