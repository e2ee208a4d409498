package podguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/models"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Guards implements vswitch.SourceGuards. It is safe for concurrent use.
type Guards struct {
	host *own.Host
	nft  *nft.Conn

	mu     sync.Mutex
	loaded bool
	limits map[string]bool
	// known holds the known elements by device; nil: unread.
	known map[string]map[element]bool
	// tunnels holds the known permitted tunnels; nil: unread.
	tunnels    map[own.Tunnel]bool
	timeouts   Timeouts
	noTimeouts bool
	// left holds addresses without a guard that may still have connections.
	left map[netip.Addr]bool
	// more is signalled when left grows; ending is held while connections are deleted.
	more   chan struct{}
	ending sync.Mutex
	// networks of pods, in which FollowNeighbours compares neighbours, and the next hops there. moved is
	// signalled when neighbours or routes change.
	networks []netip.Prefix
	vias     map[neighbourID]bool
	moved    chan struct{}
}

var _ vswitch.SourceGuards = (*Guards)(nil)

// New returns the guards of a host. The caller runs EndConnections. Guards need no closing.
func New(host *own.Host, timeouts Timeouts) *Guards {
	return &Guards{timeouts: timeouts.orDefault(), host: host, nft: host.NFT, left: map[netip.Addr]bool{}, more: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
}

func device(iface string) string { return own.DeviceName(own.DevInterface, iface) }

// Check reports guards and tunnels if another party changed the tables.
func (g *Guards) Check(b *drift.Batch) {
	by, foreign := g.host.NFT.Foreign(drift.Suspects[nft.Change](b), "inet "+TableName, "arp "+TableName)
	if !foreign {
		return
	}
	keys := own.KeysOfAll[*guard.SourceGuard](g.host.Reg)
	for _, iface := range g.host.Tunnels(own.Tunnel.OfTwo) {
		keys = append(keys, models.Key(iface))
	}
	b.Report(fmt.Sprintf("nftables table %q was changed%s", TableName, by), keys...)
}

type element struct {
	set        *nftables.Set
	key, chain string
}

const nameLen = 16

func nameKey(dev string) string {
	return dev + strings.Repeat("\x00", max(nameLen-len(dev), 0))
}

func (e element) deviceOf() string {
	return strings.TrimRight(e.key[:min(len(e.key), nameLen)], "\x00")
}

func (e element) address() (addr netip.Addr, ok bool) {
	if e.set != own4 && e.set != own6 {
		return addr, false
	}
	return netip.AddrFromSlice([]byte(e.key[min(len(e.key), nameLen+8):]))
}

func addressesIn(elements map[element]bool) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for e := range elements {
			if addr, ok := e.address(); ok && !yield(addr) {
				return
			}
		}
	}
}

// paddedMAC fills whole registers.
func paddedMAC(mac net.HardwareAddr) string { return string(mac) + "\x00\x00" }

func deviceBehind(v *guard.SourceGuard) string {
	if name := v.GetHostIfName(); name != "" {
		return name
	}
	return device(v.GetInterface())
}

func elementsOf(v *guard.SourceGuard) (map[element]bool, error) {
	dev := deviceBehind(v)
	mac, err := net.ParseMAC(v.GetMacAddress())
	if err != nil {
		return nil, err
	}
	if len(dev) >= nameLen {
		return nil, vswitch.Unsupported("host_if_name %q: names of devices have at most %d characters", dev, nameLen-1)
	}
	name := nameKey(dev)
	sender := name + paddedMAC(mac)
	list := map[element]bool{{set: guarded, key: name}: true, {set: arpGuard, key: name}: true, {set: macs, key: sender}: true}
	for _, addr := range vswitch.GuardedAddresses(v) {
		key := sender + string(addr.AsSlice())
		if addr.Is6() {
			list[element{set: own6, key: key}] = true
			continue
		}
		list[element{set: own4, key: key}] = true
		list[element{set: arpOwn, key: key}] = true
	}
	if n := v.GetMaxConnections(); n != 0 {
		list[element{set: limits, key: name, chain: limitName(n, v.GetCountedWith())}] = true
	}
	return list, nil
}

// Create creates or changes the guard of an interface in one transaction.
func (g *Guards) Create(_ context.Context, v *guard.SourceGuard) error {
	wanted, err := elementsOf(v)
	if err == nil {
		err = g.awaitEnd(wanted)
	}
	if err == nil {
		err = g.change(true, func(t transaction) error {
			g.set(t, v, wanted)
			return nil
		}, func() {
			before := g.known[deviceBehind(v)]
			g.known[deviceBehind(v)] = wanted
			g.leave(addressesIn(before))
			g.noteLimits(before)
		})
	}
	if err != nil {
		return fmt.Errorf("guarding interface %q: %w", v.GetInterface(), err)
	}
	g.host.Reg.Put(v)
	return nil
}

// change commits the changes that fn adds as one transaction, and calls done after success. fn sees
// the content of the tables; if it is outdated, the tables are read and fn is called again. If
// build is set, the ruleset is created as needed.
func (g *Guards) change(build bool, fn func(transaction) error, done func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	once := func() error {
		if err := g.ensure(build); err != nil {
			return err
		}
		t := newTransaction()
		if err := fn(t); err != nil {
			return err
		}
		return g.commit(t)
	}
	err := g.nft.Locked(func() error {
		err := once()
		if errors.Is(err, unix.ENOENT) {
			g.forget()
			err = once()
		}
		return err
	})
	if err != nil {
		g.forget()
		return err
	}
	done()
	return nil
}

func (g *Guards) forget() { g.loaded, g.known, g.tunnels = false, nil, nil }

func (g *Guards) set(t transaction, v *guard.SourceGuard, wanted map[element]bool) {
	have := g.known[deviceBehind(v)]
	for e := range wanted {
		if e.set == limits && !g.limits[e.chain] {
			t.addLimit(e.chain)
		}
	}
	// Adding an element does not change the verdict of an existing one.
	for e := range have {
		if !wanted[e] && e.set == limits {
			t.remove(e)
		}
	}
	for e := range wanted {
		if !have[e] {
			t.add(e, v.GetInterface())
		}
	}
	for e := range have {
		if !wanted[e] && e.set != limits {
			t.remove(e)
		}
	}
	g.removeLimits(t, deviceBehind(v), wanted)
}

// removeLimits removes the shared chain of a device's limit if the device was its last user and
// does not want it.
func (g *Guards) removeLimits(t transaction, dev string, wanted map[element]bool) {
	for e := range g.known[dev] {
		if e.set == limits && g.limits[e.chain] && !wanted[e] && !g.leads(e.chain, dev) {
			t.inet.DeleteChain(e.chain)
		}
	}
}

// leads reports whether the limit of another device uses a chain. Chains without a group stay.
func (g *Guards) leads(chain, dev string) bool {
	if _, together, _ := limitOf(chain); !together {
		return true
	}
	for other, elements := range g.known {
		for e := range elements {
			if other != dev && e.chain == chain {
				return true
			}
		}
	}
	return false
}

// noteLimits records the chains after a change of a device's elements.
func (g *Guards) noteLimits(before map[element]bool) {
	for e := range before {
		if e.set == limits && !g.leads(e.chain, "") {
			delete(g.limits, e.chain)
		}
	}
	for _, elements := range g.known {
		for e := range elements {
			if e.set == limits {
				g.limits[e.chain] = true
			}
		}
	}
}

// Delete removes the guard and its counters.
func (g *Guards) Delete(_ context.Context, v *guard.SourceGuard) error {
	dev := deviceBehind(v)
	if name, ok := strings.CutPrefix(v.GetInterface(), own.UnknownPrefix); ok {
		dev = name
	}
	err := g.host.Reg.During(v, func() error {
		return g.change(false, func(t transaction) error {
			if err := g.uncount(t, dev); err != nil {
				return err
			}
			for e := range g.known[dev] {
				t.remove(e)
			}
			g.removeLimits(t, dev, nil)
			return nil
		}, func() {
			before := g.known[dev]
			delete(g.known, dev)
			g.noteLimits(before)
			g.leave(slices.Values(vswitch.GuardedAddresses(v)))
		})
	})
	if err != nil {
		return fmt.Errorf("ending the guard of interface %q: %w", v.GetInterface(), err)
	}
	return nil
}

// leave records addresses that have lost their last guard. The caller holds the lock.
func (g *Guards) leave(addrs iter.Seq[netip.Addr]) {
	held := map[netip.Addr]bool{}
	for _, elements := range g.known {
		for addr := range addressesIn(elements) {
			held[addr] = true
		}
	}
	for addr := range addrs {
		if !held[addr] && !addr.IsLinkLocalUnicast() {
			g.left[addr] = true
		}
	}
	select {
	case g.more <- struct{}{}:
	default:
	}
}

// EndConnections deletes the connections of addresses without a guard until closing is closed.
// Otherwise the next owner of an address would take over its connections, regardless of policies.
// The former owner cannot open new ones, because its guard or device is gone. Only the next owner
// waits for it, because the kernel may have to list all connections.
func (g *Guards) EndConnections(closing <-chan struct{}) {
	for closed := false; !closed; {
		select {
		case <-closing:
			closed = true
		case <-g.more:
		}
		if err := g.endConnections(); err != nil {
			g.host.Log.Warn("Deleting connections of removed pods failed; a new pod with the same address retries", "error", err)
		}
	}
}

func (g *Guards) endConnections() error {
	g.ending.Lock()
	defer g.ending.Unlock()
	g.mu.Lock()
	left := conntrack.Hosts(slices.Collect(maps.Keys(g.left)))
	g.mu.Unlock()
	if err := left.Forget(g.host.NS.Handle); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, addr := range left {
		delete(g.left, addr)
	}
	return nil
}

// awaitEnd returns when the addresses of a new guard have no former connections.
func (g *Guards) awaitEnd(wanted map[element]bool) error {
	g.mu.Lock()
	left := false
	for addr := range addressesIn(wanted) {
		left = left || g.left[addr]
	}
	g.mu.Unlock()
	if !left {
		return nil
	}
	return g.endConnections()
}

func (g *Guards) uncount(t transaction, dev string) error {
	sets := slices.Collect(maps.Values(dropped))
	for name := range g.limits {
		_, counting, _ := limitChain(name)
		sets = append(sets, counting...)
	}
	for _, set := range sets {
		e := element{set: set, key: nameKey(dev)}
		counted, err := g.nft.Has(byte(set.Table.Family), TableName, e.item())
		if err != nil {
			return err
		}
		if counted {
			t.remove(e)
		}
	}
	return nil
}

// ensure reads the tables unless they are known. If build is set, it also creates or repairs the
// ruleset.
func (g *Guards) ensure(build bool) error {
	if (!build || g.loaded) && g.known != nil && g.tunnels != nil {
		return nil
	}
	s, _, err := g.read()
	if err != nil {
		return fmt.Errorf("reading nftables table %q: %w", TableName, err)
	}
	if build && (!s.intact || !s.timeouts && !g.noTimeouts) {
		if err := g.load(s); err != nil {
			return fmt.Errorf("making nftables table %q: %w", TableName, err)
		}
	}
	g.loaded = build || s.intact
	return nil
}

// load creates the ruleset, without timeouts if the kernel does not support them.
func (g *Guards) load(had state) error {
	t := newTransaction()
	t.load(g.timeouts, had)
	err := g.commit(t)
	if err == nil || !lacksTimeouts(err) {
		return err
	}
	if !g.noTimeouts {
		g.host.Log.Warn("Kernel without CONFIG_NF_CONNTRACK_TIMEOUT: connections of pods are "+
			"tracked for the time of the sysctls net.netfilter.nf_conntrack_tcp_timeout_*", "error", err)
	}
	t = newTransaction()
	t.load(Timeouts{}, had)
	if err := g.commit(t); err != nil {
		return err
	}
	g.noTimeouts = true
	return nil
}

func (g *Guards) read() (s state, names map[string]string, err error) {
	found := map[*nftables.Table]*nft.Table{}
	for _, table := range []*nftables.Table{inet, arp} {
		t, _, err := g.nft.ReadTable(byte(table.Family), TableName)
		if err != nil {
			return s, nil, err
		}
		if t == nil {
			t = &nft.Table{}
		}
		found[table] = t
	}
	s = stateOf(found, g.timeouts)
	g.loaded = g.loaded && s.intact
	g.limits = map[string]bool{}
	for _, name := range s.limits {
		g.limits[name] = true
	}
	g.known, names = elementsIn(found)
	g.tunnels = tunnelsIn(found[inet])
	return s, names, nil
}

func elementsIn(tables map[*nftables.Table]*nft.Table) (found map[string]map[element]bool, names map[string]string) {
	found, names = map[string]map[element]bool{}, map[string]string{}
	for _, set := range sourceSets {
		for _, item := range tables[set.Table].Sets[set.Name].Elements {
			e := element{set: set, key: item.Key, chain: strings.TrimPrefix(item.Verdict, "jump ")}
			dev := e.deviceOf()
			if found[dev] == nil {
				found[dev] = map[element]bool{}
			}
			found[dev][e] = true
			if item.Comment != "" {
				names[dev] = item.Comment
			}
		}
	}
	return found, names
}

// List returns the guards of the elements. An incomplete guard lacks its MAC address, and so does
// an expected one with an existing device if the ruleset is damaged or all its elements are gone.
// So it is repaired in place. If it were missing, its dependent, the pod's interface, would be
// recreated.
func (g *Guards) List(_ context.Context, expected []*guard.SourceGuard) ([]*guard.SourceGuard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var s state
	var names map[string]string
	err := g.nft.Locked(func() (err error) {
		s, names, err = g.read()
		return err
	})
	if err != nil {
		g.forget()
		return nil, fmt.Errorf("reading nftables table %q: %w", TableName, err)
	}
	wanted, counting := map[string]bool{}, map[string]string{}
	var list []*guard.SourceGuard
	for _, v := range expected {
		dev := deviceBehind(v)
		wanted[dev] = true
		counting[limitName(v.GetMaxConnections(), v.GetCountedWith())] = v.GetCountedWith()
		if s.intact && g.known[dev] != nil {
			continue
		}
		if _, err := g.host.Net.LinkIndex(dev); err == nil {
			damaged := proto.CloneOf(v)
			damaged.MacAddress = ""
			list = append(list, damaged)
		}
	}
	for dev, elements := range g.known {
		if s.intact || !wanted[dev] {
			list = append(list, describe(dev, names[dev], elements, counting))
		}
	}
	slices.SortFunc(list, func(a, b *guard.SourceGuard) int { return strings.Compare(a.GetInterface(), b.GetInterface()) })
	own.Settle(g.host.Reg, expected, list)
	return list, nil
}

// describe converts elements to a guard, without a MAC address if no guard has exactly these
// elements. counting maps chains to the names of shared limits.
func describe(dev, name string, found map[element]bool, counting map[string]string) *guard.SourceGuard {
	if name == "" {
		name = own.UnknownPrefix + dev
	}
	v := &guard.SourceGuard{Interface: name}
	if device(name) != dev {
		v.HostIfName = dev
	}
	linkLocal := netip.Addr{}
	for e := range found {
		switch {
		case e.set == macs && len(e.key) >= nameLen+6:
			mac := net.HardwareAddr(e.key[nameLen : nameLen+6])
			v.MacAddress, linkLocal = mac.String(), vswitch.LinkLocal([6]byte(mac))
		case e.set == limits:
			v.MaxConnections, _, _ = limitOf(e.chain)
			v.CountedWith = counting[e.chain]
		}
	}
	for addr := range addressesIn(found) {
		if addr != linkLocal {
			v.IpAddresses = append(v.IpAddresses, addr.String())
		}
	}
	slices.Sort(v.IpAddresses)
	if complete, err := elementsOf(v); err != nil || !maps.Equal(complete, found) {
		v.MacAddress = ""
	}
	return v
}

// ownProcesses is the interface name for packets from processes of the node.
const ownProcesses = "(node)"

// Drops implements vswitch.SourceGuards.
func (g *Guards) Drops(context.Context) ([]vswitch.Drop, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var drops []vswitch.Drop
	err := g.nft.Locked(func() error {
		list, err := g.nft.Elements(byte(guarded.Table.Family), TableName, guarded.Name)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, e := range list {
			names[e.Key] = e.Comment
		}
		for reason, set := range dropped {
			counts, err := g.nft.Packets(byte(set.Table.Family), TableName, set.Name)
			if err != nil {
				return err
			}
			for key, packets := range counts {
				d := vswitch.Drop{Interface: names[key], Reason: reason, Packets: packets}
				if d.Interface == "" {
					d.Interface = cmp.Or(element{key: key}.deviceOf(), ownProcesses)
				}
				drops = append(drops, d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the counters of nftables table %q: %w", TableName, err)
	}
	slices.SortFunc(drops, func(a, b vswitch.Drop) int {
		return strings.Compare(a.Interface+" "+string(a.Reason), b.Interface+" "+string(b.Reason))
	})
	return drops, nil
}

// Uninstall removes the tables.
func (g *Guards) Uninstall() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	return g.nft.Locked(func() error {
		t := newTransaction()
		for _, table := range []*nftables.Table{inet, arp} {
			found, _, err := g.nft.ReadTable(byte(table.Family), TableName)
			if err != nil {
				return err
			}
			if found != nil {
				t.of(table).DeleteTable()
			}
		}
		return g.commit(t)
	})
}
