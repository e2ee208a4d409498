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
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// natTable is the name of the nftables tables for NAT: one for IPv4 (rules.go, sets.go), and one
// for IPv6 with DNAT and nat66.go. They hold all NAT state: comments of rules and elements identify
// their value.
const natTable = "contiv"

// natState is the content of the table except DNAT.
type natState struct {
	family  *natFamily
	enabled bool
	// complete: all chains and sets exist. intact: the rules match the state, too.
	complete bool
	intact   bool
	// entered are the existing chains that all packets enter.
	entered []string
	// undescribed: nft cannot list the elements of device sets, which an older agent made.
	undescribed bool
	forwarding  bool
	interfaces  []natInterface
	pools       []natPool
	classes     map[natClass]bool
	network     natNetwork
}

// natInterface is a device in one of the device sets. global: it is listed in the global value.
type natInterface struct {
	set, device, name string
	global            bool
}

// globalMark starts the comments of the global value's entries.
const globalMark = "global "

func (i natInterface) element() nft.Element {
	comment := i.name
	if i.global {
		comment = globalMark + i.name
	}
	return nft.Element{Set: i.set, Key: nft.DeviceKey(i.device), Comment: comment}
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

// Driver implements NAT in one network namespace.
type Driver struct {
	*own.Host
	nat natDriver
	// forget deletes conntrack entries.
	forget func(conntrack.Stale) error
	// judge deletes conntrack entries that mappings no longer allow.
	judge func(*natFamily, judgedFlows) error
}

// New returns a Driver; there is nothing to close.
func New(host *own.Host) *Driver {
	v := &Driver{Host: host, nat: natDriver{Conn: host.NFT, ahead: map[*natFamily]ahead{}}}
	v.forget = func(stale conntrack.Stale) error { return stale.Forget(host.NS.Handle) }
	v.judge = v.judgeFlows
	return v
}

type natDriver struct {
	*nft.Conn
	// The known DNAT state by IP version.
	dnat, dnat6 dnatState
	// Conntrack entries that are still to delete.
	pending, pending6 leftBehind
	// What was read of it before anybody asked.
	ahead map[*natFamily]ahead
}

func (d *natDriver) readNAT(f *natFamily) (*natState, error) {
	s := &natState{family: f, classes: map[natClass]bool{}}
	table, err := d.Layout(f.proto, natTable)
	if err != nil || table == nil {
		return s, err
	}
	if _, s.enabled = table.Chains[chainPostrouting]; !s.enabled {
		return s, nil
	}
	s.intact = true
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
		set, exists := table.Sets[name]
		if !exists {
			continue
		}
		s.undescribed = s.undescribed || !set.Described
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
	s.readChains(table)
	return s, nil
}

// readRules parses pools and forwarding, and checks that all rules exist.
func (s *natState) readRules(table *nft.Table) {
	for chain, have := range table.Chains {
		for _, mark := range have.Rules {
			comment := commentOf(mark)
			if p, ok := poolFrom(chain, comment); ok && p.chain() == chain {
				s.pools = append(s.pools, p)
			}
			s.network.read(chain, comment)
		}
	}
	s.forwarding = len(table.Chains[chainForward].Rules) == 0
	want := map[string][]string{}
	for _, r := range s.rules() {
		want[r.chain] = append(want[r.chain], r.mark())
	}
	for _, chain := range s.family.chains() {
		s.intact = s.intact && slices.Equal(table.Chains[chain.Name].Rules, want[chain.Name])
	}
}

// readChains checks that the chains exist which the rules need, and no other chain that packets enter.
func (s *natState) readChains(table *nft.Table) {
	rules := s.rules()
	for name, chain := range table.Chains {
		if chain.Hook != nil && chain.Hook.Type == string(nftables.ChainTypeFilter) {
			s.entered = append(s.entered, name)
		}
	}
	for _, want := range s.family.chains() {
		if !needed(want, rules) {
			continue
		}
		have, exists := table.Chains[want.Name]
		intact := exists && (want.Hooknum == nil) == (have.Hook == nil) && (have.Hook == nil || !have.Hook.Drops)
		s.complete, s.intact = s.complete && intact, s.intact && intact
	}
	s.intact = s.intact && len(s.unneeded(rules)) == 0
}

// unneeded returns the chains that all packets enter without need: without rules, or of other versions.
func (s *natState) unneeded(rules []natRule) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(s.entered)), func(name string) bool {
		return slices.ContainsFunc(rules, func(r natRule) bool { return r.chain == name })
	})
}

// write makes the table match the state. It keeps elements, except those in device sets. It creates
// undescribed device sets again.
func (s *natState) write(b *nft.Batch) {
	b.AddTable()
	rules := s.rules()
	for _, chain := range s.family.chains() {
		if needed(chain, rules) {
			b.AddChain(chain)
		}
	}
	for _, name := range s.unneeded(rules) {
		b.FlushChain(name)
		b.DeleteChain(name)
	}
	for _, set := range s.family.sets() {
		b.AddSet(set)
		switch isDevices := slices.Contains(deviceSets, set.Name); {
		case isDevices && s.undescribed:
			b.DeleteSet(set.Name)
			b.AddSet(set)
		case isDevices:
			b.FlushSet(set.Name)
		}
	}
	for _, class := range s.sortedClasses() {
		s.family.addClass(b, class)
	}
	sortInterfaces(s.interfaces)
	var devices []nft.Element
	for _, i := range s.interfaces {
		devices = append(devices, i.element())
	}
	b.AddElements(devices)
	for _, r := range rules {
		r.addTo(b)
	}
}

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

func (d *natDriver) read() (s *natState, err error) {
	d.Lock()
	defer d.Unlock()
	if s, err = d.readNAT(nat4); err != nil {
		err = fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	return s, err
}

var ErrDisabled = errors.New("NAT is not enabled: put a Nat44Global value first")

// mustBeEnabled returns an error if NAT is not enabled. If another party removed the table, it
// marks the state as enabled, which recreates the table. Check reports the lost contents.
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

// setInterface replaces an interface's set memberships of the global value, or of its own value.
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

// fitsComment limits names to fit into comments of 128 characters. nft has no way to escape quotes.
func fitsComment(name string) bool { return len(name) <= 63 && commentText.MatchString(name) }

// Drop removes the tables, if they exist.
func (v *Driver) Drop() error {
	err := v.nat.DropTables(natTable, unix.NFPROTO_IPV4, unix.NFPROTO_IPV6, unix.NFPROTO_INET)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing nftables tables %q: %w", natTable, err)
	}
	return nil
}
