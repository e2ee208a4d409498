// Package foreign finds rules of other programs that drop or redirect a packet: in nftables,
// including iptables-nft, and in iptables-legacy.
//
//	chains and rules of the kernel ──Read──> Ruleset ──Harms(packet)──> rules and policies that stop it
//
// Source NAT counts as harm only between pods.
//
// Services of kube-proxy are not read: they are as large as the cluster and concern only the
// addresses of services.
//
// The result of a rule may be unknown, because the packet is not fully known, or because of a queue
// to a program, a SYN proxy, or an unknown iptables target. Such a rule counts neither as a drop
// nor as an accept; later drops are then uncertain, and Harms does not report them. Doubts names
// these rules.
//
// Limits: sets of kube-proxy, sets that packets change, and sets beyond the first 500 are not read.
// Marks are zero unless a rule may set them. The netlink library omits the matches socket, osf, rt
// and xfrm, so their rules count as unconditional. A chain with a rule that the library cannot
// parse (ct original, ct reply) may do anything.
package foreign

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/namespace"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Hook is the place where a packet passes a chain. The first ones have netfilter's numbers.
type Hook uint32

const (
	Prerouting Hook = iota
	Input
	Forward
	Output
	Postrouting
	Ingress // of the device In
	Egress  // of the device Out
	// Bridge plus one of the first hooks is the hook of a bridge.
	Bridge Hook = 16
)

// Packet is the first packet of a connection or of its reply direction. Zero fields are unknown.
type Packet struct {
	Hook             Hook
	In, Out          string // devices
	Src, Dst         netip.Addr
	Protocol         uint8
	SrcPort, DstPort uint16
	Size             int // including the IP header
	// Answer: the packet is in the reply direction
	Answer bool
	// Later: the packet is not the first one of its direction
	Later bool
	// Untranslated: no known NAT applies to the connection
	Untranslated bool
	// KeepsSource: the receiver needs the sender's address, so source NAT is harmful.
	KeepsSource bool
	// Untracked: our own rules (notrack) exempt the packet from connection tracking. NAT does not
	// see it, unless a foreign rule assigns a conntrack zone, which makes the kernel track it.
	Untracked bool
}

// established reports whether packets were seen in both directions.
func (p Packet) established() bool { return p.Answer || p.Later }

// Ruleset holds the foreign filter rules of a network namespace.
type Ruleset struct {
	bases []base
	rules map[string][]*nftables.Rule // by family, table and chain
	// chains holds the same rules, indexed.
	chains map[string]*chain
	// lookups holds the sets of lookup expressions; unknown sets are missing.
	lookups map[*expr.Lookup]*set
	local   map[netip.Addr]bool
	// marking are the rules that set the packet mark.
	marking []*nftables.Rule
	// untracking are the rules that disable connection tracking.
	untracking []*nftables.Rule
	// zoning are the rules that assign a conntrack zone before connection tracking, by hook.
	zoning map[Hook][]*nftables.Rule
	// unread are placeholders for chains that could not be parsed.
	unread map[*nftables.Rule]bool
	// indexes of devices by name, as register values
	indexes map[string][]byte
}

type base struct {
	*nftables.Chain
	hook    Hook
	devices []string // of Ingress and Egress
}

// hookOf returns the hook of a base chain. ok is false for hooks that packets of pods do not pass.
func hookOf(c *nftables.Chain) (hook Hook, ok bool) {
	const inetIngress = 5
	hook = Hook(*c.Hooknum)
	switch c.Table.Family {
	case nftables.TableFamilyNetdev:
		return Ingress + hook, hook <= Egress-Ingress
	case nftables.TableFamilyBridge:
		return Bridge + hook, hook <= Postrouting
	case nftables.TableFamilyINet:
		if hook == inetIngress {
			return Ingress, true
		}
	case nftables.TableFamilyIPv4, nftables.TableFamilyIPv6:
	default:
		return 0, false
	}
	return hook, hook <= Postrouting
}

func ofKubeProxy(table, chain string) bool {
	return table == "kube-proxy" || strings.HasPrefix(chain, "KUBE-")
}

func key(t *nftables.Table, chain string) string {
	return fmt.Sprintf("%d/%s/%s", t.Family, t.Name, chain)
}

// Read reads the tables of a network namespace except those for which ours returns true.
func Read(ns *namespace.Namespace, ours func(table string) bool) (*Ruleset, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.Handle)), nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	defer conn.CloseLasting()
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("listing the chains of nftables: %w", err)
	}
	r := &Ruleset{rules: map[string][]*nftables.Rule{}, zoning: map[Hook][]*nftables.Rule{}, lookups: map[*expr.Lookup]*set{}, unread: map[*nftables.Rule]bool{}}
	from := reader{conn, &sets{conn, map[string]map[string]*nftables.Set{}, map[string]*set{}}}
	var onDevices map[string][]string
	for _, c := range chains {
		if c.Hooknum == nil || ours(c.Table.Name) {
			continue
		}
		hook, ok := hookOf(c)
		if !ok || c.Type == nftables.ChainTypeNAT && (hook == Input || ofKubeProxy(c.Table.Name, c.Name)) {
			continue
		}
		b := base{Chain: c, hook: hook}
		if hook == Ingress || hook == Egress {
			if onDevices == nil {
				if onDevices, err = devices(ns); err != nil {
					return nil, err
				}
			}
			b.devices = onDevices[key(c.Table, c.Name)]
		}
		r.bases = append(r.bases, b)
		if err := r.read(from, c); err != nil {
			return nil, err
		}
	}
	err = ns.Run(func() error {
		r.indexDevices()
		return r.legacy()
	})
	r.chains = make(map[string]*chain, len(r.rules))
	for at, rules := range r.rules {
		r.chains[at] = newChain(rules)
	}
	return r, err
}

// indexDevices reads the addresses of devices, and their indexes if a rule compares one. Devices
// missing from a changing list stay unknown.
func (r *Ruleset) indexDevices() {
	r.local = map[netip.Addr]bool{}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			r.local[p.Addr().WithZone("")] = true
		}
	}
	for _, rules := range r.rules {
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if meta, is := e.(*expr.Meta); is && (meta.Key == expr.MetaKeyIIF || meta.Key == expr.MetaKeyOIF) {
					devices, _ := net.Interfaces()
					r.indexes = make(map[string][]byte, len(devices))
					for _, d := range devices {
						r.indexes[d.Name] = binary.NativeEndian.AppendUint32(nil, uint32(d.Index))
					}
					return
				}
			}
		}
	}
}

type reader struct {
	*nftables.Conn
	sets *sets
}

// read reads a chain and the chains that its rules jump to. Most chains of kube-proxy are not
// reachable from filters.
func (r *Ruleset) read(from reader, c *nftables.Chain) error {
	at := key(c.Table, c.Name)
	if _, done := r.rules[at]; done {
		return nil
	}
	rules, err := from.GetRules(c.Table, c)
	if err != nil && !fromKernel(err) { // a rule that the library cannot parse hides the others
		unread := &nftables.Rule{Table: c.Table, Chain: c}
		r.unread[unread] = true
		rules, r.marking = []*nftables.Rule{unread}, append(r.marking, unread)
	} else if err != nil {
		return fmt.Errorf("listing chain %s of table %s: %w", c.Name, c.Table.Name, err)
	}
	r.rules[at] = rules
	for _, rule := range rules {
		r.note(rule)
		r.noteZone(c, rule)
		for _, name := range r.jumps(from, c.Table, rule) {
			if c.Type == nftables.ChainTypeNAT && ofKubeProxy(c.Table.Name, name) {
				continue
			}
			if err := r.read(from, &nftables.Chain{Table: c.Table, Name: name, Type: c.Type, Hooknum: c.Hooknum, Priority: c.Priority}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromKernel reports whether an error is from the kernel, not from parsing. The library wraps
// neither.
func fromKernel(err error) bool {
	return strings.HasPrefix(err.Error(), "SendMessages") || strings.HasPrefix(err.Error(), "receiveAckAware")
}

// jumps returns the chains that a rule jumps to, also through maps, and records the sets of its
// lookups.
func (r *Ruleset) jumps(from reader, t *nftables.Table, rule *nftables.Rule) (chains []string) {
	add := func(v *expr.Verdict) {
		if v != nil && v.Chain != "" {
			chains = append(chains, v.Chain)
		}
	}
	for _, e := range rule.Exprs {
		switch e := e.(type) {
		case *expr.Verdict:
			add(e)
		case *expr.Lookup:
			s := from.sets.get(t, e.SetName)
			if s == nil {
				continue
			}
			r.lookups[e] = s
			for at := range s.elements() {
				add(at.verdict)
			}
		}
	}
	return chains
}

// Empty reports whether no foreign rule could drop a packet.
func (r *Ruleset) Empty() bool { return len(r.bases) == 0 }

// Harms returns how the rules stop or redirect a packet, e.g. "are dropped: a rule of chain FORWARD
// in table ip filter drops the packet".
func (r *Ruleset) Harms(p Packet) []string {
	w := r.walk(p)
	return w.harms()
}

// MayMark reports whether a rule may set the mark of a packet, at any hook.
func (r *Ruleset) MayMark(p Packet) bool {
	w := r.walk(p)
	return w.mayMatch(r.marking)
}

// walk returns a walk of the packet.
func (r *Ruleset) walk(p Packet) walk {
	w := walk{ruleset: r, packet: p, loaded: load(p)}
	if !p.Untracked {
		return w
	}
	path := Prerouting
	if p.In == "" {
		path = Output
	}
	if w.mayMatch(r.zoning[path]) {
		p.Untracked = false
		w = walk{ruleset: r, packet: p, loaded: load(p)}
	}
	w.exempt = true
	return w
}

const (
	translatedText = "get another destination"
	hiddenText     = "get another source"
)

// Translated reports whether a text of Harms is about another destination, not a drop.
func Translated(harm string) bool { return strings.Contains(harm, translatedText) }

// Doubts returns the rules whose effect on a packet is unknown, e.g. "may be dropped by a rule of
// chain FORWARD in table ip filter, which is not evaluated because it limits a rate".
func (r *Ruleset) Doubts(p Packet) []string {
	w := r.walk(p)
	w.doubting = true
	w.harms()
	slices.Sort(w.doubts)
	return slices.Compact(w.doubts)
}

// harms evaluates all base chains that the packet passes.
func (w *walk) harms() (found []string) {
	for _, c := range w.ruleset.bases {
		if !c.sees(w.packet) {
			continue
		}
		w.uncertain, w.hiding = "", c.hides()
		verdict, by := w.chain(c.Table, c.Name, 0)
		policy := c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		switch {
		case verdict == drops:
			found = append(found, fmt.Sprintf("are dropped: %s drops the packet%s", by, by.comment))
		case verdict == diverts:
			found = append(found, fmt.Sprintf("%s: %s translates it%s", translatedText, by, by.comment))
		case verdict == hides:
			found = append(found, fmt.Sprintf("%s: %s translates it%s, %s", hiddenText, by, by.comment, w.harmOfHiding()))
		case verdict == falls && policy && w.uncertain != "":
			w.doubt(drops, culprit{base: true, chain: c.Name, table: tableName(c.Table)}, "an earlier rule may accept the packet: "+w.uncertain)
		case verdict == falls && policy:
			found = append(found, fmt.Sprintf("are dropped: the policy of chain %s in table %s is drop, and none of its rules accepts the packet", c.Name, tableName(c.Table)))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (w *walk) harmOfHiding() string {
	if w.exempt {
		return "so that the receiver drops it; exempt these packets from it"
	}
	return "so that network policies judge another address than the pod's; exempt the pod network from it"
}

// culprit is a rule, or the policy of a base chain.
type culprit struct {
	base                  bool
	chain, table, comment string
}

func (c culprit) String() string {
	if c.base {
		return fmt.Sprintf("the policy of chain %s in table %s", c.chain, c.table)
	}
	return fmt.Sprintf("a rule of chain %s in table %s", c.chain, c.table)
}

// doubt records a rule with an unknown effect.
func (w *walk) doubt(v verdict, by culprit, reason string) {
	if !w.doubting || w.hiding && v == drops { // NAT chains of postrouting do not drop
		return
	}
	what := "may be dropped"
	switch v {
	case diverts:
		what = "may " + translatedText
	case hides:
		what = "may " + hiddenText
	}
	w.doubts = append(w.doubts, fmt.Sprintf("%s by %s%s, which is not evaluated because %s", what, by, by.comment, reason))
}

// sees reports whether a packet passes the chain. NAT chains see only the first packet of a
// connection.
func (c base) sees(p Packet) bool {
	switch {
	case c.hook != p.Hook, c.hides() && !p.KeepsSource, (p.established() || p.Untracked) && c.Type == nftables.ChainTypeNAT,
		c.Table.Family == nftables.TableFamilyIPv4 && p.Src.Is6(), c.Table.Family == nftables.TableFamilyIPv6 && p.Src.Is4():
		return false
	case c.hook == Ingress:
		return slices.Contains(c.devices, p.In)
	case c.hook == Egress:
		return slices.Contains(c.devices, p.Out)
	}
	return true
}

// hides reports whether the chain is for source NAT.
func (c base) hides() bool { return c.Type == nftables.ChainTypeNAT && c.hook == Postrouting }

func tableName(t *nftables.Table) string {
	return map[nftables.TableFamily]string{
		nftables.TableFamilyINet: "inet ", nftables.TableFamilyIPv4: "ip ", nftables.TableFamilyIPv6: "ip6 ",
		nftables.TableFamilyNetdev: "netdev ", nftables.TableFamilyBridge: "bridge ",
	}[t.Family] + t.Name
}

type verdict int

const (
	falls   verdict = iota // continues, or returns
	accepts                // in this base chain
	drops
	diverts // changes the destination
	hides   // changes the source
)

// verdictDivert marks rules that change the destination. It is not a verdict of the kernel.
const verdictDivert = expr.VerdictKind(1 << 16)

const verdictHide = expr.VerdictKind(1 << 18)

// verdictUnknown marks rules with an unknown effect: verdict maps, queues to programs.
const verdictUnknown = expr.VerdictKind(1 << 17)

// maxJumps is the kernel's limit.
const maxJumps = 16

type walk struct {
	ruleset   *Ruleset
	packet    Packet
	loaded    *loaded
	registers registers
	// uncertain is the reason why an earlier rule may have accepted the packet; "" if none may
	// have.
	uncertain string
	// hiding: the current base chain is for source NAT
	hiding bool
	// exempt: our own rules exempt the packet from connection tracking
	exempt bool
	// reason why it is unknown whether the last rule matches.
	reason string
	// marked and untracked cache results of mayBe.
	marked, untracked *bool
	doubting          bool // Doubts is being computed
	doubts            []string
}

func (w *walk) chain(t *nftables.Table, name string, depth int) (verdict, culprit) {
	none := culprit{}
	if depth > maxJumps {
		return falls, none
	}
	c := w.ruleset.chains[key(t, name)]
	if c == nil {
		return falls, none
	}
	for _, number := range c.candidates(w.loaded) {
		rule := c.rules[number]
		matches, end := w.rule(rule)
		if matches == no {
			continue
		}
		reason := w.reason
		this := func() culprit { return culprit{chain: name, table: tableName(t), comment: comment(rule)} }
		if w.doubting && setsTTL(rule, w.packet) {
			w.doubt(drops, this(), "it sets the TTL or hop limit")
		}
		if end == nil {
			continue
		}
		switch end.Kind {
		case expr.VerdictJump, expr.VerdictGoto:
			v, by := w.chain(t, end.Chain, depth+1)
			switch {
			case (v == drops || v == diverts || v == hides) && matches == yes:
				return v, by
			case v == drops || v == diverts || v == hides:
				w.doubt(v, by, "it is unknown whether packets reach that chain: "+reason)
			case v == accepts && matches == yes:
				return v, none
			case v == accepts:
				w.unsure(reason)
			case end.Kind == expr.VerdictGoto && matches == yes:
				return falls, none
			case end.Kind == expr.VerdictGoto: // skips the following rules
				w.unsure(reason)
			}
		case expr.VerdictDrop, verdictDivert, verdictHide:
			v := drops
			switch end.Kind {
			case verdictDivert:
				v = diverts
			case verdictHide:
				v = hides
			}
			switch {
			case matches == unknown:
				w.doubt(v, this(), reason)
			case w.uncertain != "":
				w.doubt(v, this(), "an earlier rule may accept the packet: "+w.uncertain)
				return accepts, none
			default:
				return v, this()
			}
		case verdictUnknown:
			w.doubt(drops, this(), reason)
			w.unsure(reason)
		case expr.VerdictAccept, expr.VerdictReturn:
			switch {
			case matches == unknown:
				w.unsure(reason)
			case end.Kind == expr.VerdictAccept:
				return accepts, none
			default:
				return falls, none
			}
		}
	}
	return falls, none
}

func (w *walk) unsure(reason string) {
	if w.uncertain == "" {
		w.uncertain = reason
	}
}

func comment(rule *nftables.Rule) string {
	if data := rule.UserData; len(data) > 2 && data[0] == 0 && int(data[1])+2 <= len(data) {
		return fmt.Sprintf(" (comment %q)", strings.TrimRight(string(data[2:2+int(data[1])]), "\x00"))
	}
	for _, e := range rule.Exprs {
		if match, is := e.(*expr.Match); is {
			if text, is := match.Info.(*xt.Comment); is {
				return fmt.Sprintf(" (comment %q)", string(*text))
			}
		}
	}
	return ""
}
