package nat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/google/nftables"
)

// Chains that other files name. doc.go draws all chains.
const (
	chainPrerouting  = "nat-prerouting"
	chainOutput      = "nat-output"
	chainServices    = "nat-services"
	chainInside      = "nat-inside"
	chainBalance     = "nat-balance"
	chainRefuse      = "nat-refuse"
	chainForward     = "nat-forward"
	chainUnused      = "nat-unused"
	chainUnusedOwn   = "nat-unused-own"
	chainLeaving     = "nat-leaving"
	chainPostrouting = "nat-postrouting"
	chainTwice       = "nat-twice"
	chainTwiceSource = "nat-twice-source"
	chainIn          = "nat-in"
	chainSource      = "nat-source"

	commentInside   = "inside "
	commentClusters = "cluster IPs "
)

// needed reports whether the table has a chain. Each packet enters all base chains of type filter, so
// those without rules do not exist.
func needed(chain *nftables.Chain, rules []natRule) bool {
	return !isFilter(chain) || slices.ContainsFunc(rules, func(r natRule) bool { return r.chain == chain.Name })
}

func isFilter(chain *nftables.Chain) bool { return chain.Type == nftables.ChainTypeFilter }

// chains returns the possible chains. IPv6 has only the chains of services.
func (f *natFamily) chains() (list []*nftables.Chain) {
	plain := func(names ...string) {
		for _, name := range names {
			list = append(list, &nftables.Chain{Name: name})
		}
	}
	base := func(name string, typ nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) {
		list = append(list, &nftables.Chain{Name: name, Type: typ, Hooknum: hook, Priority: priority})
	}
	if f == nat4 {
		plain(chainSource, chainIn, chainTwiceSource)
		base(chainForward, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	}
	plain(chainRemembered, chainRemember)
	base(chainEstablished, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityMangle)
	base(chainEstablishedOwn, nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityMangle)
	for _, scope := range natScopes {
		plain(scope.known())
	}
	for _, scope := range natScopes {
		plain(scope.chain())
	}
	plain(chainTwice, chainRefuse, chainInside, chainServices, chainLeaving)
	base(chainUnused, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	base(chainUnusedOwn, nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	base(chainPostrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	base(chainPrerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	base(chainOutput, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	return list
}

func (f *natFamily) chain(name string) *nftables.Chain {
	list := f.chains()
	return list[slices.IndexFunc(list, func(c *nftables.Chain) bool { return c.Name == name })]
}

// natRule is a rule as text, or as expressions if the language of nft(8) has no words for it.
type natRule struct {
	chain, comment string
	text           string
	words          []nft.Word
}

func (r natRule) addTo(b *nft.Batch) {
	if r.words != nil {
		b.AddRule(r.chain, r.mark(), r.words)
		return
	}
	b.AddText(r.chain, r.mark(), r.text)
}

const fingerprintMark = " #"

// mark returns the comment with a fingerprint of the rule.
func (r natRule) mark() string {
	if r.words != nil {
		return r.comment + fingerprintMark + nft.Fingerprint(r.words)
	}
	sum := sha256.Sum256([]byte(r.text))
	return r.comment + fingerprintMark + hex.EncodeToString(sum[:3])
}

// commentOf is the inverse of mark.
func commentOf(mark string) string {
	if at := strings.LastIndex(mark, fingerprintMark); at >= 0 {
		return mark[:at]
	}
	return mark
}

// ruleset collects rules. Their text may contain the names of newNATFamily, such as $service.
type ruleset struct {
	family *natFamily
	list   []natRule
}

func (r *ruleset) add(chain, comment, text string) {
	r.list = append(r.list, natRule{chain: chain, comment: comment, text: r.family.names.Replace(text)})
}

func (r *ruleset) addWords(chain, comment string, parts ...[]nft.Word) {
	r.list = append(r.list, natRule{chain: chain, comment: comment, words: slices.Concat(parts...)})
}

// perProtocol adds a rule for each protocol with ports. nft knows the type of a connection's original
// port only if the rule has a protocol.
func (r *ruleset) perProtocol(chain, comment, text string) {
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		r.add(chain, comment+", "+protocol, "meta l4proto "+protocol+" "+text)
	}
}

func (s *natState) rules() []natRule {
	r := &ruleset{family: s.family}
	s.entry(r)
	s.destinations(r)
	s.unusedClusterIPs(r)
	s.exit(r)
	if s.family == nat4 {
		s.sources(r)
	}
	s.balance(r)
	s.affinity(r)
	return r.list
}

// entry adds the rules that lead to nat-services.
func (s *natState) entry(r *ruleset) {
	if s.family == nat6 || s.network.isSet() {
		r.add(chainPrerouting, "from any interface", "goto nat-services")
	} else {
		r.add(chainPrerouting, "from outside interfaces", "iifname @nat-outside goto nat-services")
		r.add(chainPrerouting, "from output-feature interfaces", "iifname @nat-output goto nat-services")
	}

	r.add(chainOutput, "connections of the agent to etcd", fmt.Sprintf("meta mark %#x accept", nft.MarkUntranslated))
	if s.network.isSet() {
		r.add(chainOutput, "clients outside the source ranges", "$service @nat-restricted $service . $client != @nat-allowed drop")
		r.add(chainOutput, "backends for the node", "$service @nat-balanced-own goto nat-pick-own")
		r.add(chainOutput, "backends for clients inside", "jump nat-inside")
	}
	r.add(chainOutput, "packets of the node", "goto nat-services")
}

// destinations adds the rules that translate to a backend. Ports take precedence over addresses.
func (s *natState) destinations(r *ruleset) {
	v4 := s.family == nat4
	if v4 {
		r.add(chainServices, "identity", "$service @nat-identity return")
	}
	r.add(chainServices, "clients outside the source ranges", "$service @nat-restricted $service . $client != @nat-allowed drop")
	r.add(chainServices, "one backend", "dnat $endpoint to $service map @nat-static")
	r.add(chainServices, "several backends", "$service @nat-balanced goto nat-balance")
	for _, p := range s.network.inside {
		r.add(chainServices, commentInside+p.String(), "$client "+p.String()+" jump nat-inside")
	}
	r.add(chainServices, "backends for clients outside", "$service @nat-balanced-out goto nat-pick-outside")
	r.add(chainServices, "no backends, drop", "$service @nat-dropped drop")
	r.add(chainServices, "no backends, refuse", "$service @nat-refused goto nat-refuse")
	if v4 {
		r.add(chainServices, "identity of a protocol", "ip daddr . meta l4proto @nat-identity-protocol return")
		r.add(chainServices, "identity of an address", "ip daddr @nat-identity-address return")
		r.add(chainServices, "protocol", "dnat to ip daddr . meta l4proto map @nat-protocol")
		r.add(chainServices, "address", "dnat to ip daddr map @nat-address")
	}
	for _, p := range s.network.clusterIPs {
		r.add(chainServices, commentClusters+p.String(), "$address "+p.String()+" goto nat-refuse")
	}

	r.add(chainInside, "backends for clients inside", "$service @nat-balanced-in goto nat-pick-inside")

	r.add(chainRefuse, "TCP", "meta l4proto tcp reject with tcp reset")
	r.add(chainRefuse, "other protocols", "reject")
}

// unusedClusterIPs refuses unused cluster IPs and ports. Only the first packet of a connection is
// translated, and its endpoint may be such an address. So packets translated to a cluster IP do not
// leave the node, unless it is an address of the node. Conntrack calls some packets invalid, which
// are never translated. They do not leave by devices that lead to other machines. SRv6 segments
// carry packets to cluster IPs by other devices.
func (s *natState) unusedClusterIPs(r *ruleset) {
	if len(s.network.clusterIPs) == 0 {
		return
	}
	for _, p := range s.network.clusterIPs {
		for _, chain := range []string{chainUnused, chainUnusedOwn} {
			r.add(chain, fmt.Sprintf("to an unused address in %s", p), fmt.Sprintf("$address %s jump nat-leaving", p))
		}
	}
	r.add(chainLeaving, "for the node", "fib daddr type local return")
	r.add(chainLeaving, "translated", "ct status dnat goto nat-refuse")
	r.add(chainLeaving, "leaves the node", fmt.Sprintf("meta oifgroup != %d goto nat-refuse", own.DeviceGroup))
	for _, kind := range []string{"vlan", "bond"} { // uplinks that the vswitch makes
		r.add(chainLeaving, "leaves by a "+kind, fmt.Sprintf("meta oifkind %q goto nat-refuse", kind))
	}
}

// exit adds the rules for sources of packets to a backend.
func (s *natState) exit(r *ruleset) {
	v4 := s.family == nat4
	r.add(chainPostrouting, "to a backend", "ct status dnat jump nat-twice")
	if s.network.isSet() {
		// The node's own packets have the source address of the route to the service: they get that of
		// the route to the backend. Forwarded packets, which have an input device, skip the route lookup.
		r.add(chainTwice, "packets of the node", "iif 0 meta oiftype != loopback fib saddr type local masquerade")
	}
	r.perProtocol(chainTwice, "twice-NAT to an address", "snat to $opened map @nat-twice-ip")
	if v4 {
		r.perProtocol(chainTwice, "twice-NAT to the pool", "$opened @nat-twice goto nat-twice-source")
	}
	r.perProtocol(chainTwice, "the client is the backend, to an address", "snat to $opened . $client . $address map @nat-self-ip")
	if v4 {
		r.perProtocol(chainTwice, "the client is the backend, to the pool", "$opened . $client . $address @nat-self goto nat-twice-source")
	}
	for _, p := range s.network.inside {
		r.add(chainTwice, commentInside+p.String(), "$client "+p.String()+" return")
	}
	r.perProtocol(chainTwice, "clients outside", "$opened @nat-masquerade masquerade")
}

// sources adds the rules for packets to outside, which most packets never reach.
func (s *natState) sources(r *ruleset) {
	r.add(chainPostrouting, "to output-feature interfaces", "oifname @nat-output goto nat-source")
	r.add(chainPostrouting, "to outside interfaces", "oifname @nat-outside goto nat-in")
	// An interface that is both inside and outside carries clients and endpoints: no packet is
	// outside of it.
	r.add(chainIn, "from inside and outside", "iifname @nat-outside return")
	r.add(chainIn, "from inside", "iifname @nat-inside goto nat-source")

	r.add(chainSource, "identity", "ip saddr . meta l4proto . th sport @nat-identity accept")
	r.add(chainSource, "identity of a protocol", "ip saddr . meta l4proto @nat-identity-protocol accept")
	r.add(chainSource, "identity of an address", "ip saddr @nat-identity-address accept")
	r.add(chainSource, "packets of the node", "fib saddr type local accept")
	for _, chain := range []string{chainSource, chainTwiceSource} {
		pools := s.poolsOf(chain)
		for i, p := range pools {
			r.add(chain, p.comment(), p.share(i, len(pools))+p.translation())
		}
	}

	if s.enabled && !s.forwarding {
		for _, set := range []string{setOutside, setOutput} {
			r.add(chainForward, "not translated, from "+set, "iifname @"+set+" ct state new ct status & dnat == 0 drop")
		}
	}
}

// share matches one of several equal, disjoint parts of all sources. The seed is the same in all
// rules.
func (p natPool) share(part, parts int) string {
	if parts == 1 {
		return ""
	}
	return fmt.Sprintf("jhash ip saddr mod %d seed 0x636f6e74 %d ", parts, part)
}

// translation translates sources to the range, persistently for each source.
func (p natPool) translation() string {
	if p.first == p.last {
		return "snat to " + p.String()
	}
	return "snat to " + p.String() + " persistent"
}

func newNames(ip string) *strings.Replacer {
	address, client := ip+" daddr", ip+" saddr"
	return strings.NewReplacer(
		"$address", address, "$client", client,
		// where a connection goes to, and where it went to before its translation
		"$service", address+" . meta l4proto . th dport",
		"$opened", "ct original "+address+" . meta l4proto . ct original proto-dst",
		"$endpoint", ip+" addr . port",
	)
}
