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

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/netlink/shield"
	"github.com/contiv/contiv/stn/journal"
	"github.com/contiv/contiv/stn/nic"
	"github.com/contiv/contiv/stn/pci"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Limits say when the vswitch is taken not to forward.
type Limits struct {
	// Absent is how long nobody may report.
	Absent time.Duration
	// Silent is how long a reporter that is there may say nothing.
	Silent time.Duration
	// Down is how long the interconnect may be down.
	Down time.Duration
	// Start is how long the vswitch may take to start with a PCI device.
	Start time.Duration
}

// DefaultLimits have a card back within 5 seconds, whatever happened.
var DefaultLimits = Limits{Absent: 4 * time.Second, Silent: 4 * time.Second, Down: time.Second, Start: 30 * time.Second}

// Options of a Keeper.
type Options struct {
	Journal journal.File
	// NetNS is the network namespace of the cards, and of the interconnect.
	NetNS netns.NsHandle
	// Interconnect is the host's device of its connection to the vswitch.
	Interconnect string
	Bus          pci.Bus
	// PCIDriver is the driver that VPP works with.
	PCIDriver string
	// KeepDriver names the PCI devices that VPP is to share with their driver; "*": all.
	KeepDriver []string
	// ResolvConf is the path of the host's resolv.conf.
	ResolvConf string
	Limits     Limits
	// Boot is what BootID returns.
	Boot string
	Log  *slog.Logger
	// BeforeStep, if not nil, is called before each change of the file or of the kernel: tests
	// end the program there.
	BeforeStep func(what string)
}

// Keeper holds the cards. Its methods may be called by any goroutine.
type Keeper struct {
	Options
	kernel nic.Kernel

	mu      sync.Mutex
	journal *journal.Journal
	cards   map[string]*card
	// busOf is that of the kernel, but in tests.
	busOf func(name string) (driver, bus string, err error)
	// downSince is since when the interconnect has been down; zero: it is up.
	downSince time.Time
	closed    bool
}

// card is what is known of a claimed card beside the journal.
type card struct {
	*journal.Entry
	// reporter is the stream that reports on it; nil: none does.
	reporter *Reporter
	// absentSince is since when there has been none; heard when it spoke last.
	absentSince, heard time.Time
	ready              bool
	why                string // not ready
	served             served
	// starting: the vswitch has not been ready since a PCI device was taken.
	starting bool
	// giving is why the card is being given back, which has not succeeded yet; "": it is not.
	giving   string
	attempts int
	timer    *time.Timer
	problem  string // logged last
	// program is VPP's XDP program while it is off the card.
	program nic.Program
	// coveredSince is since when the card has had VPP's XDP program although it is the host's; zero: it has not.
	coveredSince time.Time
}

// New opens the journal. What an earlier daemon took and did not give back stays with the vswitch
// for as long as Limits say, so that it can be taken over without an interruption; what a run
// of the kernel before this one held is given back.
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
		k.Log.Info("Network card is claimed for the vswitch", "interface", e.Name, "holder", e.Holder, "because", e.Reason)
		k.track(e)
	}
	k.seeInterconnect()
	return k, nil
}

// track makes a card of an entry, and has it looked at.
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

// Close gives all cards back, but does not forget that they are claimed, and ends the Keeper.
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

// before is called before each change.
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

// afterReboot gives back what the kernel has forgotten: a card that has got addresses from
// whoever configures the host is left as it is, for it may be elsewhere now.
func (k *Keeper) afterReboot() error {
	for _, e := range k.journal.NICs {
		if e.Holder != journal.VSwitch {
			continue
		}
		if now, err := k.kernel.Read(e.Name); err == nil && len(now.Prefixes()) == 0 && !e.DHCP {
			k.Log.Warn("The machine was restarted and nobody has configured its network card: it gets what it had", "interface", e.Name, "addresses", nic.Describe(e.State.Addresses))
			if err := k.kernel.Set(e.State); err != nil {
				k.Log.Error("Network card does not have all that it had", "interface", e.Name, "error", err)
			}
		}
	}
	k.journal.NICs = nil
	return k.save()
}

// Steal claims a card, and returns what it has. A PCI device that VPP is to drive goes at once.
func (k *Keeper) Steal(name string, dhcp bool) (*journal.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("contiv-stn is ending")
	}
	c := k.cards[name]
	if c == nil {
		e, err := k.claim(name, dhcp)
		if err != nil {
			return nil, err
		}
		c = k.track(e)
		k.Log.Info("Network card is claimed for the vswitch", "interface", name, "pci", e.PCI, "addresses", nic.Describe(e.State.Addresses), "routes", nic.Describe(e.State.Routes))
	}
	if c.PCI != "" && c.Holder == journal.Host {
		if err := k.takePCI(c); err != nil {
			return nil, errors.Join(err, k.give(c, "it could not be taken"))
		}
	}
	if c.PCI != "" { // whoever asks is about to start it, whatever was before
		c.starting, c.ready, c.Since = true, false, time.Now()
		k.decide(c)
	}
	k.refresh(c)
	return copyOf(c.Entry), nil
}

// claim makes the entry of a card.
func (k *Keeper) claim(name string, dhcp bool) (*journal.Entry, error) {
	if name == "" {
		return nil, errors.New("no interface is named: name the network card to steal")
	}
	link, err := k.kernel.Device(name)
	if err != nil {
		return nil, err
	}
	if link.Attrs().Flags&net.FlagLoopback != 0 || name == k.Interconnect {
		return nil, fmt.Errorf("interface %s is no network card: name that which leads to other nodes", name)
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

// Release gives a card back for good; "": all. One that is not claimed is no error.
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
	k.Log.Info("Network card is the host's again", "interface", c.Name)
	return nil
}

// Claimed returns what is known of a card; of the first one for "". nil: there is none.
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

// copyOf copies what changes. States do not: they are replaced.
func copyOf(e *journal.Entry) *journal.Entry {
	c := *e
	return &c
}

// refresh notes what the host has done to its card while it has it.
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
		k.complain(c, "What the host has changed is not noted: "+err.Error())
	}
}

// decide finds out who is to hold a card, and changes that.
func (k *Keeper) decide(c *card) {
	if k.closed || k.cards[c.Name] != c {
		return
	}
	if c.Holder == journal.VSwitch && c.Detached && c.giving == "" {
		k.give(c, "an earlier contiv-stn was about to give it back")
		return
	}
	if c.giving != "" || c.Holder == journal.VSwitch {
		why, at := k.trouble(c)
		switch wait := time.Until(at); {
		case why == "" && c.giving != "" && c.PCI == "": // it forwards again, before the card is back
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
			k.complain(c, "Network card cannot be taken: "+c.Reason)
			c.tell()
		}
		return
	}
	k.take(c)
}

// trouble returns why the vswitch does not forward, and when that has lasted for too long; ""
// if it does.
func (k *Keeper) trouble(c *card) (why string, at time.Time) {
	now := time.Now()
	if c.starting && !(c.reporter != nil && c.ready) {
		return "the vswitch has not started in time", c.Since.Add(k.Limits.Start)
	}
	worse := func(reason string, when time.Time) {
		if why == "" || when.Before(at) {
			why, at = reason, when
		}
	}
	switch {
	case c.reporter == nil:
		worse("the agent is gone", c.absentSince.Add(k.Limits.Absent))
	case c.heard.IsZero(): // it has not said anything yet
		worse("the agent does not know yet whether the vswitch forwards", c.absentSince.Add(k.Limits.Absent))
	case now.Sub(c.heard) >= k.Limits.Silent:
		worse("the agent does not respond", now)
	case !c.ready:
		worse(c.why, now)
	}
	if !k.downSince.IsZero() {
		worse("the interconnect "+k.Interconnect+" is down", k.downSince.Add(k.Limits.Down))
	}
	return why, at
}

// take lets the vswitch have a card that keeps its driver.
func (k *Keeper) take(c *card) {
	if err := k.tryTake(c); err != nil {
		k.complain(c, fmt.Sprintf("Network card cannot be taken: %v", err))
		k.give(c, "it could not be taken: "+err.Error())
		return
	}
	c.giving, c.attempts, c.problem, c.starting = "", 0, "", false
	k.Log.Info("Network card is the vswitch's", "interface", c.Name)
	c.tell()
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

// served are the IP versions that the vswitch serves.
type served struct{ ipv4, ipv6 bool }

// main are the routes that compete with those of the interconnect.
func (s served) main(routes []nic.Object) (list []nic.Object) {
	for _, o := range routes {
		if nic.InMain(o) && (nic.IsIPv6(o) && s.ipv6 || !nic.IsIPv6(o) && s.ipv4) {
			list = append(list, o)
		}
	}
	return list
}

// note writes down who holds a card from now on, and what it has.
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

// give brings a card back to the host. What fails is tried again until it succeeds or the
// vswitch forwards again.
func (k *Keeper) give(c *card, why string) error {
	if c.giving == "" {
		k.Log.Warn("Network card is given back to the host", "interface", c.Name, "because", why)
	}
	c.giving = why
	if err := k.tryGive(c); err != nil {
		k.complain(c, fmt.Sprintf("Network card is not all back: %v", err))
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
	k.Log.Info("Network card is back", "interface", c.Name, "addresses", nic.Describe(c.State.Addresses), "routes", nic.Describe(c.State.Routes))
	c.tell()
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
		return fmt.Errorf("giving the host's stack what the card receives: %w", err)
	}
	if err := k.detach(c); err != nil {
		return err
	}
	if c.reporter == nil { // nobody keeps it from leading to nowhere
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

// interconnectDown takes the host's end of the interconnect out of use: its routes go. The
// agent brings it up.
func (k *Keeper) interconnectDown() {
	link, err := k.kernel.LinkByName(k.Interconnect)
	if err != nil || link.Attrs().Flags&net.FlagUp == 0 {
		return
	}
	k.before("interconnect down")
	if err := k.kernel.SetLink(link.Attrs().Index, rtnl.LinkChange{Down: true}); err != nil && !rtnl.IsGone(err) {
		k.Log.Warn("Interconnect cannot be put down", "interface", k.Interconnect, "error", err)
	}
}

// seeInterconnect notes whether the interconnect is up.
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
