package stn

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/netlink/shield"
	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/nic"
	"github.com/contiv/contiv/internal/stn/pci"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Limits define when the vswitch is considered not to forward.
type Limits struct {
	// Absent is how long there may be no reporter.
	Absent time.Duration
	// Silent is how long a connected reporter may be silent.
	Silent time.Duration
	// Down is how long the interconnect may be down.
	Down time.Duration
	// Start is how long the vswitch may take to start with a PCI device.
	Start time.Duration
}

// DefaultLimits returns a card to the host within 5 seconds of any failure.
var DefaultLimits = Limits{Absent: 4 * time.Second, Silent: 4 * time.Second, Down: time.Second, Start: 30 * time.Second}

// Options of a Keeper.
type Options struct {
	Journal journal.File
	// NetNS is the network namespace of the cards and of the interconnect.
	NetNS netns.NsHandle
	// Interconnect is the host's device that connects it to the vswitch.
	Interconnect string
	Bus          pci.Bus
	// PCIDriver is the driver that VPP uses.
	PCIDriver string
	// KeepDriver lists the PCI devices that keep their driver, and are shared with VPP; "*": all.
	KeepDriver []string
	// ResolvConf is the path of the host's resolv.conf.
	ResolvConf string
	Limits     Limits
	// Boot is the result of BootID.
	Boot string
	Log  *slog.Logger
	// BeforeStep, if not nil, is called before each change to the file or the kernel. Tests end the
	// program there.
	BeforeStep func(what string)
}

// Keeper manages the cards. Its methods are safe for concurrent use.
type Keeper struct {
	Options
	kernel nic.Kernel

	mu      sync.Mutex
	journal *journal.Journal
	cards   map[string]*card
	// busOf returns the driver and the bus address of a device. Tests replace it.
	busOf func(name string) (driver, bus string, err error)
	// downSince is when the interconnect went down; zero if it is up.
	downSince time.Time
	closed    bool
}

// card is the state of a claimed card that is not in the journal.
type card struct {
	*journal.Entry
	// reporter is the stream that reports on the card; nil if none.
	reporter *Reporter
	// absentSince is when the last reporter left; heard is the time of the last report.
	absentSince, heard time.Time
	ready              bool
	why                string // not ready
	// waiting is set if the last report was Wait.
	waiting bool
	served  served
	// starting is set while the vswitch has not been ready since a PCI device was taken.
	starting bool
	// giving is the reason for returning the card, until that succeeds; "" otherwise.
	giving   string
	attempts int
	timer    *time.Timer
	problem  string // last logged
	// program is VPP's XDP program while it is detached from the card.
	program nic.Program
	// coveredSince is when VPP's XDP program was first seen on a card held by the host; zero if it
	// is not there.
	coveredSince time.Time
}

// New opens the journal. Cards taken by an earlier daemon stay with the vswitch within Limits, so
// that a restart does not interrupt it. Cards held before the last boot are returned.
func New(o Options) (*Keeper, error) {
	conn, err := rtnl.New(o.NetNS)
	if err != nil {
		return nil, err
	}
	k := &Keeper{Options: o, kernel: nic.Kernel{Conn: conn, NetNS: o.NetNS, BeforeStep: o.BeforeStep}, cards: map[string]*card{}}
	k.busOf = k.kernel.Driver
	if k.journal, err = o.Journal.Load(); err != nil {
		conn.Close()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.journal.Boot != o.Boot {
		if err := k.afterReboot(); err != nil {
			conn.Close()
			return nil, err
		}
	}
	for _, e := range k.journal.NICs {
		k.Log.Info("Network card claimed for VPP", "interface", e.Name, "holder", e.Holder, "because", e.Reason)
		k.track(e)
	}
	k.seeInterconnect()
	return k, nil
}

// track adds the card of an entry and checks it.
func (k *Keeper) track(e *journal.Entry) *card {
	c := &card{Entry: e, absentSince: time.Now(), starting: e.PCI != "" && e.Holder == journal.VSwitch}
	c.timer = time.AfterFunc(0, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.decide(c)
	})
	k.cards[e.Name] = c
	return c
}

// Close returns all cards to the host, keeps their claims, and ends the Keeper.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	for _, c := range k.cards {
		c.timer.Stop()
		if c.Holder == journal.VSwitch {
			err = errors.Join(err, k.give(c, "contiv-stn ends"))
		}
		c.forgetProgram()
	}
	k.closed = true
	k.kernel.Close()
	return err
}

// before must be called before each change.
func (k *Keeper) before(what string) {
	if k.BeforeStep != nil {
		k.BeforeStep(what)
	}
}

func (k *Keeper) save() error {
	k.before("journal")
	k.journal.Boot = k.Boot
	return k.Journal.Save(k.journal)
}

// afterReboot restores the configuration that was lost with the reboot. It leaves a card alone that
// already has addresses, because the host may be on another network now.
func (k *Keeper) afterReboot() error {
	for _, e := range k.journal.NICs {
		if e.Holder != journal.VSwitch {
			continue
		}
		if now, err := k.kernel.Read(e.Name); err == nil && len(now.Prefixes()) == 0 && !e.DHCP {
			k.Log.Warn("Network card unconfigured after a reboot: restoring its configuration", "interface", e.Name, "addresses", nic.Describe(e.State.Addresses))
			if err := k.kernel.Set(e.State); err != nil {
				k.Log.Error("Restoring the configuration of the network card failed", "interface", e.Name, "error", err)
			}
		}
	}
	k.journal.NICs = nil
	return k.save()
}

// Steal claims a card and returns its configuration. It takes a PCI device for VPP at once.
func (k *Keeper) Steal(name string, dhcp bool) (*journal.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("contiv-stn is stopping")
	}
	c := k.cards[name]
	if c == nil {
		e, err := k.claim(name, dhcp)
		if err != nil {
			return nil, err
		}
		c = k.track(e)
		k.Log.Info("Network card claimed for VPP", "interface", name, "pci", e.PCI, "addresses", nic.Describe(e.State.Addresses), "routes", nic.Describe(e.State.Routes))
	}
	if c.PCI != "" && c.Holder == journal.Host {
		if err := k.takePCI(c); err != nil {
			return nil, errors.Join(err, k.give(c, "claiming it failed"))
		}
	}
	if c.PCI != "" { // the caller starts VPP next
		c.starting, c.ready, c.Since = true, false, time.Now()
		k.decide(c)
	}
	k.refresh(c)
	return copyOf(c.Entry), nil
}

// claim creates the entry of a card.
func (k *Keeper) claim(name string, dhcp bool) (*journal.Entry, error) {
	if name == "" {
		return nil, errors.New("missing interface: set the network card to steal")
	}
	link, err := k.kernel.Device(name)
	if err != nil {
		return nil, err
	}
	if link.Attrs().Flags&net.FlagLoopback != 0 || name == k.Interconnect {
		return nil, fmt.Errorf("interface %s is not a network card: use the one that connects other nodes", name)
	}
	state, err := k.kernel.Read(name)
	if err != nil {
		return nil, err
	}
	e := &journal.Entry{Name: name, DHCP: dhcp || state.Temporary(), Holder: journal.Host, Reason: "the vswitch does not forward yet", Since: time.Now(),
		State: state, ResolvConf: k.resolvConf()}
	if e.XDP, err = k.kernel.XDP(name); err != nil {
		return nil, err
	}
	if !slices.Contains(k.KeepDriver, name) && !slices.Contains(k.KeepDriver, "*") {
		if e.PCI, e.PCIDriver, err = k.pciDevice(name); err != nil {
			return nil, err
		}
	}
	k.journal.NICs = append(k.journal.NICs, e)
	if err := k.save(); err != nil {
		k.journal.NICs = k.journal.NICs[:len(k.journal.NICs)-1]
		return nil, err
	}
	return e, nil
}

// Release returns a card for good, or all cards for "". A card that is not claimed is no error.
func (k *Keeper) Release(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	for _, c := range k.cards {
		if name == "" || c.Name == name {
			err = errors.Join(err, k.release(c))
		}
	}
	return err
}

func (k *Keeper) release(c *card) error {
	c.setReporter(nil)
	if c.Holder == journal.VSwitch {
		if err := k.give(c, "it is released"); err != nil {
			return err
		}
	}
	k.journal.NICs = slices.DeleteFunc(k.journal.NICs, func(e *journal.Entry) bool { return e == c.Entry })
	if err := k.save(); err != nil {
		k.journal.NICs = append(k.journal.NICs, c.Entry)
		return err
	}
	c.timer.Stop()
	c.forgetProgram()
	delete(k.cards, c.Name)
	k.Log.Info("Network card released to the host permanently", "interface", c.Name)
	return nil
}

// Claimed returns the entry of a card, or of the first one for ""; nil if there is none.
func (k *Keeper) Claimed(name string) *journal.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.journal.NICs {
		if name == "" || e.Name == name {
			k.refresh(k.cards[e.Name])
			return copyOf(e)
		}
	}
	return nil
}

// copyOf copies an entry. It shares the states, which are never changed, only replaced.
func copyOf(e *journal.Entry) *journal.Entry {
	c := *e
	return &c
}

// refresh records changes that the host made to the card while the host holds it.
func (k *Keeper) refresh(c *card) {
	if c.PCI != "" || c.Holder != journal.Host || c.giving != "" {
		return
	}
	now, err := k.kernel.Read(c.Name)
	if err == nil && !now.Same(c.State) {
		before := c.State
		c.State = now
		if err = k.save(); err != nil {
			c.State = before
		}
	}
	if err != nil {
		k.complain(c, "Changes by the host are not recorded: "+err.Error())
	}
}

// decide determines the holder of a card and makes the change.
func (k *Keeper) decide(c *card) {
	if k.closed || k.cards[c.Name] != c {
		return
	}
	if c.Holder == journal.VSwitch && c.Detached && c.giving == "" {
		k.give(c, "an earlier contiv-stn was returning it")
		return
	}
	if c.giving != "" || c.Holder == journal.VSwitch {
		why, at := k.trouble(c)
		switch wait := time.Until(at); {
		case why == "" && c.giving != "" && c.PCI == "": // it forwards again before the card was returned
			k.take(c)
		case why == "" && c.giving == "":
			c.timer.Reset(time.Until(c.heard.Add(k.Limits.Silent)) + time.Millisecond)
		case wait > 0 && c.giving == "":
			c.timer.Reset(wait)
		default:
			k.give(c, cmp.Or(c.giving, why))
		}
		return
	}
	if why, _ := k.trouble(c); why != "" || c.PCI != "" {
		k.uncover(c, why)
		return
	}
	if err := k.lostProgram(c); err != nil {
		if c.Reason != err.Error() {
			c.Reason = err.Error()
			k.complain(c, "Claiming the network card failed: "+c.Reason)
			c.notify()
		}
		return
	}
	k.take(c)
}

// notKnown is the trouble of an agent that has just started.
const notKnown = "the agent has not checked yet whether the vswitch forwards"

// trouble returns why the vswitch does not forward, "" if it does, and when the card must be
// returned.
func (k *Keeper) trouble(c *card) (why string, at time.Time) {
	now := time.Now()
	if c.starting && !(c.reporter != nil && c.ready) {
		return "the vswitch did not start in time", c.Since.Add(k.Limits.Start)
	}
	worse := func(reason string, when time.Time) {
		if why == "" || when.Before(at) {
			why, at = reason, when
		}
	}
	switch {
	case c.reporter == nil:
		worse("the agent stopped", c.absentSince.Add(k.Limits.Absent))
	case c.heard.IsZero(): // not reported yet
		worse(notKnown, c.absentSince.Add(k.Limits.Absent))
	case now.Sub(c.heard) >= k.Limits.Silent:
		worse("the agent does not respond", now)
	case c.waiting && c.Holder == journal.VSwitch && c.giving == "": // keeps the card
	case !c.ready:
		worse(c.why, now)
	}
	if !k.downSince.IsZero() {
		worse("the interconnect "+k.Interconnect+" is down", k.downSince.Add(k.Limits.Down))
	}
	return why, at
}

// take gives a card that keeps its driver to the vswitch.
func (k *Keeper) take(c *card) {
	if err := k.tryTake(c); err != nil {
		k.complain(c, fmt.Sprintf("Claiming the network card failed: %v", err))
		k.give(c, "claiming it failed: "+err.Error())
		return
	}
	c.giving, c.attempts, c.problem, c.starting = "", 0, "", false
	k.Log.Info("Network card handed to VPP", "interface", c.Name)
	c.notify()
	k.decide(c)
}

func (k *Keeper) tryTake(c *card) error {
	if c.PCI != "" {
		return nil
	}
	if err := k.note(c, journal.VSwitch, "the vswitch forwards"); err != nil {
		return err
	}
	k.before("shield")
	if err := shield.On(k.NetNS, c.Name, shield.Passed{Configuration: true, IPv4: !c.served.ipv4, IPv6: !c.served.ipv6}); err != nil {
		return fmt.Errorf("shielding the host's stack: %w", err)
	}
	if err := k.attach(c); err != nil {
		return err
	}
	c.coveredSince = time.Time{}
	return k.kernel.RemoveRoutes(c.served.main(c.State.Routes))
}

// served returns the IP versions that the vswitch serves.
type served struct{ ipv4, ipv6 bool }

// main returns the routes that compete with the interconnect's.
func (s served) main(routes []nic.Object) (list []nic.Object) {
	for _, o := range routes {
		if nic.InMain(o) && (nic.IsIPv6(o) && s.ipv6 || !nic.IsIPv6(o) && s.ipv4) {
			list = append(list, o)
		}
	}
	return list
}

// note records a card's new holder and configuration in the journal.
func (k *Keeper) note(c *card, holder journal.Holder, reason string) error {
	if c.Holder == journal.Host {
		if now, err := k.kernel.Read(c.Name); err != nil {
			return err
		} else if !now.Same(c.State) || now.Read.Sub(c.State.Read) > time.Minute {
			c.State = now
		}
		c.ResolvConf = cmp.Or(k.resolvConf(), c.ResolvConf)
	}
	c.Holder, c.Reason, c.Since = holder, reason, time.Now()
	return k.save()
}

// give returns a card to the host. It retries failures until they succeed or the vswitch forwards
// again.
func (k *Keeper) give(c *card, why string) error {
	if c.giving == "" {
		k.Log.Warn("Returning the network card to the host", "interface", c.Name, "because", why)
	}
	c.giving = why
	if err := k.tryGive(c); err != nil {
		k.complain(c, fmt.Sprintf("Returning the network card failed partially: %v", err))
		c.attempts++
		c.timer.Reset(min(50*time.Millisecond<<min(c.attempts, 7), 5*time.Second))
		return fmt.Errorf("interface %s: %w", c.Name, err)
	}
	c.giving, c.attempts, c.problem, c.starting = "", 0, "", false
	c.Holder, c.Reason, c.Since = journal.Host, why, time.Now()
	if err := k.save(); err != nil {
		c.giving = why
		return err
	}
	k.Log.Info("Network card returned to the host", "interface", c.Name, "addresses", nic.Describe(c.State.Addresses), "routes", nic.Describe(c.State.Routes))
	c.notify()
	return nil
}

func (k *Keeper) tryGive(c *card) error {
	if c.PCI != "" {
		if err := k.returnPCI(c); err != nil {
			return err
		}
	}
	k.before("unshield")
	if err := shield.Off(k.NetNS, c.Name); err != nil {
		return fmt.Errorf("returning received packets to the host's stack: %w", err)
	}
	if err := k.detach(c); err != nil {
		return err
	}
	if c.reporter == nil { // no agent will take it down
		k.interconnectDown()
	}
	if err := k.kernel.Set(c.State); err != nil {
		return err
	}
	k.restoreDNS(c)
	lacks, err := k.kernel.Lacks(c.State)
	if err == nil && len(lacks) > 0 {
		err = fmt.Errorf("it lacks %s", lacks)
	}
	return err
}

// complain logs a problem once.
func (k *Keeper) complain(c *card, problem string) {
	if problem != c.problem {
		c.problem = problem
		k.Log.Error(problem, "interface", c.Name)
	}
}

// interconnectDown sets the host's end of the interconnect down, which removes its routes. The
// agent sets it up again.
func (k *Keeper) interconnectDown() {
	link, err := k.kernel.LinkByName(k.Interconnect)
	if err != nil || link.Attrs().Flags&net.FlagUp == 0 {
		return
	}
	k.before("interconnect down")
	if err := k.kernel.SetLink(link.Attrs().Index, rtnl.LinkChange{Down: true}); err != nil && !rtnl.IsGone(err) {
		k.Log.Warn("Setting the interconnect down failed", "interface", k.Interconnect, "error", err)
	}
}

// seeInterconnect records whether the interconnect is up.
func (k *Keeper) seeInterconnect() {
	link, err := k.kernel.LinkByName(k.Interconnect)
	up := err == nil && link.Attrs().Flags&net.FlagUp != 0 && (link.Attrs().OperState == netlink.OperUp || link.Attrs().OperState == netlink.OperUnknown)
	switch {
	case up:
		k.downSince = time.Time{}
	case k.downSince.IsZero():
		k.downSince = time.Now()
	}
}
