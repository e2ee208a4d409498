package podguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Guards implements vswitch.SourceGuards. It is safe for concurrent use.
type Guards struct {
	host *own.Host
	nft  Nftables

	mu sync.Mutex
	// loaded: the ruleset is in place as far as we know.
	loaded bool
	limits map[uint32]bool // that have a chain
	// known are the elements by device, as far as we know; nil: to be read.
	known map[string]map[element]bool
	// tunnels that are permitted, as far as we know; nil: to be read.
	tunnels map[own.Tunnel]bool
	noTimes sync.Once
}

var _ vswitch.SourceGuards = (*Guards)(nil)

// New returns the guards of a host; there is nothing to close.
func New(host *own.Host) *Guards { return &Guards{host: host, nft: tables{host.NFT}} }

// device is that of an interface that the vswitch makes.
func device(iface string) string { return own.DeviceName(own.DevInterface, iface) }

// Notice: no event of rtnetlink concerns guards.
func (*Guards) Notice(syscall.NetlinkMessage, func(drift.Notice)) {}

// Check reports guards and tunnels if somebody else changed the tables.
func (g *Guards) Check(b *drift.Batch) {
	if !g.host.NFT.Foreign(drift.Suspects[nft.Change](b), "inet "+TableName, "arp "+TableName) {
		return
	}
	keys := own.KeysOfAll[*guard.SourceGuard](g.host.Reg)
	for _, iface := range g.host.Tunnels(own.Tunnel.OfTwo) {
		keys = append(keys, models.Key(iface))
	}
	b.Report(fmt.Sprintf("nftables table %q was changed", TableName), keys...)
}

// element is an element of one of the sourceSets. comment and chain may be empty.
type element struct {
	set        *nftables.Set
	key, chain string
}

// nameLen is how long names of devices are in keys.
const nameLen = 16

func nameKey(dev string) string {
	return dev + strings.Repeat("\x00", max(nameLen-len(dev), 0))
}

// deviceOf is the device that an element is about.
func (e element) deviceOf() string {
	return strings.TrimRight(e.key[:min(len(e.key), nameLen)], "\x00")
}

// paddedMAC fills whole registers.
func paddedMAC(mac net.HardwareAddr) string { return string(mac) + "\x00\x00" }

// deviceBehind is the device that a guard is about.
func deviceBehind(v *guard.SourceGuard) string {
	if name := v.GetHostIfName(); name != "" {
		return name
	}
	return device(v.GetInterface())
}

// elementsOf says a guard in elements.
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
		chain, _, _ := limitChain(n)
		list[element{set: limits, key: name, chain: chain.Name}] = true
	}
	return list, nil
}

// Create makes or changes the guard of an interface in one transaction.
func (g *Guards) Create(_ context.Context, v *guard.SourceGuard) error {
	wanted, err := elementsOf(v)
	if err == nil {
		err = g.change(true, func(c *nftables.Conn) error { return g.set(c, v, wanted) }, func() {
			g.known[deviceBehind(v)] = wanted
			if n := v.GetMaxConnections(); n != 0 {
				g.limits[n] = true
			}
		})
	}
	if err != nil {
		return fmt.Errorf("guarding interface %q: %w", v.GetInterface(), err)
	}
	g.host.Reg.Put(v)
	return nil
}

// change makes a transaction of what fn adds, and calls done if that succeeds. When fn is
// called, it is known what is there; if that turns out to be wrong, it is read anew. build:
// the ruleset must be there.
func (g *Guards) change(build bool, fn func(*nftables.Conn) error, done func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	once := func() error {
		if err := g.ensure(build); err != nil {
			return err
		}
		return g.nft.Do(fn)
	}
	err := once()
	if isMissing(err) {
		g.forget()
		err = once()
	}
	if err != nil {
		g.forget()
		return err
	}
	done()
	return nil
}

func (g *Guards) forget() { g.loaded, g.known, g.tunnels = false, nil, nil }

func (g *Guards) set(c *nftables.Conn, v *guard.SourceGuard, wanted map[element]bool) error {
	if n := v.GetMaxConnections(); n != 0 && !g.limits[n] {
		if err := addLimit(c, n); err != nil {
			return err
		}
	}
	have := g.known[deviceBehind(v)]
	var errs []error
	// An element of a map is not changed by adding it with something else.
	for e := range have {
		if !wanted[e] && e.set == limits {
			errs = append(errs, apply(c.SetDeleteElements, e, ""))
		}
	}
	for e := range wanted {
		if !have[e] {
			errs = append(errs, apply(c.SetAddElements, e, v.GetInterface()))
		}
	}
	for e := range have {
		if !wanted[e] && e.set != limits {
			errs = append(errs, apply(c.SetDeleteElements, e, ""))
		}
	}
	return errors.Join(errs...)
}

// apply adds or deletes one element.
func apply(do func(*nftables.Set, []nftables.SetElement) error, e element, comment string) error {
	item := nftables.SetElement{Key: []byte(e.key), Comment: comment}
	if e.chain != "" {
		item.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: e.chain}
	}
	return do(e.set, []nftables.SetElement{item})
}

// Delete removes the guard, and what was counted.
func (g *Guards) Delete(_ context.Context, v *guard.SourceGuard) error {
	dev := deviceBehind(v)
	if name, ok := strings.CutPrefix(v.GetInterface(), own.UnknownPrefix); ok {
		dev = name
	}
	err := g.host.Reg.During(v, func() error {
		return g.change(false, func(c *nftables.Conn) error {
			errs := []error{g.uncount(c, dev)}
			for e := range g.known[dev] {
				errs = append(errs, apply(c.SetDeleteElements, e, ""))
			}
			return errors.Join(errs...)
		}, func() { delete(g.known, dev) })
	})
	if err != nil {
		return fmt.Errorf("ending the guard of interface %q: %w", v.GetInterface(), err)
	}
	return nil
}

// uncount deletes what has been counted of a device.
func (g *Guards) uncount(c *nftables.Conn, dev string) error {
	sets := slices.Collect(maps.Values(dropped))
	for n := range g.limits {
		_, set, _ := limitChain(n)
		sets = append(sets, set)
	}
	key := []byte(nameKey(dev))
	for _, set := range sets {
		list, err := elements(c, set)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(e nftables.SetElement) bool { return bytes.Equal(e.Key, key) }) {
			if err := c.SetDeleteElements(set, []nftables.SetElement{{Key: key}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure learns what is there; build: it makes the ruleset unless that is in order.
func (g *Guards) ensure(build bool) error {
	if build && !g.loaded {
		var s state
		err := g.nft.Do(func(c *nftables.Conn) (err error) {
			s, err = read(c)
			return err
		})
		if err != nil {
			return fmt.Errorf("reading nftables table %q: %w", TableName, err)
		}
		if !s.intact || !s.timeouts {
			if err := g.load(s.limits); err != nil {
				return fmt.Errorf("making nftables table %q: %w", TableName, err)
			}
		}
		g.loaded = true
	}
	if g.known != nil && g.tunnels != nil {
		return nil
	}
	err := g.nft.Do(func(c *nftables.Conn) error {
		_, _, err := g.read(c)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading nftables table %q: %w", TableName, err)
	}
	return nil
}

// load makes the ruleset; without time-outs where the kernel has none.
func (g *Guards) load(limits []uint32) error {
	err := g.nft.Do(func(c *nftables.Conn) error { return load(c, true, limits...) })
	if err == nil || !lacksTimeouts(err) {
		return err
	}
	g.noTimes.Do(func() {
		g.host.Log.Warn("This kernel has no time-outs for some connections only (CONFIG_NF_CONNTRACK_TIMEOUT): what pods open is "+
			"remembered for as long as the sysctls net.netfilter.nf_conntrack_tcp_timeout_* say", "error", err)
	})
	return g.nft.Do(func(c *nftables.Conn) error { return load(c, false, limits...) })
}

// read learns everything from the kernel.
func (g *Guards) read(c *nftables.Conn) (s state, names map[string]string, err error) {
	if s, err = read(c); err != nil {
		return s, nil, err
	}
	g.loaded = g.loaded && s.intact
	g.limits = map[uint32]bool{}
	for _, n := range s.limits {
		g.limits[n] = true
	}
	if g.known, names, err = readElements(c); err != nil {
		return s, nil, err
	}
	g.tunnels, err = readTunnels(c)
	return s, names, err
}

// readElements returns the elements by device, and the names of interfaces.
func readElements(c *nftables.Conn) (found map[string]map[element]bool, names map[string]string, err error) {
	found, names = map[string]map[element]bool{}, map[string]string{}
	for _, set := range sourceSets {
		list, err := elements(c, set)
		if err != nil {
			return nil, nil, fmt.Errorf("reading set %q: %w", set.Name, err)
		}
		for _, item := range list {
			e := element{set: set, key: string(item.Key)}
			if set.IsMap {
				e.chain = chainIn(item.Val)
			}
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
	return found, names, nil
}

// chainIn is the chain in a verdict as the kernel writes it.
func chainIn(verdict []byte) string {
	attrs, err := netlink.NewAttributeDecoder(verdict)
	if err != nil {
		return ""
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_VERDICT_CHAIN {
			return attrs.String()
		}
	}
	return ""
}

// List returns what the elements say. What is incomplete lacks its MAC address; in a
// ruleset that is not in order nothing that is wanted is there.
func (g *Guards) List(_ context.Context, expected []*guard.SourceGuard) ([]*guard.SourceGuard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var s state
	var names map[string]string
	err := g.nft.Do(func(c *nftables.Conn) (err error) {
		s, names, err = g.read(c)
		return err
	})
	if err != nil {
		g.forget()
		return nil, fmt.Errorf("reading nftables table %q: %w", TableName, err)
	}
	wanted := map[string]bool{}
	for _, v := range expected {
		wanted[deviceBehind(v)] = true
	}
	var list []*guard.SourceGuard
	for dev, elements := range g.known {
		if s.intact || !wanted[dev] {
			list = append(list, describe(dev, names[dev], elements))
		}
	}
	slices.SortFunc(list, func(a, b *guard.SourceGuard) int { return strings.Compare(a.GetInterface(), b.GetInterface()) })
	own.Settle(g.host.Reg, expected, list)
	return list, nil
}

// describe says elements in a guard; without a MAC address if no guard has exactly
// these elements.
func describe(dev, name string, found map[element]bool) *guard.SourceGuard {
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
			v.MaxConnections, _ = limitOf(e.chain)
		}
	}
	for e := range found {
		if e.set == own4 || e.set == own6 {
			if addr, ok := netip.AddrFromSlice([]byte(e.key[min(len(e.key), nameLen+8):])); ok && addr != linkLocal {
				v.IpAddresses = append(v.IpAddresses, addr.String())
			}
		}
	}
	slices.Sort(v.IpAddresses)
	if complete, err := elementsOf(v); err != nil || !maps.Equal(complete, found) {
		v.MacAddress = ""
	}
	return v
}

// Drops implements vswitch.SourceGuards.
func (g *Guards) Drops(context.Context) ([]vswitch.Drop, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var drops []vswitch.Drop
	err := g.nft.Do(func(c *nftables.Conn) error {
		list, err := elements(c, guarded)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, e := range list {
			names[string(e.Key)] = e.Comment
		}
		for reason, set := range dropped {
			counts, err := elements(c, set)
			if err != nil {
				return err
			}
			for _, e := range counts {
				d := vswitch.Drop{Interface: names[string(e.Key)], Reason: reason}
				if d.Interface == "" {
					d.Interface = element{key: string(e.Key)}.deviceOf()
				}
				if e.Counter != nil {
					d.Packets = e.Counter.Packets
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
	return g.nft.Do(func(c *nftables.Conn) error {
		for _, table := range []*nftables.Table{inet, arp} {
			list, err := c.ListTablesOfFamily(table.Family)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(list, func(t *nftables.Table) bool { return t.Name == TableName }) {
				c.DelTable(table)
			}
		}
		return nil
	})
}
