package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// AclTableName is the name of the nftables tables with the access lists: one of family inet, for
// routed packets and the node's own, and one of family bridge. Both contain the same lists. A
// packet passes one of them, depending on whether its device is a bridge port.
//
//	       inet: prerouting (behind conntrack, before DNAT), postrouting (before SNAT)
//	       bridge: prerouting, postrouting
//	         │
//	macip    │ iifname ──map macip───> mac/<interface> ── jump macip/<list>, … ── drop
//	in       │ iifname ──map ingress─> in/<interface> ┐
//	out      │ oifname ──map egress──> out/<interface>┴ jump answers or always, jump acl/<list>, … ── goto deny
//	                                                                   │
//	         deny, permit, reflect <─ goto ─ rules/<list>/<hash> <──goto ─┘
//
// The comment of each rule identifies it: the list that it jumps to, or a hash of its text.
//
// The chain reflect records connections with permitted replies; interfaces with lists in the other
// direction check the record. Family inet uses a bit of the connection mark and conntrack's reply
// direction. Family bridge keeps sessions in sets, because only some kernels track bridged
// connections, and tracking would see frames that are bridged and then routed twice.
const AclTableName = "contiv-acl"

const (
	familyInet   = "inet"
	familyBridge = "bridge"
)

var aclFamilies = []string{familyInet, familyBridge}

var familyNumbers = map[string]byte{familyInet: unix.NFPROTO_INET, familyBridge: unix.NFPROTO_BRIDGE}

// Bits of the conntrack mark: original packets matched a REFLECT rule on ingress or egress.
const (
	markReflectedIn  = 0x04000000
	markReflectedOut = 0x08000000
)

// Idle timeouts of bridged sessions, refreshed by packets of the opener.
const (
	timeoutTCP     = "24h"
	timeoutOther   = "2m" // also for TCP connections being opened or closed
	timeoutEcho    = "30s"
	sessionsOfEach = 65536
)

type aclLine struct{ text, comment string }

func hashed(text string) aclLine {
	sum := sha256.Sum256([]byte(text))
	return aclLine{text, hex.EncodeToString(sum[:8])}
}

// aclChain is a chain that exists while the tables have lists.
type aclChain struct {
	name  string
	hook  *nft.Hook
	lines []aclLine
}

func (c aclChain) chain() *nftables.Chain {
	chain := &nftables.Chain{Name: c.name}
	if c.hook != nil {
		chain.Type, chain.Hooknum = nftables.ChainTypeFilter, nftables.ChainHookRef(nftables.ChainHook(c.hook.Number))
		chain.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(c.hook.Priority))
	}
	return chain
}

var aclMaps = []string{"macip", "ingress", "egress"}

// aclBase returns the fixed chains of a family, in order of creation.
func aclBase(family string) (chains []aclChain) {
	prerouting, postrouting := int32(-150), int32(90)
	if family == familyBridge {
		prerouting, postrouting = -200, -200
		chains = bridgeChains()
	} else {
		chains = inetChains()
	}
	at := func(number uint32, priority int32) *nft.Hook {
		return &nft.Hook{Type: "filter", Number: number, Priority: priority}
	}
	// The bridge hooks have the same numbers (NF_BR_PRE_ROUTING, NF_BR_POST_ROUTING).
	return append(chains,
		aclChain{name: "macip", hook: at(unix.NF_INET_PRE_ROUTING, prerouting-5), lines: texts("iifname vmap @macip")},
		aclChain{name: "in", hook: at(unix.NF_INET_PRE_ROUTING, prerouting), lines: texts("iifname vmap @ingress")},
		aclChain{name: "out", hook: at(unix.NF_INET_POST_ROUTING, postrouting), lines: texts("oifname vmap @egress")},
	)
}

func texts(lines ...string) []aclLine {
	list := make([]aclLine, len(lines))
	for i, text := range lines {
		list[i] = hashed(text)
	}
	return list
}

const neighbourDiscovery = "icmpv6 type 133-136 ip6 hoplimit 255 accept"

// inetChains: packets without an outgoing device are entering.
func inetChains() []aclChain {
	answers := func(mark int) []aclLine {
		return texts(fmt.Sprintf("ct state established,related ct direction reply ct mark & %#x != 0 accept", mark), neighbourDiscovery)
	}
	verdict := func(name, final, test, set string) aclChain {
		var lines []string
		for _, d := range []struct {
			side string
			mark uint32
		}{{"oif 0", markReflectedIn}, {"oif != 0", markReflectedOut}} {
			operand := d.mark
			if set == "&" {
				operand = ^d.mark
			}
			lines = append(lines, fmt.Sprintf("%s ct direction original ct mark & %#x %s 0 ct mark set ct mark %s %#x", d.side, d.mark, test, set, operand))
		}
		return aclChain{name: name, lines: texts(append(lines, final)...)}
	}
	return []aclChain{
		verdict("deny", "drop", "!=", "&"),
		verdict("permit", "accept", "!=", "&"),
		verdict("reflect", "accept", "==", "|"),
		{name: "always", lines: texts(neighbourDiscovery)},
		{name: "answers-in", lines: answers(markReflectedOut)},
		{name: "answers-out", lines: answers(markReflectedIn)},
	}
}

type aclVersion struct{ number, ip, icmp string }

var ipv4, ipv6 = aclVersion{"4", "ip", "icmp"}, aclVersion{"6", "ip6", "icmpv6"}

type sessionSet struct{ name, key string }

func sessionSets(family string) []sessionSet {
	if family != familyBridge {
		return nil
	}
	return slices.Concat(ipv4.sets(), ipv6.sets())
}

// sets returns the session sets: original packets, TCP connections that either side is closing, and
// ping sessions.
func (v aclVersion) sets() []sessionSet {
	ports := fmt.Sprintf("iif . %s saddr . %[1]s daddr . meta l4proto . th sport . th dport", v.ip)
	echo := fmt.Sprintf("iif . %s saddr . %[1]s daddr . %s id", v.ip, v.icmp)
	return []sessionSet{{"sessions" + v.number, ports}, {"closing" + v.number, ports}, {"echoes" + v.number, echo}}
}

// keys returns the session keys of a packet on a side (iif, oif), as a packet of the opener and as
// a reply. Devices are given by index, because nft 1.0.6 aborts when it lists concatenations with
// device names.
func (v aclVersion) keys(side string) (opener, answer, echo, echoAnswer string) {
	opener = fmt.Sprintf("%s . %s saddr . %[2]s daddr . meta l4proto . th sport . th dport", side, v.ip)
	answer = fmt.Sprintf("%s . %s daddr . %[2]s saddr . meta l4proto . th dport . th sport", side, v.ip)
	echo = fmt.Sprintf("%s . %s saddr . %[2]s daddr . %s id", side, v.ip, v.icmp)
	echoAnswer = fmt.Sprintf("%s . %s daddr . %[2]s saddr . %s id", side, v.ip, v.icmp)
	return opener, answer, echo, echoAnswer
}

// bridgeChains accepts later fragments, which have no ports: they are useless without the first
// fragment, which is filtered.
func bridgeChains() (chains []aclChain) {
	fragments := []string{"ip frag-off & 0x1fff != 0 accept", "frag frag-off != 0 accept"}
	chains = append(chains, aclChain{name: "always", lines: texts(append(slices.Clone(fragments), neighbourDiscovery)...)})
	for _, d := range []struct{ name, side string }{{"in", "iif"}, {"out", "oif"}} {
		answers := slices.Clone(fragments)
		var reflect, forget []string
		for _, v := range []aclVersion{ipv4, ipv6} {
			opener, answer, echo, echoAnswer := v.keys(d.side)
			is := func(format string, args ...any) string {
				return strings.NewReplacer("{opener}", opener, "{answer}", answer, "{echo}", echo, "{echo answer}", echoAnswer,
					"{v}", v.number, "{icmp}", v.icmp).Replace(fmt.Sprintf(format, args...))
			}
			answers = append(answers,
				is("tcp flags & (fin | rst) != 0 {answer} @sessions{v} update @closing{v} { {answer} timeout %s } accept", timeoutOther),
				is("meta l4proto udp {answer} @sessions{v} update @sessions{v} { {answer} timeout %s } accept", timeoutOther),
				is("{answer} @sessions{v} accept"),
				is("{icmp} type echo-reply {echo answer} @echoes{v} accept"),
			)
			reflect = append(reflect,
				is("tcp flags & (fin | rst) != 0 update @closing{v} { {opener} timeout %s }", timeoutOther),
				is("tcp flags & (syn | ack) == syn delete @closing{v} { {opener} }"),
				is("tcp flags & (syn | ack) == syn update @sessions{v} { {opener} timeout %s } accept", timeoutOther),
				is("meta l4proto tcp {opener} @closing{v} update @sessions{v} { {opener} timeout %s } accept", timeoutOther),
				is("meta l4proto tcp update @sessions{v} { {opener} timeout %s } accept", timeoutTCP),
				is("meta l4proto { udp, sctp, dccp } update @sessions{v} { {opener} timeout %s } accept", timeoutOther),
				is("{icmp} type echo-request update @echoes{v} { {echo} timeout %s } accept", timeoutEcho),
			)
			forget = append(forget,
				is("meta l4proto { tcp, udp, sctp, dccp } {opener} @sessions{v} delete @sessions{v} { {opener} }"),
				is("{icmp} type echo-request {echo} @echoes{v} delete @echoes{v} { {echo} }"),
			)
		}
		chains = append(chains,
			aclChain{name: "answers-" + d.name, lines: texts(append(answers, neighbourDiscovery)...)},
			aclChain{name: "reflect-" + d.name, lines: texts(append(reflect, "accept")...)},
			aclChain{name: "forget-" + d.name, lines: texts(forget...)},
		)
	}
	return append(chains,
		aclChain{name: "deny", lines: texts("oif 0 jump forget-in", "oif != 0 jump forget-out", "drop")},
		aclChain{name: "permit", lines: texts("oif 0 jump forget-in", "oif != 0 jump forget-out", "accept")},
		aclChain{name: "reflect", lines: texts("oif 0 goto reflect-in", "goto reflect-out")},
	)
}

func aclName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

func parseACLName(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '_' {
			b.WriteByte(text[i])
			continue
		}
		if i+3 > len(text) {
			return "", fmt.Errorf("%q is no name of a list or an interface", text)
		}
		c, err := hex.DecodeString(text[i+1 : i+3])
		if err != nil {
			return "", err
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), nil
}
