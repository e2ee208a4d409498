package nat

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/conntrack"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"golang.org/x/sys/unix"
)

// natTable is the name of the nftables tables that hold NAT: one for IPv4, described
// in nat_rules.go and nat_sets.go, and one for IPv6, which has the part of that for DNAT,
// and what is in nat66.go. All our NAT state is
// in them: rules and elements of sets carry the value that they stand for as a
// comment.
const natTable = "contiv"

// natState is the content of the table except DNAT.
type natState struct {
	family  *natFamily
	enabled bool
	// complete: chains and sets are there. intact: so are exactly the rules that the state asks for.
	complete   bool
	intact     bool
	forwarding bool
	interfaces []natInterface
	pools      []natPool
	classes    map[natClass]bool
	network    natNetwork
	// byAddress: the table has nat-affinity, where earlier versions remembered clients by the address that they
	// came to. They keep their backends there until they come by another one.
	byAddress bool
}

// natInterface is a device with a part in NAT: it is in one of the sets for that.
// global: it is in the list of the global value.
type natInterface struct {
	set, device, name string
	global            bool
}

// Those of the global value have this in front of what they are known by.
const globalMark = "global "

func (i natInterface) element() nft.Element {
	comment := i.name
	if i.global {
		comment = globalMark + i.name
	}
	return nft.Element{Set: i.set, Key: deviceKey(i.device), Comment: comment}
}

func interfaceOf(e nft.Element) natInterface {
	name, global := strings.CutPrefix(e.Comment, globalMark)
	return natInterface{set: e.Set, device: strings.TrimRight(e.Key, "\x00"), name: name, global: global}
}

// natPool is a range of addresses; twice: for twice-NAT.
type natPool struct {
	first, last   netip.Addr
	vrf           uint32
	name          string
	twice, global bool
}

func (p natPool) chain() string {
	if p.twice {
		return chainTwiceSource
	}
	return chainSource
}

// comment says everything: "[global ]pool 10.0.0.1-10.0.0.9 0 name"
func (p natPool) comment() string {
	mark := ""
	if p.global {
		mark = globalMark
	}
	return fmt.Sprintf("%spool %s %d %s", mark, p, p.vrf, p.name)
}

func poolFrom(chain, comment string) (p natPool, ok bool) {
	comment, p.global = strings.CutPrefix(comment, globalMark)
	fields := strings.SplitN(comment, " ", 4)
	if len(fields) != 4 || fields[0] != "pool" {
		return p, false
	}
	p.twice, p.name = chain == chainTwiceSource, fields[3]
	first, last, isRange := strings.Cut(fields[1], "-")
	if !isRange {
		last = first
	}
	var errs [3]error
	p.first, errs[0] = netip.ParseAddr(first)
	p.last, errs[1] = netip.ParseAddr(last)
	vrf, err := strconv.ParseUint(fields[2], 10, 32)
	p.vrf, errs[2] = uint32(vrf), err
	return p, errors.Join(errs[:]...) == nil
}

// String is the range as nft writes it.
func (p natPool) String() string {
	if p.first == p.last {
		return p.first.String()
	}
	return p.first.String() + "-" + p.last.String()
}

func (s *natState) poolsOf(chain string) (pools []natPool) {
	for _, p := range s.pools {
		if p.chain() == chain {
			pools = append(pools, p)
		}
	}
	return pools
}

func (s *natState) sortedClasses() []natClass {
	classes := make([]natClass, 0, len(s.classes))
	for c := range s.classes {
		classes = append(classes, c)
	}
	slices.SortFunc(classes, func(a, b natClass) int {
		return cmp.Or(cmp.Compare(a.slots, b.slots), cmp.Compare(a.timeout, b.timeout), cmp.Compare(a.scope, b.scope))
	})
	return classes
}

// Driver is NAT in one network namespace.
type Driver struct {
	*own.Host
	nat natDriver
	// forget has the kernel forget connections.
	forget func(conntrack.Stale) error
	// judge has the kernel forget connections that mappings do not allow any more.
	judge func(*natFamily, judgedFlows) error
}

// New returns a Driver. Run ForgetClients meanwhile; there is nothing to close.
func New(host *own.Host) *Driver {
	more := make(chan struct{}, 1)
	v := &Driver{Host: host, nat: natDriver{
		Conn: host.NFT, ahead: map[*natFamily]ahead{}, more: more,
		departed: map[*natFamily]*departed{nat4: {gone: backendSets{}, more: more}, nat6: {gone: backendSets{}, more: more}},
	}}
	v.forget = func(stale conntrack.Stale) error { return stale.Forget(host.NS.Handle) }
	v.judge = v.judgeFlows
	return v
}

// natDriver changes the tables, one call at a time.
type natDriver struct {
	*nft.Conn
	// What is known of DNAT, by IP version.
	dnat, dnat6 dnatState
	// What changes of DNAT have left behind that the kernel has still to forget.
	owed, owed6 leftBehind
	// Backends whose clients are still to be forgotten; more is written to when there are some.
	departed map[*natFamily]*departed
	more     chan struct{}
	// What was read of it before anybody asked.
	ahead map[*natFamily]ahead
}

// readNAT returns the content of the table.
func (d *natDriver) readNAT(f *natFamily) (*natState, error) {
	s := &natState{family: f, classes: map[natClass]bool{}}
	table, err := d.Layout(f.proto, natTable)
	if err != nil || table == nil {
		return s, err
	}
	if _, s.enabled = table.Chains[chainPostrouting]; !s.enabled {
		return s, nil
	}
	_, s.byAddress = table.Sets[mapAffinity]
	s.intact = true
	for _, want := range s.family.chains() {
		have, exists := table.Chains[want.Name]
		s.intact = s.intact && exists && (want.Hooknum == nil) == (have.Hook == nil) && (have.Hook == nil || !have.Hook.Drops)
	}
	for name := range table.Sets {
		if class, ok := classNamed(name); ok {
			s.classes[class] = true
		}
	}
	for _, set := range s.family.sets() {
		_, exists := table.Sets[set.Name]
		s.intact = s.intact && exists
	}
	for _, name := range deviceSets {
		if _, exists := table.Sets[name]; !exists {
			continue
		}
		elements, err := d.Elements(f.proto, natTable, name)
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			s.interfaces = append(s.interfaces, interfaceOf(e))
		}
	}
	s.complete = s.intact
	s.readRules(table)
	return s, nil
}

// readRules learns pools and forwarding, and if all rules are there.
func (s *natState) readRules(table *nft.Table) {
	for chain, have := range table.Chains {
		for _, comment := range have.Rules {
			if p, ok := poolFrom(chain, comment); ok && p.chain() == chain {
				s.pools = append(s.pools, p)
			}
			s.network.read(chain, comment)
		}
	}
	s.forwarding = len(table.Chains[chainForward].Rules) == 0
	want := map[string][]string{}
	for _, r := range s.rules() {
		want[r.chain] = append(want[r.chain], r.comment)
	}
	for _, chain := range s.family.chains() {
		s.intact = s.intact && slices.Equal(table.Chains[chain.Name].Rules, want[chain.Name])
	}
}

// write makes the table match the state. Elements of sets but those of devices stay.
func (s *natState) write(b *nft.Batch) {
	b.AddTable()
	for _, set := range s.family.sets() {
		b.AddSet(set)
	}
	for _, class := range s.sortedClasses() {
		b.AddSet(s.family.classSet(class))
	}
	if s.family == nat4 {
		for _, name := range deviceSets {
			b.FlushSet(name)
		}
	}
	sortInterfaces(s.interfaces)
	var devices []nft.Element
	for _, i := range s.interfaces {
		devices = append(devices, i.element())
	}
	b.AddElements(devices)
	for _, chain := range s.family.chains() {
		b.AddChain(chain)
	}
	for _, r := range s.rules() {
		b.AddRule(r.chain, r.comment, r.words)
	}
}

// change rewrites the rules with a changed state, if it did change.
func (d *natDriver) change(edit func(*natState) error) error {
	return d.Locked(func() error {
		s, err := d.readNAT(nat4)
		if err != nil {
			return fmt.Errorf("reading nftables table %q: %w", natTable, err)
		}
		was := *s
		was.pools, was.interfaces = slices.Clone(s.pools), slices.Clone(s.interfaces)
		if err := edit(s); err != nil {
			return err
		}
		b := nat4.batch()
		sortInterfaces(was.interfaces)
		sortInterfaces(s.interfaces)
		switch {
		case !s.enabled && !was.enabled:
			return nil
		case !s.enabled:
			b.DeleteTable()
			d.dnat = dnatState{}
		case was.enabled && was.intact && was.forwarding == s.forwarding &&
			slices.Equal(was.interfaces, s.interfaces) && slices.Equal(was.pools, s.pools) && was.network.equal(s.network):
			return nil
		default:
			s.write(b)
		}
		return d.Commit(b)
	})
}

func sortInterfaces(list []natInterface) {
	slices.SortFunc(list, func(a, b natInterface) int { return nft.Compare(a.element(), b.element()) })
}

// read returns the content of the table.
func (d *natDriver) read() (s *natState, err error) {
	d.Lock()
	defer d.Unlock()
	if s, err = d.readNAT(nat4); err != nil {
		err = fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	return s, err
}

var ErrDisabled = errors.New("NAT is not enabled: put a Nat44Global value first")

// mustBeEnabled returns an error if nobody has enabled NAT. If somebody else has removed the table since, the state is to have it again;
// what else was in it comes back when the loss is noticed (see Check).
func (v *Driver) mustBeEnabled(s *natState) error {
	if s.enabled {
		return nil
	}
	global, ok := v.Reg.Get(models.Key(&vpp_nat.Nat44Global{}))
	if !ok {
		return ErrDisabled
	}
	s.enabled, s.forwarding = true, global.(*vpp_nat.Nat44Global).GetForwarding()
	return nil
}

// setInterface replaces the parts of an interface in NAT that the global value gave
// it, or those of a value of its own.
func (s *natState) setInterface(name string, global bool, sets []string, device string) {
	s.interfaces = slices.DeleteFunc(s.interfaces, func(i natInterface) bool { return i.name == name && i.global == global })
	for _, set := range sets {
		s.interfaces = append(s.interfaces, natInterface{set: set, device: device, name: name, global: global})
	}
}

func (s *natState) removePool(p natPool) {
	s.pools = slices.DeleteFunc(s.pools, func(o natPool) bool {
		return o.first == p.first && o.last == p.last && o.twice == p.twice && o.global == p.global
	})
}

var commentText = regexp.MustCompile(`^[A-Za-z0-9_./:-]*$`)

// fitsComment: names become parts of comments, which have at most 128 characters,
// and nft knows no way to quote quotes.
func fitsComment(name string) bool { return len(name) <= 63 && commentText.MatchString(name) }

// Drop removes the tables, if they exist.
func (v *Driver) Drop() error {
	err := v.nat.DropTables(natTable, unix.NFPROTO_IPV4, unix.NFPROTO_IPV6, unix.NFPROTO_INET)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil // such a kernel has none
	}
	if err != nil {
		return fmt.Errorf("removing nftables tables %q: %w", natTable, err)
	}
	return nil
}
