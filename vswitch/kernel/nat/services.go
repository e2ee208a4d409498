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

// The rules of Kubernetes services beyond plain mappings, in the same tables (rules.go).
//
//	output ─> balanced for the node? there
//	       ─> nat-inside ──────────────────────────────────────────┐ balanced for inside? there
//	nat-services   restricted, and not from an allowed prefix? drop│
//	               ─> (plain mappings) ─> source inside? nat-inside┘
//	               ─> balanced for outside? there
//	               ─> without backends? drop or nat-refuse
//	               ─> a cluster IP? nat-refuse
//	nat-refuse     TCP: reset; other: ICMP port unreachable
//	postrouting, to a backend
//	               sent by the node itself, and not to itself? output address
//	               ─> twice-NAT ─> source inside? stay ─> hide external clients? output address
//
// NAT chains see only the first packet of a connection, so the following packets cost nothing and
// existing connections are not affected.
const (
	chainInside     = "nat-inside"
	chainBalanceIn  = "nat-pick-inside"
	chainBalanceOut = "nat-pick-outside"
	chainBalanceOwn = "nat-pick-own"
	chainRefuse     = "nat-refuse"
	chainKnown      = "nat-known" // per scope

	setBalancedIn  = "nat-balanced-in"  // services with backends for clients inside; Comment: label
	setBalancedOut = "nat-balanced-out" // likewise, outside
	setBalancedOwn = "nat-balanced-own" // likewise, processes of the node
	setRefused     = "nat-refused"      // services without backends; Comment: label
	setDropped     = "nat-dropped"      // likewise
	setRestricted  = "nat-restricted"   // services with restricted clients
	setAllowed     = "nat-allowed"      // service, client; keys are ranges
	setMasquerade  = "nat-masquerade"   // services that hide external clients
	setReset       = "nat-reset"        // services that end TCP connections to removed backends; not used by rules

	restrictedRule  = "not from everywhere"
	commentInside   = "inside "
	commentClusters = "cluster IPs "
)

// natScope is a group of clients; "" for all.
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

func (s natScope) known() string { return s.suffixed(chainKnown) }

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

// disjoint parses prefixes and drops prefixes within others.
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

func lastOfPrefix(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

func (f *natFamily) serviceSets() (list []*nftables.Set) {
	for _, name := range []string{setBalancedIn, setBalancedOut, setBalancedOwn, setRefused, setDropped, setRestricted, setMasquerade, setReset} {
		list = append(list, f.newSet(name, f.service))
	}
	allowed := f.newSet(setAllowed, f.affinity)
	allowed.Interval = true
	return append(list, allowed)
}

type natNetwork struct{ inside, clusterIPs []netip.Prefix }

func (n natNetwork) isSet() bool { return len(n.inside)+len(n.clusterIPs) > 0 }

func (n natNetwork) equal(o natNetwork) bool {
	return slices.Equal(n.inside, o.inside) && slices.Equal(n.clusterIPs, o.clusterIPs)
}

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

func (f *natFamily) restricted() []nft.Word {
	return slices.Concat(f.toService(), words(
		inSet(setRestricted, 0), f.loadAddress(f.source, f.clientReg()),
		&expr.Lookup{SourceRegister: reg(0), SetName: setAllowed, Invert: true}, verdict(expr.VerdictDrop, ""),
	))
}

// bridged disables conntrack for frames on our bridges, which br_netfilter would pass to conntrack
// a second time. Replies of endpoints through the overlay would look like new connections from the
// service to the client, and get another source port, because the real connection has the original
// one. The rule applies even while another proxy translates services: connections with another port
// would not survive the switch.
func (s *natState) bridged(add adder) {
	add(chainBridged, "frames of bridges", words(&expr.Meta{Key: expr.MetaKeyIIFGROUP, Register: reg(0)}, equal(0, native32(own.DeviceGroup))),
		ofKind(nft.MetaInputKind, "bridge"), words(&expr.Notrack{}))
}

// ofKind matches the kind of a packet's device.
func ofKind(key expr.MetaKey, kind string) []nft.Word {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, kind)
	return words(&expr.Meta{Key: key, Register: reg(0)}, equal(0, padded))
}

func (s *natState) fromNode(add adder) {
	if s.network.isSet() {
		add(chainOutput, restrictedRule, s.family.restricted())
		add(chainOutput, "backends for the node itself", s.family.toService(), words(inSet(setBalancedOwn, 0), verdict(expr.VerdictGoto, chainBalanceOwn)))
		add(chainOutput, "inside", words(verdict(expr.VerdictJump, chainInside)))
	}
}

// scoped adds the backends for some clients only, and the handling of services without backends.
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

// clusterIPs refuses unused cluster IPs and ports. Only the first packet of a connection is
// translated, and its endpoint may be such an address. So packets translated to a cluster IP do not
// leave the node, unless it is an address of the node. Conntrack calls some packets invalid, which
// are never translated. They do not leave by devices that lead to other machines. SRv6 segments
// carry packets to cluster IPs by other devices.
func (s *natState) clusterIPs(add adder) {
	notLocal := words(&expr.Fib{Register: reg(0), FlagDADDR: true, ResultADDRTYPE: true}, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: native32(typeLocal)})
	for _, chain := range []string{chainUnused, chainUnusedOwn} {
		for _, p := range s.network.clusterIPs {
			to := slices.Concat(s.family.within(s.family.destination, p), notLocal)
			add(chain, "an endpoint in "+p.String(), to, words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}),
				bitSet(0, ctDestinationNAT), words(verdict(expr.VerdictGoto, chainRefuse)))
			add(chain, "out of the node, to "+p.String(), to, words(
				&expr.Meta{Key: expr.MetaKeyOIFGROUP, Register: reg(0)}, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: native32(own.DeviceGroup)},
				verdict(expr.VerdictGoto, chainRefuse)))
			for _, kind := range []string{"vlan", "bond"} { // uplinks that the vswitch makes
				add(chain, "out of a "+kind+", to "+p.String(), to, ofKind(nft.MetaOutputKind, kind), words(verdict(expr.VerdictGoto, chainRefuse)))
			}
		}
	}
	for _, p := range s.network.clusterIPs {
		add(chainServices, commentClusters+p.String(), s.family.within(s.family.destination, p), words(verdict(expr.VerdictGoto, chainRefuse)))
	}
}

// nodeSources gives the node's own packets the source address of the route to the backend; theirs
// was chosen by the route to the service.
func (s *natState) nodeSources(add adder) {
	if !s.network.isSet() {
		return
	}
	const arphrdLoopback = 772
	add(chainTwice, "packets of the node itself", words(
		&expr.Meta{Key: expr.MetaKeyIIF, Register: reg(0)}, equal(0, native32(0)), // forwarded packets skip the route lookup
		&expr.Meta{Key: expr.MetaKeyOIFTYPE, Register: reg(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: binaryutil.NativeEndian.PutUint16(arphrdLoopback)},
		&expr.Fib{Register: reg(0), FlagSADDR: true, ResultADDRTYPE: true}, equal(0, native32(typeLocal)), &expr.Masq{}))
}

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

// within matches an address at the offset in a prefix.
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

func (f *natFamily) portUnreachable() uint8 {
	if f == nat6 {
		return 4
	}
	return 3
}
