package foreign_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
)

// Foreign rulesets in the kernel, and their effect on a TCP packet of a pod.
func TestHarms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	const base = "chain FORWARD { type filter hook forward priority 0; policy %s; %s }"
	accept := func(rules string) string { return "table ip filter { " + fmt.Sprintf(base, "accept", rules) + " }" }
	drop := func(rules string) string { return "table ip filter { " + fmt.Sprintf(base, "drop", rules) + " }" }
	for name, c := range map[string]struct{ ruleset, want string }{
		"nothing":                   {"table ip filter { }", ""},
		"drops all":                 {accept("drop"), "a rule of chain FORWARD in table ip filter drops the packet"},
		"with a comment":            {accept(`counter drop comment "no pods"`), `(comment "no pods")`},
		"rejects":                   {accept("reject"), "drops the packet"},
		"network of the pod":        {accept("ip saddr 10.1.0.0/16 drop"), "drops"},
		"another network":           {accept("ip saddr 10.2.0.0/16 drop"), ""},
		"odd network":               {accept("ip daddr 10.1.2.0/23 drop"), "drops"},
		"device":                    {accept(`iifname "c-pod" oifname "c-vxlan*" drop`), "drops"},
		"another device":            {accept(`oifname "docker0" drop`), ""},
		"port":                      {accept("tcp dport 80 drop"), "drops"},
		"another port":              {accept("tcp dport 81 drop"), ""},
		"another protocol":          {accept("udp dport 80 drop"), ""},
		"invalid connections":       {accept("ct state invalid drop"), ""},
		"too large":                 {accept("meta length 1000-65535 drop"), "drops"},
		"not too large":             {accept("meta length 2000-65535 drop"), ""},
		"maybe":                     {accept("ip dscp 3 drop"), ""},
		"accepted before":           {accept("ip saddr 10.1.1.2 accept; drop"), ""},
		"maybe accepted before":     {accept("ip dscp 3 accept; drop"), ""},
		"policy":                    {drop(""), "the policy of chain FORWARD in table ip filter is drop, and none of its rules accepts the packet"},
		"policy but accepted":       {drop("ip saddr 10.1.0.0/16 accept"), ""},
		"as docker":                 {drop("ct state related,established accept; oifname docker0 accept"), "the policy of chain FORWARD"},
		"policy, maybe":             {drop("ip dscp 3 accept"), ""},
		"in a chain":                {"table inet x { chain user { ip saddr 10.1.1.2 drop; }; chain f { type filter hook forward priority 5; jump user; } }", "a rule of chain user in table inet x drops"},
		"returned":                  {"table inet x { chain user { ip saddr 10.1.1.2 return; drop; }; chain f { type filter hook forward priority 5; jump user; } }", ""},
		"jump maybe":                {"table inet x { chain user { drop; }; chain f { type filter hook forward priority 5; ip dscp 3 jump user; } }", ""},
		"IPv6 only":                 {"table ip6 filter { " + fmt.Sprintf(base, "drop", "") + " }", ""},
		"another hook":              {"table inet x { chain i { type filter hook input priority 0; policy drop; } }", ""},
		"at its device":             {"table netdev x { chain i { type filter hook ingress device c-pod priority 0; ip saddr 10.1.1.2 drop; } }", "are dropped: a rule of chain i in table netdev x"},
		"at one of devices":         {"table netdev x { chain i { type filter hook ingress devices = {c-pod, lo} priority 0; ip saddr 10.1.1.2 drop; } }", "table netdev x"},
		"at another device":         {"table netdev x { chain i { type filter hook ingress device lo priority 0; drop; } }", ""},
		"inet at its device":        {"table inet x { chain i { type filter hook ingress device c-pod priority 0; ip saddr 10.1.1.2 drop; } }", "table inet x"},
		"as it leaves":              {"table netdev x { chain e { type filter hook egress device c-vxlanBVI priority 0; ip daddr 10.1.2.2 drop; } }", "table netdev x"},
		"other frames":              {"table netdev x { chain i { type filter hook ingress device c-pod priority 0; meta protocol arp drop; } }", ""},
		"in the bridge":             {"table bridge x { chain o { type filter hook output priority 0; ip saddr 10.1.1.2 drop; } }", "table bridge x"},
		"in a bridge, others":       {"table bridge x { chain o { type filter hook output priority 0; ip saddr 10.1.1.3 drop; } }", ""},
		"translated":                {"table ip x { chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", "get another destination: a rule of chain p in table ip x translates it"},
		"redirected":                {"table inet x { chain p { type nat hook prerouting priority 0; tcp dport 80 redirect to 8080; } }", "get another destination"},
		"others' translated":        {"table ip x { chain p { type nat hook prerouting priority 0; tcp dport 81 dnat to 10.9.9.9; } }", ""},
		"by kube-proxy":             {"table ip x { chain KUBE-SERVICES { dnat to 10.9.9.9; }; chain p { type nat hook prerouting priority 0; jump KUBE-SERVICES; } }", ""},
		"masqueraded":               {"table ip x { chain p { type nat hook postrouting priority 0; masquerade; } }", ""},
		"masqueraded, of a pod":     {"table ip x { chain p { type nat hook postrouting priority 0; ip saddr 10.1.0.0/16 masquerade; } }", "get another source: a rule of chain p in table ip x translates it, so that network policies judge another address"},
		"SNAT in a chain, of a pod": {"table inet x { chain s { snat ip to 192.168.16.1; }; chain p { type nat hook postrouting priority 0; jump s; } }", "get another source: a rule of chain s"},
		"to elsewhere, of a pod":    {"table ip x { chain p { type nat hook postrouting priority 0; ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 masquerade; } }", ""},
		"accepted, of a pod":        {"table ip x { chain p { type nat hook postrouting priority 0; ip daddr 10.1.0.0/16 accept; masquerade; } }", ""},
		"kube-proxy's, of a pod":    {"table ip x { chain KUBE-POSTROUTING { masquerade; }; chain p { type nat hook postrouting priority 0; jump KUBE-POSTROUTING; } }", ""},
		"marked, of a pod":          {"table ip x { chain p { type nat hook postrouting priority 0; meta mark & 0x4000 == 0x4000 masquerade; } }", ""},
		"answers":                   {accept("ip saddr 10.1.2.2 drop"), "are dropped"},
		"answers of the port":       {accept("tcp sport 80 drop"), "are dropped"},
		"answers of another port":   {accept("tcp sport 81 drop"), ""},
		"answers of connections":    {accept("ip saddr 10.1.2.2 ct state established drop"), "are dropped"},
		"answers, but new":          {accept("ip saddr 10.1.2.2 ct state new drop"), ""},
		"answers by direction":      {accept("ct direction reply drop"), "are dropped"},
		"by direction":              {accept("ct direction original drop"), "are dropped"},
		"answers, not original":     {accept("ip saddr 10.1.2.2 ct direction original drop"), ""},
		"first packet":              {accept("tcp flags syn drop"), "are dropped"},
		"first packet only":         {accept("tcp flags & (fin|syn|rst|ack) == syn drop"), "are dropped"},
		"answers, first packet":     {accept("ip saddr 10.1.2.2 tcp flags & (fin|syn|rst|ack) == syn drop"), ""},
		"answers to the first":      {accept("tcp flags & (syn|ack) == syn|ack drop"), "are dropped"},
		"odd flags":                 {accept("tcp flags & (fin|syn) == fin|syn drop"), ""},
		"ports":                     {accept("tcp dport {80, 443} drop"), "are dropped"},
		"ports, not ours":           {accept("tcp dport {81, 443} drop"), ""},
		"ports but some":            {accept("tcp dport != {80, 443} drop"), ""},
		"range of ports":            {accept("tcp dport {22, 70-90} drop"), "are dropped"},
		"range of other ports":      {accept("tcp dport {22, 81-90, 70-79} drop"), ""},
		"networks":                  {accept("ip saddr {10.9.0.0/16, 10.1.0.0/16} drop"), "are dropped"},
		"open network":              {accept("ip saddr {0.0.0.0/1} drop"), "are dropped"},
		"last network":              {accept("ip saddr {128.0.0.0/1} drop"), ""},
		"states accepted":           {accept("ct state {established, related} accept; drop"), "are dropped"},
		"answers of accepted":       {accept("ct state {established, related} accept; ip saddr 10.1.2.2 drop"), ""},
		"named set":                 {"table inet x { set bad { type ipv4_addr; elements = {10.1.1.2} ; }; chain f { type filter hook forward priority 0; ip saddr @bad drop; } }", "are dropped"},
		"pairs":                     {accept("ip saddr . tcp dport {10.1.1.2 . 80, 10.1.1.3 . 81} drop"), "are dropped"},
		"others in a map":           {drop("ip saddr vmap {10.1.1.3 : drop, * : accept}"), ""},
		"others in a map, last":     {accept("ip saddr vmap {10.1.1.2 : accept, 10.1.2.2 : accept, * : drop}"), ""},
		"others, of networks":       {accept("ip saddr vmap {9.0.0.0/8 : accept, * : drop}"), "are dropped"},
		"others, by a chain":        {"table inet x { chain user { drop; }; chain f { type filter hook forward priority 0; ip saddr vmap {10.1.1.3 : accept, * : goto user}; } }", "are dropped: a rule of chain user"},
		"counted":                   {"table inet x { counter c { }; chain f { type filter hook forward priority 0; counter name c drop; } }", "drops"},
		"limited":                   {"table inet x { limit l { rate over 10/second; }; chain f { type filter hook forward priority 0; limit name l drop; } }", ""},
		"to a proxy":                {drop("tcp flags syn synproxy mss 1460"), ""},
		"empty set":                 {"table inet x { set good { type ipv4_addr; }; chain f { type filter hook forward priority 0; policy drop; ip saddr @good accept; } }", "policy"},
		"other pairs":               {accept("ip saddr . tcp dport {10.1.1.2 . 81, 10.1.1.3 . 80} drop"), ""},
		"pairs of ranges":           {accept("ip saddr . tcp dport {10.1.0.0/16 . 70-90} drop"), "are dropped"},
		"pairs of other ranges":     {accept("ip saddr . tcp dport {10.1.0.0/16 . 70-79, 10.2.0.0/16 . 70-90} drop"), ""},
		"devices":                   {accept(`iifname {"eth7", "c-pod"} drop`), "are dropped"},
		"verdicts":                  {accept("tcp dport vmap {22 : accept, 80 : drop}"), "are dropped"},
		"verdicts for others":       {accept("tcp dport vmap {22 : drop, 81 : drop}"), ""},
		"jump by verdicts":          {"table inet x { chain user { drop; }; chain f { type filter hook forward priority 5; ip saddr vmap {10.1.1.0/24 : jump user}; } }", "a rule of chain user in table inet x drops"},
		"accepted by verdicts":      {drop("ct state vmap {invalid : drop, new : accept, established : accept}"), ""},
		"not local":                 {accept("fib daddr type local accept; drop"), "are dropped"},
		"to the node":               {accept("fib daddr type local drop"), ""},
		"unicast":                   {accept("fib daddr type != {local, broadcast, multicast} drop"), "are dropped"},
		"many":                      {accept("ip saddr 10.7.0.1 accept; ip saddr 10.1.1.2 tcp dport 81 accept; ip daddr 10.1.2.2 drop; ip saddr 10.1.1.2 accept"), "are dropped"},
		"many, accepted before":     {accept("ip saddr 10.7.0.1 drop; ip daddr 10.1.2.0/24 accept; tcp dport 80 drop"), ""},
		"later packets":             {accept("tcp flags & (syn|ack) == ack drop"), "are dropped"},
		"later, of established":     {accept("ip saddr 10.1.1.2 ct state established drop"), "are dropped"},
		"later, but new":            {accept("ct state new drop"), ""},
		"answers, later":            {accept("ip saddr 10.1.2.2 tcp flags & (syn|ack) == ack drop"), "are dropped"},
		"answers, first of them":    {accept("ip saddr 10.1.2.2 tcp flags & (syn|ack) == ack drop"), ""},
		"later, not translated":     {"table ip x { chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", ""},
		"status":                    {accept("ct status assured drop"), ""},
		"status, untranslated":      {accept("ct status != dnat drop"), "are dropped"},
		"later, untranslated":       {accept("ct status assured drop"), "are dropped"},
		"maybe translated":          {accept("ct status dnat accept; drop"), ""},
		"for sure, untranslated":    {accept("ct status dnat accept; drop"), "are dropped"},
		"jump maybe, then all":      {"table inet x { chain user { drop; }; chain f { type filter hook forward priority 5; ip dscp 3 jump user; drop; } }", "a rule of chain f"},
		"NAT, but exempt":           {"table ip x { chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", ""},
		"NAT in a zone, exempt":     {"table ip x { chain z { type filter hook prerouting priority -210; ct zone set 3; }; chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", "get another destination"},
		"NAT, zone late, exempt":    {"table ip x { chain z { type filter hook prerouting priority -190; ct zone set 3; }; chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", ""},
		"other hook's zone, exempt": {"table ip x { chain z { type filter hook output priority -210; ct zone set 3; }; chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", ""},
		"another's zone, exempt":    {"table ip x { chain z { type filter hook prerouting priority -210; tcp dport 81 ct zone set 3; }; chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", ""},
		"zone of a chain, exempt":   {"table ip x { chain u { ct zone set 3; }; chain z { type filter hook prerouting priority -210; jump u; }; chain p { type nat hook prerouting priority 0; tcp dport 80 dnat to 10.9.9.9; } }", "get another destination"},
		"new, but exempt":           {accept("ct state new drop"), ""},
		"untracked, exempt":         {accept("ct state untracked drop"), "drops"},
		"not established, exempt":   {accept("ct state != established drop"), "drops"},
		"direction, but exempt":     {accept("ct direction original drop"), ""},
		"status, but exempt":        {accept("ct status != dnat drop"), ""},
		"later, but exempt":         {accept("ct state established drop"), ""},
		"rewritten":                 {"table ip x { chain p { type filter hook prerouting priority -150; tcp dport 80 ip daddr set 10.9.9.9; } }", "get another destination: a rule of chain p in table ip x translates it"},
		"rewritten port":            {"table netdev x { chain i { type filter hook ingress device c-pod priority 0; tcp dport 80 tcp dport set 81; } }", "get another destination"},
		"others' rewritten":         {"table ip x { chain p { type filter hook prerouting priority -150; tcp dport 81 ip daddr set 10.9.9.9; } }", ""},
		"rewritten source":          {accept("ip saddr set 10.9.9.9"), ""},
		"rewritten, of a pod":       {accept("ip saddr set 10.9.9.9"), "get another source: a rule of chain FORWARD in table ip filter translates it, so that network policies"},
		"rewritten source port":     {accept("tcp sport set 99"), ""},
		"ours":                      {"table ip contiv { " + fmt.Sprintf(base, "drop", "") + " }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespaceFor(t)
			command(t, "ip", "-n", ns, "link", "add", "c-pod", "type", "veth", "peer", "name", "c-vxlanBVI")
			command(t, "ip", "netns", "exec", ns, "nft", strings.NewReplacer("; };", "\n}\n", "; }", "\n}\n", " }", "\n}\n").Replace(c.ruleset))
			requireHarms(t, ns, c.ruleset, kind(name), c.want)
		})
	}
}

// kind derives the kind of packet from the name of a test.
func kind(name string) (p foreign.Packet) {
	p.Answer, p.Later, p.Untranslated = strings.HasPrefix(name, "answers"), strings.Contains(name, "later"), strings.Contains(name, "untranslated")
	p.KeepsSource, p.Untracked = strings.HasSuffix(name, "of a pod"), strings.HasSuffix(name, "exempt")
	return p
}

// Doubts names rules that may drop a packet, with the reason.
func TestDoubts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	const base = "table ip filter { chain FORWARD { type filter hook forward priority 0; policy %s; %s }; chain user { drop; }; }"
	accept := func(rules string) string { return fmt.Sprintf(base, "accept", rules) }
	drop := func(rules string) string { return fmt.Sprintf(base, "drop", rules) }
	const rule = "may be dropped by a rule of chain FORWARD in table ip filter"
	for name, c := range map[string]struct{ ruleset, want string }{
		"nothing":           {accept("ip saddr 10.1.1.2 accept"), ""},
		"a harm":            {accept("drop"), ""},
		"another packet":    {accept("udp dport 80 limit rate over 10/second drop"), ""},
		"not a drop":        {accept("limit rate over 10/second counter"), ""},
		"a rate":            {accept(`limit rate over 10/second drop comment "few"`), rule + ` (comment "few"), which is not evaluated because it limits a rate`},
		"headers":           {accept("ip dscp 3 drop"), rule + ", which is not evaluated because it compares a part of the headers that is not known before"},
		"proxy":             {accept("tcp flags syn synproxy mss 1460"), rule + ", which is not evaluated because it answers in the place of the server"},
		"connections":       {accept("ct count over 20 drop"), rule + ", which is not evaluated because it counts connections"},
		"status":            {accept("ct status dnat drop"), rule + ", which is not evaluated because it compares a property of the connection (ct status)"},
		"sender":            {accept("meta skuid 0 drop"), rule + ", which is not evaluated because it compares the sending user"},
		"in a chain, maybe": {accept("ip dscp 3 jump user"), "may be dropped by a rule of chain user in table ip filter, which is not evaluated because it is unknown whether packets reach that chain: it compares a part"},
		"accepted, maybe":   {accept("ip dscp 3 accept; drop"), rule + ", which is not evaluated because an earlier rule may accept the packet: it compares a part"},
		"a changing set": {"table inet x { set bad { type ipv4_addr; flags dynamic,timeout; timeout 1h; }; chain f { type filter hook forward priority 0; ip saddr @bad drop; }; }",
			"may be dropped by a rule of chain f in table inet x, which is not evaluated because it looks into the set \"bad\", which is not read, such as sets that packets change"},
		"not tracked": {"table inet x { chain p { type filter hook prerouting priority -300; ip saddr 10.1.1.2 notrack; }; chain f { type filter hook forward priority 0; policy drop; ct state new accept; }; }",
			"may be dropped by the policy of chain f in table inet x, which is not evaluated because an earlier rule may accept the packet: it compares a property of the connection"},
		"led away, maybe": {"table ip filter { chain away { counter; }; chain FORWARD { type filter hook forward priority 0; ip dscp 3 goto away; drop; }; }",
			rule + ", which is not evaluated because an earlier rule may accept the packet: it compares a part"},
		"not parsed": {"table inet x { chain g { type filter hook forward priority 1; }; chain f { type filter hook forward priority 0; ip saddr 10.9.9.9 accept; ct original ip daddr 10.1.2.2 drop; }; }",
			"may be dropped by a rule of chain f in table inet x, which is not evaluated because a rule of that chain has a form that is not known"},
		"few hops":             {accept("ip saddr 10.1.1.2 ip ttl set 1"), rule + ", which is not evaluated because it sets the TTL or hop limit"},
		"few hops, accepted":   {accept("ip ttl set 1 accept"), rule + ", which is not evaluated because it sets the TTL or hop limit"},
		"few hops for another": {accept("ip saddr 10.1.1.3 ip ttl set 1"), ""},
		"another header":       {accept("ip dscp set 3"), ""},
		"policy, maybe":        {drop("ip dscp 3 accept"), "may be dropped by the policy of chain FORWARD in table ip filter, which is not evaluated because an earlier rule may accept the packet"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespaceFor(t)
			command(t, "ip", "netns", "exec", ns, "nft", strings.NewReplacer("; };", "\n}\n", "; }", "\n}\n", " }", "\n}\n").Replace(c.ruleset))
			rules, packet := read(t, ns), packetOf(kind(name))
			packet.Hook = foreign.Forward
			if got := strings.Join(rules.Doubts(packet), "\n"); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%s\ngot %q, want %q", c.ruleset, got, c.want)
			}
			if c.want != "" && len(rules.Harms(packet)) > 0 {
				t.Errorf("harms, too: %q", rules.Harms(packet))
			}
		})
	}
}

func namespaceFor(t *testing.T) string {
	t.Helper()
	ns := fmt.Sprintf("foreign%d", os.Getpid())
	command(t, "ip", "netns", "add", ns)
	t.Cleanup(func() { command(t, "ip", "netns", "del", ns) })
	return ns
}

func command(t testing.TB, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// read returns the foreign rules of a network namespace.
func read(t *testing.T, ns string) *foreign.Ruleset {
	t.Helper()
	handle, err := namespace.Open("/var/run/netns/" + ns)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	rules, err := foreign.Read(handle, func(table string) bool { return table == "contiv" })
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// packetOf returns a packet of a pod.
func packetOf(kind foreign.Packet) foreign.Packet {
	packet := foreign.Packet{In: "c-pod", Out: "c-vxlanBVI", Protocol: 6, SrcPort: 40000, DstPort: 80, Size: 1450,
		Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr("10.1.2.2"), Answer: kind.Answer, Later: kind.Later, Untranslated: kind.Untranslated, KeepsSource: kind.KeepsSource, Untracked: kind.Untracked}
	if kind.Answer {
		packet.In, packet.Out, packet.Src, packet.Dst, packet.SrcPort, packet.DstPort = packet.Out, packet.In, packet.Dst, packet.Src, packet.DstPort, packet.SrcPort
	}
	return packet
}

// requireHarms checks the harms of the packet or its answer; want "": none.
func requireHarms(t *testing.T, ns, ruleset string, kind foreign.Packet, want string) {
	t.Helper()
	rules, packet := read(t, ns), packetOf(kind)
	var got []string
	for _, packet.Hook = range []foreign.Hook{foreign.Ingress, foreign.Prerouting, foreign.Forward, foreign.Postrouting, foreign.Egress, foreign.Bridge + foreign.Output} {
		got = append(got, rules.Harms(packet)...)
	}
	if (len(got) > 0) != (want != "") || len(got) > 0 && !strings.Contains(got[0], want) {
		t.Errorf("%s\ngot %q, want %q", ruleset, got, want)
	}
}

// The same for iptables-legacy.
func TestHarmsOfIptablesLegacy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	for name, c := range map[string]struct{ rules, want string }{
		"nothing":               {"-P FORWARD ACCEPT", ""},
		"drops all":             {"-A FORWARD -j DROP", "a rule of chain FORWARD in table ip filter of iptables-legacy drops the packet"},
		"with a comment":        {`-A FORWARD -m comment --comment nopods -j DROP`, `(comment "nopods")`},
		"rejects":               {"-A FORWARD -j REJECT", "drops the packet"},
		"logs only":             {"-A FORWARD -j NFLOG", ""},
		"network of the pod":    {"-A FORWARD -s 10.1.0.0/16 -j DROP", "drops"},
		"another network":       {"-A FORWARD -s 10.2.0.0/16 -j DROP", ""},
		"not the network":       {"-A FORWARD ! -d 10.1.2.0/23 -j DROP", ""},
		"not another network":   {"-A FORWARD ! -d 10.1.4.0/23 -j DROP", "drops"},
		"device":                {"-A FORWARD -i c-pod -o c-vxlan+ -j DROP", "drops"},
		"another device":        {"-A FORWARD -i c-po -j DROP", ""},
		"not the device":        {"-A FORWARD ! -i c-pod -j DROP", ""},
		"port":                  {"-A FORWARD -p tcp --dport 80:90 -j DROP", "drops"},
		"another port":          {"-A FORWARD -p tcp --dport 81 -j DROP", ""},
		"not the port":          {"-A FORWARD -p tcp ! --dport 80 -j DROP", ""},
		"not another port":      {"-A FORWARD -p tcp ! --dport 81 -j DROP", "drops"},
		"another protocol":      {"-A FORWARD -p udp --dport 80 -j DROP", ""},
		"port of the sender":    {"-A FORWARD -p tcp --sport 99 -j DROP", ""},
		"only flags":            {"-A FORWARD -p tcp --tcp-flags SYN,ACK ACK -j DROP", ""},
		"invalid connections":   {"-A FORWARD -m conntrack --ctstate INVALID -j DROP", ""},
		"new connections":       {"-A FORWARD -m conntrack --ctstate NEW -j DROP", "drops"},
		"fragments":             {"-A FORWARD -f -j DROP", ""},
		"maybe":                 {"-A FORWARD -m ttl --ttl-eq 3 -j DROP", ""},
		"accepted before":       {"-A FORWARD -s 10.1.1.2 -j ACCEPT\n-A FORWARD -j DROP", ""},
		"maybe accepted before": {"-A FORWARD -m ttl --ttl-eq 3 -j ACCEPT\n-A FORWARD -j DROP", ""},
		"policy":                {"-P FORWARD DROP", "the policy of chain FORWARD in table ip filter of iptables-legacy is drop, and none of its rules accepts the packet"},
		"policy but accepted":   {"-P FORWARD DROP\n-A FORWARD -s 10.1.0.0/16 -j ACCEPT", ""},
		"as docker": {"-P FORWARD DROP\n-N DOCKER\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -o docker0 -j DOCKER\n-A DOCKER -j ACCEPT",
			"the policy of chain FORWARD"},
		"in a chain":                {"-N user\n-A user -s 10.1.1.2 -j DROP\n-A FORWARD -j user", "a rule of chain user in table ip filter of iptables-legacy drops"},
		"returned":                  {"-N user\n-A user -s 10.1.1.2 -j RETURN\n-A user -j DROP\n-A FORWARD -j user", ""},
		"goto":                      {"-P FORWARD DROP\n-N user\n-A FORWARD -g user\n-A FORWARD -j ACCEPT", "the policy of chain FORWARD"},
		"unused":                    {"-N user\n-A user -j DROP", ""},
		"another table":             {"-t mangle -A FORWARD -j DROP", "in table ip mangle of iptables-legacy"},
		"another hook":              {"-A INPUT -j DROP", ""},
		"translated":                {"-t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", "get another destination: a rule of chain PREROUTING in table ip nat of iptables-legacy"},
		"others' translated":        {"-t nat -A PREROUTING -p tcp --dport 81 -j REDIRECT --to-ports 8080", ""},
		"answers":                   {"-A FORWARD -p tcp --sport 80 -m conntrack --ctstate ESTABLISHED -j DROP", "are dropped"},
		"answers, but new":          {"-A FORWARD -p tcp --sport 80 -m conntrack --ctstate NEW -j DROP", ""},
		"ports":                     {"-A FORWARD -p tcp -m multiport --dports 22,80 -j DROP", "drops"},
		"ports, others":             {"-A FORWARD -p tcp -m multiport --dports 22,81:90 -j DROP", ""},
		"range of ports":            {"-A FORWARD -p tcp -m multiport --dports 22,70:90,443 -j DROP", "drops"},
		"not ports":                 {"-A FORWARD -p tcp -m multiport ! --dports 22,80 -j DROP", ""},
		"not other ports":           {"-A FORWARD -p tcp -m multiport ! --dports 22,443 -j DROP", "drops"},
		"ports of the sender":       {"-A FORWARD -p tcp -m multiport --sports 22,80 -j DROP", ""},
		"ports of either":           {"-A FORWARD -p tcp -m multiport --ports 22,80 -j DROP", "drops"},
		"answers of ports":          {"-A FORWARD -p tcp -m multiport --sports 22,80 -j DROP", "drops"},
		"status, untranslated":      {"-A FORWARD -m conntrack ! --ctstatus ASSURED -j DROP", "drops"},
		"later, untranslated":       {"-A FORWARD -m conntrack --ctstatus ASSURED -j DROP", "drops"},
		"maybe translated":          {"-A FORWARD -m conntrack ! --ctstate DNAT -j DROP", ""},
		"surely, untranslated":      {"-A FORWARD -m conntrack ! --ctstate DNAT -j DROP", "drops"},
		"later":                     {"-A FORWARD -p tcp --tcp-flags SYN,ACK ACK -j DROP", "drops"},
		"states by another name":    {"-A FORWARD -m state --state NEW -j DROP", "drops"},
		"NAT, but exempt":           {"-t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", ""},
		"NAT in a zone, exempt":     {"-t raw -A PREROUTING -j CT --zone 3\n-t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", "get another destination"},
		"NAT, no zone, exempt":      {"-t raw -A PREROUTING -j CT --notrack\n-t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", ""},
		"zone of a chain, exempt":   {"-t raw -N user\n-t raw -A user -j CT --zone 3\n-t raw -A PREROUTING -j user\n-t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", "get another destination"},
		"new, but exempt":           {"-A FORWARD -m conntrack --ctstate NEW,ESTABLISHED,INVALID -j DROP", ""},
		"not new, exempt":           {"-A FORWARD -m conntrack ! --ctstate NEW -j DROP", "drops"},
		"untracked, exempt":         {"-A FORWARD -m conntrack --ctstate UNTRACKED -j DROP", "drops"},
		"only the state, exempt":    {"-A FORWARD -m conntrack --ctstate UNTRACKED --ctstatus ASSURED -j DROP", "drops"},
		"status, but exempt":        {"-A FORWARD -m conntrack --ctstatus NONE -j DROP", ""},
		"another name, exempt":      {"-A FORWARD -m state --state UNTRACKED -j DROP", "drops"},
		"addresses only":            {"-t nat -A POSTROUTING -j RETURN", ""},
		"IPv6, which is no concern": {"6 -A FORWARD -j DROP", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespaceFor(t)
			for line := range strings.SplitSeq(c.rules, "\n") {
				program := "iptables-legacy"
				if after, is := strings.CutPrefix(line, "6 "); is {
					program, line = "ip6tables-legacy", after
				}
				words := append([]string{"netns", "exec", ns, program}, strings.Fields(line)...)
				if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
					t.Skipf("this kernel cannot do so: %s: %s", line, out)
				}
			}
			requireHarms(t, ns, c.rules, kind(name), c.want)
		})
	}
}
