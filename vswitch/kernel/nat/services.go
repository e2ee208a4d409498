package nat

import (
	"net/netip"
	"slices"
	"strings"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// What Kubernetes services need beyond plain mappings, in the same tables (nat_rules.go).
//
//	output ─> balanced for the node? there
//	       ─> nat-inside ──────────────────────────────────────────┐ balanced for inside? there
//	nat-services   restricted, and not from an allowed prefix? drop│
//	               ─> (plain mappings) ─> source inside? nat-inside┘
//	               ─> balanced for outside? there
//	               ─> without backends? drop or nat-refuse
//	               ─> a cluster IP? nat-refuse
//	nat-refuse     TCP: reset; others: ICMP, port unreachable
//	postrouting, to a backend
//	               sent by the node itself, and not to itself? address of the way out
//	               ─> twice-NAT ─> source inside? stay ─> clients outside not seen? address of the way out
//
// All of it is in chains of NAT, which see the first packet of a connection only: those
// that follow cost nothing, and connections that exist are left alone.
const (
	chainInside     = "nat-inside"
	chainBalanceIn  = "nat-pick-inside"
	chainBalanceOut = "nat-pick-outside"
	chainBalanceOwn = "nat-pick-own"
	chainRefuse     = "nat-refuse"

	setBalancedIn  = "nat-balanced-in"  // services with backends for clients inside; Comment: label
	setBalancedOut = "nat-balanced-out" // likewise, outside
	setBalancedOwn = "nat-balanced-own" // likewise, processes of the node
	setRefused     = "nat-refused"      // services without backends; Comment: label
	setDropped     = "nat-dropped"      // likewise
	setRestricted  = "nat-restricted"   // services that not everybody may use
	setAllowed     = "nat-allowed"      // service, client; keys are ranges
	setMasquerade  = "nat-masquerade"   // services whose clients outside are not seen
	setReset       = "nat-reset"        // services that end TCP connections to backends that go; no rule looks at it

	restrictedRule  = "not from everywhere"
	commentInside   = "inside "
	commentClusters = "cluster IPs "
)

// natScope says which clients something is for: "" for all.
type natScope string

const (
	scopeInside  natScope = "in"
	scopeOutside natScope = "out"
	scopeOwn     natScope = "own"
)

var natScopes = []natScope{"", scopeInside, scopeOutside, scopeOwn}

func (s natScope) infix() string {
	if s == "" {
		return ""
	}
	return string(s) + "-"
}

func (s natScope) chain() string {
	return map[natScope]string{"": chainBalance, scopeInside: chainBalanceIn, scopeOutside: chainBalanceOut, scopeOwn: chainBalanceOwn}[s]
}

func (s natScope) balanced() string {
	return map[natScope]string{"": setBalanced, scopeInside: setBalancedIn, scopeOutside: setBalancedOut, scopeOwn: setBalancedOwn}[s]
}

func (s natScope) port() string   { return s.suffixed(prefixPort) }
func (s natScope) apart() string  { return s.suffixed(prefixApart) }
func (s natScope) usable() string { return s.suffixed(prefixUsable) }

func (s natScope) suffixed(name string) string {
	if s == "" {
		return name
	}
	return name + "-" + string(s)
}

func scopeOf(st *vpp_nat.DNat44_StaticMapping) natScope {
	switch st.GetClients() {
	case vpp_nat.DNat44_StaticMapping_INSIDE:
		return scopeInside
	case vpp_nat.DNat44_StaticMapping_OUTSIDE:
		return scopeOutside
	case vpp_nat.DNat44_StaticMapping_NODE:
		return scopeOwn
	}
	return ""
}

// withoutBackends returns the set that a mapping without backends is in.
func withoutBackends(st *vpp_nat.DNat44_StaticMapping) (set string, ok bool) {
	if len(st.GetLocalIps()) > 0 {
		return "", false
	}
	switch st.GetOtherwise() {
	case vpp_nat.DNat44_StaticMapping_REFUSE:
		return setRefused, true
	case vpp_nat.DNat44_StaticMapping_DROP:
		return setDropped, true
	}
	return "", false
}

// clientsOf adds what the mapping says of its clients.
func (m *mapping) clientsOf(service string, st *vpp_nat.DNat44_StaticMapping) error {
	if st.GetMasqueradeOutside() {
		m.parts = append(m.parts, nft.Element{Set: setMasquerade, Key: service})
	}
	if st.GetResetRemoved() {
		m.parts = append(m.parts, nft.Element{Set: setReset, Key: service})
	}
	if len(st.GetSourceRanges()) == 0 {
		return nil
	}
	m.parts = append(m.parts, nft.Element{Set: setRestricted, Key: service})
	ranges, err := disjoint(st.GetSourceRanges())
	for _, p := range ranges {
		m.parts = append(m.parts, nft.Element{Set: setAllowed, Key: service + addrKey(p.Addr()), End: service + addrKey(lastOfPrefix(p))})
	}
	return err
}

// disjoint parses prefixes, and leaves out those that are in others.
func disjoint(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p.Masked())
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	var wide []netip.Prefix
	for _, p := range list {
		if !slices.ContainsFunc(wide, func(w netip.Prefix) bool { return w.Overlaps(p) }) {
			wide = append(wide, p)
		}
	}
	return wide, nil
}

// lastOfPrefix returns the last address of a prefix.
func lastOfPrefix(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// serviceSets are the sets for all that.
func (f *natFamily) serviceSets() (list []*nftables.Set) {
	for _, name := range []string{setBalancedIn, setBalancedOut, setBalancedOwn, setRefused, setDropped, setRestricted, setMasquerade, setReset} {
		list = append(list, f.newSet(name, f.service))
	}
	allowed := f.newSet(setAllowed, f.affinity)
	allowed.Interval = true
	return append(list, allowed)
}

// natNetwork is the part of a ServiceNetwork that is of an IP version.
type natNetwork struct{ inside, clusterIPs []netip.Prefix }

func (n natNetwork) isSet() bool { return len(n.inside)+len(n.clusterIPs) > 0 }

func (n natNetwork) equal(o natNetwork) bool {
	return slices.Equal(n.inside, o.inside) && slices.Equal(n.clusterIPs, o.clusterIPs)
}

// read learns from a rule.
func (n *natNetwork) read(chain, comment string) {
	if chain != chainServices {
		return
	}
	for mark, list := range map[string]*[]netip.Prefix{commentInside: &n.inside, commentClusters: &n.clusterIPs} {
		if text, ok := strings.CutPrefix(comment, mark); ok {
			if p, err := netip.ParsePrefix(text); err == nil {
				*list = append(*list, p)
			}
		}
	}
}

type adder func(chain, comment string, parts ...[]nft.Word)

// restricted drops packets of clients that may not use a service.
func (f *natFamily) restricted() []nft.Word {
	return slices.Concat(f.toService(), words(
		inSet(setRestricted, 0), f.loadAddress(f.source, f.clientReg()),
		&expr.Lookup{SourceRegister: reg(0), SetName: setAllowed, Invert: true}, verdict(expr.VerdictDrop, ""),
	))
}

// bridged keeps conntrack away from what our bridges carry, which br_netfilter shows to it a
// second time. Answers of endpoints that leave through the overlay look like new connections
// there, from the service to the client: they would get another source port, since the
// real connection has that one. It does so whoever translates: connections that began with
// another port do not survive a change.
func (s *natState) bridged(add adder) {
	kind := make([]byte, unix.IFNAMSIZ)
	copy(kind, "bridge")
	add(chainBridged, "frames of bridges", words(
		&expr.Meta{Key: expr.MetaKeyIIFGROUP, Register: reg(0)}, equal(0, native32(own.DeviceGroup)),
		&expr.Meta{Key: nft.MetaInputKind, Register: reg(0)}, equal(0, kind), &expr.Notrack{}))
}

// fromNode adds what is different for the node's own packets.
func (s *natState) fromNode(add adder) {
	if s.network.isSet() {
		add(chainOutput, restrictedRule, s.family.restricted())
		add(chainOutput, "backends for the node itself", s.family.toService(), words(inSet(setBalancedOwn, 0), verdict(expr.VerdictGoto, chainBalanceOwn)))
		add(chainOutput, "inside", words(verdict(expr.VerdictJump, chainInside)))
	}
}

// scoped adds the way to backends that are not for all, and what becomes of services
// without any.
func (s *natState) scoped(add adder) {
	f := s.family
	for _, p := range s.network.inside {
		add(chainServices, commentInside+p.String(), f.within(f.source, p), words(verdict(expr.VerdictJump, chainInside)))
	}
	add(chainInside, "backends for clients inside", f.toService(), words(inSet(setBalancedIn, 0), verdict(expr.VerdictGoto, chainBalanceIn)))
	add(chainServices, "backends for clients outside", f.toService(), words(inSet(setBalancedOut, 0), verdict(expr.VerdictGoto, chainBalanceOut)))
	add(chainServices, "dropped", f.toService(), words(inSet(setDropped, 0), verdict(expr.VerdictDrop, "")))
	add(chainServices, "refused", f.toService(), words(inSet(setRefused, 0), verdict(expr.VerdictGoto, chainRefuse)))
	add(chainRefuse, "TCP", words(loadProtocol(0), equal(0, []byte{unix.IPPROTO_TCP}), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}))
	add(chainRefuse, "others", words(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.portUnreachable()}))
}

// clusterIPs adds what becomes of cluster IPs and their ports that no service has. Only the first packet of a connection is
// translated, and the endpoint may be such an address: nothing that was translated to one leaves the node, unless it is one of the node's
// own. Services that segments carry are not translated, and conntrack may take their packets for invalid.
func (s *natState) clusterIPs(add adder) {
	for _, chain := range []string{chainUnused, chainUnusedOwn} {
		for _, p := range s.network.clusterIPs {
			add(chain, "an endpoint in "+p.String(), s.family.within(s.family.destination, p),
				words(&expr.Fib{Register: reg(0), FlagDADDR: true, ResultADDRTYPE: true}, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: native32(typeLocal)}, &expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}),
				bitSet(0, ctDestinationNAT), words(verdict(expr.VerdictGoto, chainRefuse)))
		}
	}
	for _, p := range s.network.clusterIPs {
		add(chainServices, commentClusters+p.String(), s.family.within(s.family.destination, p), words(verdict(expr.VerdictGoto, chainRefuse)))
	}
}

// nodeSources gives the node's own packets the source that they would have had if they had
// been sent to the backend: a route to the service chose it.
func (s *natState) nodeSources(add adder) {
	if !s.network.isSet() {
		return
	}
	const arphrdLoopback = 772
	add(chainTwice, "packets of the node itself", words(
		&expr.Meta{Key: expr.MetaKeyIIF, Register: reg(0)}, equal(0, native32(0)), // what is forwarded needs no look at the routes
		&expr.Meta{Key: expr.MetaKeyOIFTYPE, Register: reg(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: binaryutil.NativeEndian.PutUint16(arphrdLoopback)},
		&expr.Fib{Register: reg(0), FlagSADDR: true, ResultADDRTYPE: true}, equal(0, native32(typeLocal)), &expr.Masq{}))
}

// masquerade hides clients outside. Most connections begin inside: they are spared the lookup.
func (s *natState) masquerade(add adder) {
	f := s.family
	for _, p := range s.network.inside {
		add(chainTwice, commentInside+p.String(), f.within(f.source, p), words(verdict(expr.VerdictReturn, "")))
	}
	add(chainTwice, "clients outside", f.opened(), words(inSet(setMasquerade, 0), &expr.Masq{}))
}

func (s *natState) classesOf(scope natScope) []natClass {
	return slices.DeleteFunc(s.sortedClasses(), func(c natClass) bool { return c.scope != scope })
}

// within matches an address, of which the offset is given, in a prefix.
func (f *natFamily) within(offset uint32, p netip.Prefix) []nft.Word {
	mask := netip.PrefixFrom(allOnes(p.Addr()), p.Bits()).Masked().Addr().AsSlice()
	return words(
		f.loadAddress(offset, 0),
		&expr.Bitwise{SourceRegister: reg(0), DestRegister: reg(0), Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))},
		equal(0, p.Addr().AsSlice()),
	)
}

func allOnes(like netip.Addr) netip.Addr {
	return lastOfPrefix(netip.PrefixFrom(like, 0))
}

// portUnreachable is the code of ICMP.
func (f *natFamily) portUnreachable() uint8 {
	if f == nat6 {
		return 4 // ICMPV6_PORT_UNREACH
	}
	return 3 // ICMP_PORT_UNREACH
}
