// Package foreign finds rules of others that drop a packet, or send it elsewhere: in nftables, and in
// iptables, which is written in nftables or, by iptables-legacy, in tables of its own.
//
//	chains and rules of the kernel ──Read──> Ruleset ──Harms(packet)──> the rules and policies that stop it
//
// Translations of the source are a harm to packets between pods only.
//
// Translations by kube-proxy are not read: they are as large as the cluster, and only concern the
// addresses of services.
//
// A rule that matches something which is not known of the packet may match or not: such a rule is
// neither taken for a drop nor for what saves the packet from a later one, but then the answer is
// uncertain, and no harm is reported. So it is after a queue to a program, a proxy of
// SYNs, or a target of iptables that is not known. Doubts names these rules. Sets and maps are read, but for those of kube-proxy, those that packets change,
// and those after the first 500. Marks are zero unless a rule may have set one. Not seen are matches that the library for netlink leaves out
// (socket, osf, rt, xfrm): such a rule counts as if it had none. A chain with a rule that the library does not parse (ct original, ct reply) may do anything.
package foreign

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/namespace"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Hook is where a packet comes by. The first ones have the numbers of netfilter.
type Hook uint32

const (
	Prerouting Hook = iota
	Input
	Forward
	Output
	Postrouting
	Ingress // of the device In
	Egress  // of the device Out
	// Bridge and one of the first hooks: that of packets in a bridge.
	Bridge Hook = 16
)

// Packet is the first one of a connection, or of its answers. Zero fields are not known.
type Packet struct {
	Hook             Hook
	In, Out          string // devices
	Src, Dst         netip.Addr
	Protocol         uint8
	SrcPort, DstPort uint16
	Size             int // with the IP header
	// Answer: the packet goes to the one who opened the connection.
	Answer bool
	// Later: the packet is not the first one of its direction.
	Later bool
	// Untranslated: nobody who is known translates the connection.
	Untranslated bool
	// KeepsSource: the packet is between pods, which must see each other's addresses: a translation of the source is a harm.
	KeepsSource bool
}

// established reports whether the connection was seen in both directions.
func (p Packet) established() bool { return p.Answer || p.Later }

// Ruleset is what others have in the filters of a network namespace.
type Ruleset struct {
	bases []base
	rules map[string][]*nftables.Rule // by family, table and chain
	// chains have the same rules, to find them.
	chains map[string]*chain
	// lookups are the sets in which rules search; those that are not known are left out.
	lookups map[*expr.Lookup]*set
	// local are the addresses of the namespace's devices.
	local map[netip.Addr]bool
	// marking are those of the rules that set a packet's mark.
	marking []*nftables.Rule
	// untracking are those that take packets out of connection tracking.
	untracking []*nftables.Rule
	// unread are rules that stand for those of a chain that are not parsed.
	unread map[*nftables.Rule]bool
	// indexes of devices by name, as registers have them.
	indexes map[string][]byte
}

// base is a chain that packets come to at a hook.
type base struct {
	*nftables.Chain
	hook    Hook
	devices []string // of Ingress and Egress
}

// hookOf returns the hook of a base chain; not ok: packets do not come by there.
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

// ofKubeProxy reports whether a chain of translations is kube-proxy's.
func ofKubeProxy(table, chain string) bool {
	return table == "kube-proxy" || strings.HasPrefix(chain, "KUBE-")
}

func key(t *nftables.Table, chain string) string {
	return fmt.Sprintf("%d/%s/%s", t.Family, t.Name, chain)
}

// Read reads the tables of a network namespace but for those that are ours.
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
	r := &Ruleset{rules: map[string][]*nftables.Rule{}, lookups: map[*expr.Lookup]*set{}, unread: map[*nftables.Rule]bool{}}
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

// indexDevices reads the addresses of devices, and their indexes if a rule compares one. Devices that are not found, since a
// changing list lacks them, are not known.
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

// reader reads from the kernel.
type reader struct {
	*nftables.Conn
	sets *sets
}

// read reads a chain, and those that its rules jump to: of the thousands that a kube-proxy has, few
// filter.
func (r *Ruleset) read(from reader, c *nftables.Chain) error {
	at := key(c.Table, c.Name)
	if _, done := r.rules[at]; done {
		return nil
	}
	rules, err := from.GetRules(c.Table, c)
	if err != nil && !fromKernel(err) { // one rule that the library does not parse hides the others
		unread := &nftables.Rule{Table: c.Table, Chain: c}
		r.unread[unread] = true
		rules, r.marking = []*nftables.Rule{unread}, append(r.marking, unread)
	} else if err != nil {
		return fmt.Errorf("listing chain %s of table %s: %w", c.Name, c.Table.Name, err)
	}
	r.rules[at] = rules
	for _, rule := range rules {
		r.note(rule)
		for _, name := range r.jumps(from, c.Table, rule) {
			if c.Type == nftables.ChainTypeNAT && ofKubeProxy(c.Table.Name, name) {
				continue
			}
			if err := r.read(from, &nftables.Chain{Table: c.Table, Name: name, Type: c.Type}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromKernel reports whether an error is one of asking the kernel, not of parsing the answer. The library wraps neither.
func fromKernel(err error) bool {
	return strings.HasPrefix(err.Error(), "SendMessages") || strings.HasPrefix(err.Error(), "receiveAckAware")
}

// jumps returns the chains that a rule leads to, also by a map, and remembers the sets in which it searches.
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

// Empty reports whether there is nothing that could drop a packet.
func (r *Ruleset) Empty() bool { return len(r.bases) == 0 }

// Harms says what becomes of a packet that does not get where it is sent, such as "are dropped: a rule
// of chain FORWARD in table ip filter drops the packet".
func (r *Ruleset) Harms(p Packet) []string {
	w := walk{ruleset: r, packet: p, loaded: load(p)}
	return w.harms()
}

const (
	translatedText = "get another destination"
	hiddenText     = "get another source"
)

// Translated reports whether a harm, with words before it or not, is that packets are sent elsewhere, and not dropped.
func Translated(harm string) bool { return strings.Contains(harm, translatedText) }

// Doubts says what may become of a packet by rules that are not judged, such as "may be dropped by a rule of chain FORWARD in
// table ip filter, which is not judged because it limits a rate".
func (r *Ruleset) Doubts(p Packet) []string {
	w := walk{ruleset: r, packet: p, loaded: load(p), doubting: true}
	w.harms()
	slices.Sort(w.doubts)
	return slices.Compact(w.doubts)
}

// harms has the packet come by all base chains.
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
			found = append(found, fmt.Sprintf("%s: %s translates it%s, so that network policies judge another address than the pod's; exempt the pod network from it", hiddenText, by, by.comment))
		case verdict == falls && policy && w.uncertain != "":
			w.doubt(drops, culprit{base: true, chain: c.Name, table: tableName(c.Table)}, "an earlier rule may accept the packet: "+w.uncertain)
		case verdict == falls && policy:
			found = append(found, fmt.Sprintf("are dropped: the policy of chain %s in table %s is drop, and none of its rules accepts the packet", c.Name, tableName(c.Table)))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
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

// doubt remembers what is not judged.
func (w *walk) doubt(v verdict, by culprit, reason string) {
	if !w.doubting || w.hiding && v == drops { // nobody drops packets there
		return
	}
	what := "may be dropped"
	switch v {
	case diverts:
		what = "may " + translatedText
	case hides:
		what = "may " + hiddenText
	}
	w.doubts = append(w.doubts, fmt.Sprintf("%s by %s%s, which is not judged because %s", what, by, by.comment, reason))
}

// sees reports whether a packet comes by the chain. Translations are of connections, not of answers.
func (c base) sees(p Packet) bool {
	switch {
	case c.hook != p.Hook, c.hides() && !p.KeepsSource, p.established() && c.Type == nftables.ChainTypeNAT,
		c.Table.Family == nftables.TableFamilyIPv4 && p.Src.Is6(), c.Table.Family == nftables.TableFamilyIPv6 && p.Src.Is4():
		return false
	case c.hook == Ingress:
		return slices.Contains(c.devices, p.In)
	case c.hook == Egress:
		return slices.Contains(c.devices, p.Out)
	}
	return true
}

// hides reports whether the rules of the chain translate sources.
func (c base) hides() bool { return c.Type == nftables.ChainTypeNAT && c.hook == Postrouting }

func tableName(t *nftables.Table) string {
	return map[nftables.TableFamily]string{
		nftables.TableFamilyINet: "inet ", nftables.TableFamilyIPv4: "ip ", nftables.TableFamilyIPv6: "ip6 ",
		nftables.TableFamilyNetdev: "netdev ", nftables.TableFamilyBridge: "bridge ",
	}[t.Family] + t.Name
}

type verdict int

const (
	falls   verdict = iota // through, or returns
	accepts                // in this base chain
	drops
	diverts // to another destination
	hides   // its source
)

// verdictDivert marks rules that change a packet's destination. The kernel has no such number.
const verdictDivert = expr.VerdictKind(1 << 16)

// verdictHide marks rules that change a packet's source.
const verdictHide = expr.VerdictKind(1 << 18)

// verdictUnknown marks rules that may do anything: maps of verdicts, queues to programs.
const verdictUnknown = expr.VerdictKind(1 << 17)

// maxJumps is the kernel's.
const maxJumps = 16

type walk struct {
	ruleset   *Ruleset
	packet    Packet
	loaded    *loaded
	registers registers
	// uncertain: a rule may have accepted the packet; why that is not known.
	uncertain string
	// hiding: the rules of the present base chain translate sources.
	hiding bool
	// reason why it is not known whether the last rule matches.
	reason string
	// marked and untracked are remembered by mayBe.
	marked, untracked *bool
	doubting          bool // doubts are asked for
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
				w.doubt(v, by, "whether packets come there is not known: "+reason)
			case v == accepts && matches == yes:
				return v, none
			case v == accepts:
				w.unsure(reason)
			case end.Kind == expr.VerdictGoto && matches == yes:
				return falls, none
			case end.Kind == expr.VerdictGoto: // past the rules that follow
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

// unsure remembers that a rule may have accepted the packet.
func (w *walk) unsure(reason string) {
	if w.uncertain == "" {
		w.uncertain = reason
	}
}

// comment of a rule, as nft and iptables-nft write it.
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
