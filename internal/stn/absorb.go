package stn

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/nic"
)

// checkCards checks the cards. The caller calls it when links, addresses or routes may have changed.
func (k *Keeper) checkCards() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.seeInterconnect()
	for _, c := range k.cards {
		if c.Holder == journal.VSwitch && c.PCI == "" && c.giving == "" && c.served != (served{}) {
			k.absorb(c)
		}
		k.decide(c)
	}
}

// absorb records changes that the host makes to a card that the vswitch holds, such as a new DHCP
// address, and removes new routes of the card.
func (k *Keeper) absorb(c *card) {
	link, err := k.kernel.LinkByName(c.Name)
	if err != nil || link.Attrs().Flags&net.FlagUp == 0 {
		return
	}
	now, err := k.kernel.Read(c.Name)
	if err != nil {
		k.complain(c, "Reading the network card failed: "+err.Error())
		return
	}
	added := c.served.main(now.Routes)
	next := *now
	next.Routes = slices.Clone(now.Routes)
	for _, o := range c.served.main(c.State.Routes) {
		if !nic.Has(next.Routes, o.Text) && !lostWithAddress(c.State, &next, o) {
			next.Routes = append(next.Routes, o)
		}
	}
	if !next.Same(c.State) {
		k.Log.Info("Host changed the configuration of the network card", "interface", c.Name, "addresses", nic.Describe(next.Addresses), "routes", nic.Describe(next.Routes))
		before := c.State
		c.State = &next
		if err := k.save(); err != nil {
			c.State = before
			k.complain(c, err.Error())
			return
		}
		c.notify()
	}
	if len(added) > 0 {
		if err := k.kernel.RemoveRoutes(added); err != nil {
			k.complain(c, err.Error())
		}
	}
}

// lostWithAddress reports whether a route disappeared with a removed address: it led to the
// address's network or through it.
func lostWithAddress(before, now *nic.State, o nic.Object) bool {
	in := func(list []netip.Prefix, route nic.Route) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool {
			if route.NextHop.IsValid() {
				return p.Contains(route.NextHop)
			}
			return p.Masked() == route.Destination
		})
	}
	for _, route := range (&nic.State{Routes: []nic.Object{o}}).MainRoutes() {
		return in(before.Prefixes(), route) && !in(now.Prefixes(), route)
	}
	return false
}

// Reporter is a stream that reports whether the vswitch forwards.
type Reporter struct {
	keeper *Keeper
	card   *card
	// Changed receives a token when the result of Entry may have changed.
	Changed chan struct{}
}

// Attend makes the caller the reporter on a card; nil if the card is not claimed.
func (k *Keeper) Attend(name string) *Reporter {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.cards[name]
	if c == nil || k.closed {
		return nil
	}
	r := &Reporter{keeper: k, card: c, Changed: make(chan struct{}, 1)}
	c.setReporter(r)
	c.notify()
	return r
}

func (c *card) setReporter(r *Reporter) {
	if c.reporter != nil || c.absentSince.IsZero() {
		c.absentSince = time.Now()
	}
	c.reporter, c.heard, c.ready, c.waiting = r, time.Time{}, false, false
}

// notify notifies the reporter of a change.
func (c *card) notify() {
	if c.reporter == nil {
		return
	}
	select {
	case c.reporter.Changed <- struct{}{}:
	default:
	}
}

// Report reports whether the vswitch forwards packets of the given IP versions (none given: all),
// and if not, why.
func (r *Reporter) Report(ready bool, why string, ipVersions ...uint32) {
	r.keeper.mu.Lock()
	defer r.keeper.mu.Unlock()
	if r.card.reporter != r {
		return
	}
	if why == "" {
		why = "the vswitch does not forward"
	}
	r.card.heard, r.card.ready, r.card.waiting, r.card.why = time.Now(), ready, false, why
	before, held := r.card.served, r.card.Holder == journal.VSwitch
	if ready {
		r.card.starting = false
		r.card.served = served{ipv4: true, ipv6: true}
		if len(ipVersions) > 0 {
			r.card.served = served{ipv4: slices.Contains(ipVersions, 4), ipv6: slices.Contains(ipVersions, 6)}
		}
	}
	r.keeper.decide(r.card)
	if ready && held && before != r.card.served && r.card.Holder == journal.VSwitch && r.card.giving == "" { // taken by an earlier daemon, or for other IP versions
		r.keeper.take(r.card)
	}
}

// Wait reports that the vswitch still runs the configuration of an earlier agent, whether it
// forwards or not. The card stays with its holder.
func (r *Reporter) Wait() {
	r.keeper.mu.Lock()
	defer r.keeper.mu.Unlock()
	if r.card.reporter != r {
		return
	}
	r.card.heard, r.card.ready, r.card.waiting, r.card.why = time.Now(), false, true, notKnown
	r.keeper.decide(r.card)
}

// Entry returns the card's entry, with its holder.
func (r *Reporter) Entry() *journal.Entry {
	r.keeper.mu.Lock()
	defer r.keeper.mu.Unlock()
	e := copyOf(r.card.Entry)
	if r.card.giving != "" {
		e.Reason = r.card.giving
	}
	return e
}

// Leave ends the reports of this reporter, unless another one has replaced it.
func (r *Reporter) Leave() {
	r.keeper.mu.Lock()
	defer r.keeper.mu.Unlock()
	if r.card.reporter == r {
		r.card.setReporter(nil)
		r.keeper.decide(r.card)
	}
}
