package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/stn/client"
)

const (
	// stnTimeout bounds how long the event loop waits for the STN daemon.
	stnTimeout = 10 * time.Second
	// stnLook is how often the agent looks whether the vswitch forwards.
	stnLook = 50 * time.Millisecond
	// stnPing bounds how long the vswitch may take to answer.
	stnPing = 2 * time.Second
)

// thief is the agent's side of STN: it claims the network card, and reports whether the vswitch
// forwards.
//
//	contivconf ── steal ──> thief ── StealInterface ─────────> contiv-stn
//	scheduler, vswitch ───> look ── Attend: ready or why not ─>    │
//	event loop, status <── holder <────────── who has the card ────┘
type thief struct {
	client *client.Client
	cards  *lentCards
	log    *slog.Logger

	mu sync.Mutex
	// holding is what the daemon said last; nil: nothing.
	holding *stn.Holding
	// away is why it does not say anything.
	away error
}

// lentCards are the network cards that contiv-stn lends to the vswitch. It shields the host's stack
// from them once the vswitch forwards: if the driver did so before, and all were killed then, nobody
// would know that the host is cut off.
type lentCards struct {
	mu    sync.Mutex
	names map[string]bool
}

func (l *lentCards) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = true
}

func (l *lentCards) has(name string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// newThief returns nil on a vswitch that needs none.
func newThief(config contivconf.Config, shared bool, cards *lentCards, log *slog.Logger) (*thief, error) {
	if shared {
		return nil, nil
	}
	c, err := client.New(config.STNSocketFile)
	if err != nil {
		return nil, err
	}
	return &thief{client: c, cards: cards, log: log}, nil
}

func (t *thief) Close() {
	if t != nil {
		t.client.Close()
	}
}

// steal is for contivconf; nil without thief.
func (t *thief) steal() func(string, bool) (*contivconf.Stolen, error) {
	if t == nil {
		return nil
	}
	return func(name string, dhcp bool) (*contivconf.Stolen, error) {
		ctx, cancel := context.WithTimeout(context.Background(), stnTimeout)
		defer cancel()
		r, err := t.client.Stolen(ctx, name)
		if err == nil && r == nil {
			r, err = t.client.Claim(ctx, name, dhcp)
		}
		if err != nil {
			return nil, err
		}
		t.cards.add(r.GetInterfaceName())
		return stolen(r)
	}
}

// stolen reads what the daemon says of a card.
func stolen(r *stn.STNReply) (*contivconf.Stolen, error) {
	s := &contivconf.Stolen{Name: r.GetInterfaceName(), PCI: r.GetPciAddress(), MTU: int(r.GetMtu())}
	for _, text := range r.GetIpAddresses() {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("contiv-stn says that %s has the address %q: %w", s.Name, text, err)
		}
		if !p.Addr().IsLinkLocalUnicast() {
			s.Addresses = append(s.Addresses, p)
		}
	}
	for _, route := range r.GetRoutes() {
		next := contivconf.StolenRoute{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Metric: route.GetMetric()}
		var err error
		if text := route.GetDestinationSubnet(); text != "" {
			next.Destination, err = netip.ParsePrefix(text)
		}
		if text := route.GetNextHopIp(); text != "" && err == nil {
			next.NextHop, err = netip.ParseAddr(text)
			if route.GetDestinationSubnet() == "" && next.NextHop.Is6() {
				next.Destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("contiv-stn says that %s has the route %v: %w", s.Name, route, err)
		}
		s.Routes = append(s.Routes, next)
	}
	return s, nil
}

// attend reports on the card, for as long as there is one, until ctx ends. Before synced, it only says that the agent waits.
func (t *thief) attend(ctx context.Context, synced func() bool, net *ipnet.IPNet, sb *southbound, conf *contivconf.ContivConf, loop controller.EventLoop) error {
	if t == nil {
		return nil
	}
	l := &lookout{net: net, sb: sb, answered: time.Now()}
	go l.ping(ctx)
	return t.report(ctx, synced, l, func(h *stn.Holding) { t.hold(ctx, h, conf, loop) })
}

// observer finds out whether the vswitch forwards.
type observer interface {
	// card is the name of the stolen card, "" if there is none.
	card() string
	see() client.Report
	// left reports whether the vswitch answers and has what an earlier agent configured.
	left(ctx context.Context) bool
}

func (t *thief) report(ctx context.Context, synced func() bool, o observer, held func(*stn.Holding)) error {
	// Before the first resync, it is not known what a VPP that runs does. What is seen until then must not be
	// reported later, either: the card would be given back, for a moment, at each restart of the agent.
	t.await(ctx, synced, o)
	reports := make(chan client.Report)
	go look(ctx, o, reports)
	for ctx.Err() == nil {
		name := o.card()
		if name == "" {
			wait(ctx, stnLook)
			continue
		}
		err := t.client.Attend(ctx, name, reports, held)
		t.mu.Lock()
		before := t.away
		t.away = err
		t.mu.Unlock()
		if ctx.Err() == nil && err != nil && before == nil {
			t.log.Warn("contiv-stn does not answer: nobody gives the network card back if VPP ends", "interface", name, "error", err)
		}
		wait(ctx, 4*stnLook)
	}
	return nil
}

// await returns when synced. Until then, it asks the daemon to leave the card with whoever has it, while the vswitch is as an earlier agent
// left it: the agent may wait for etcd longer than the daemon waits for an agent.
func (t *thief) await(ctx context.Context, synced func() bool, o observer) {
	waiting, cancel := context.WithCancel(ctx)
	reports, done := make(chan client.Report), make(chan struct{})
	go func() {
		defer close(done)
		for waiting.Err() == nil {
			if info, err := t.client.Stolen(waiting, ""); err == nil && info != nil {
				t.client.Attend(waiting, info.GetInterfaceName(), reports, func(*stn.Holding) {}) // report says who has it, and what is wrong
			}
			wait(waiting, 4*stnLook)
		}
	}()
	for !synced() && ctx.Err() == nil {
		if o.left(ctx) && !synced() {
			select {
			case reports <- client.Report{Waiting: true}:
			case <-time.After(stnLook):
			case <-ctx.Done():
			}
		}
		wait(ctx, stnLook)
	}
	cancel()
	<-done
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold notes who has the card.
func (t *thief) hold(ctx context.Context, h *stn.Holding, conf *contivconf.ContivConf, loop controller.EventLoop) {
	t.mu.Lock()
	before := t.holding
	t.holding, t.away = h, nil
	t.mu.Unlock()
	if before.GetHolder() != h.GetHolder() || before == nil {
		event := &contivconf.STNHolderChange{Interface: h.GetInterfaceName(), Host: h.GetHolder() == stn.Holding_HOST, Reason: h.GetReason()}
		t.log.Info(event.Describe())
		if err := loop.PushEvent(ctx, event); err != nil {
			t.log.Warn("Event loop does not take the news", "error", err)
		}
	}
	now, err := stolen(h.GetInfo())
	if last := conf.Resolved().Stolen; err == nil && last != nil && !now.Equal(last) {
		conf.LinksChanged(ctx)
	}
}

// warnings are what users should know.
func (t *thief) warnings() []string {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.away != nil:
		return []string{fmt.Sprintf("contiv-stn does not answer (%v): start it, or nobody gives the network card back if VPP ends", t.away)}
	case t.holding.GetHolder() == stn.Holding_HOST && t.holding != nil:
		return []string{fmt.Sprintf("network card %s is the host's, not VPP's: %s", t.holding.GetInterfaceName(), t.holding.GetReason())}
	}
	return nil
}

// lookout finds out whether the vswitch forwards.
type lookout struct {
	net *ipnet.IPNet
	sb  *southbound

	// leads: when it was looked for last, there was an interconnect. Both are left's.
	leads  bool
	looked time.Time

	mu sync.Mutex
	// answered is when the vswitch answered last.
	answered time.Time
}

// ping asks the vswitch for signs of life.
func (l *lookout) ping(ctx context.Context) {
	cli, has := l.sb.vs.(commandLine)
	for ctx.Err() == nil && has {
		if _, err := cli.CLI(ctx, "show clock"); err == nil {
			l.mu.Lock()
			l.answered = time.Now()
			l.mu.Unlock()
		}
		wait(ctx, stnPing/4)
	}
}

// look offers what o sees to whoever reads reports.
func look(ctx context.Context, o observer, reports chan<- client.Report) {
	for ctx.Err() == nil {
		select {
		case reports <- o.see():
		case <-time.After(stnLook): // it is outdated
		case <-ctx.Done():
		}
		wait(ctx, stnLook)
	}
}

func (l *lookout) card() string {
	name, _, _ := l.net.GetSTN()
	return name
}

// left looks for the interconnect, which a VPP that has been started anew lacks, not more often than once a second.
func (l *lookout) left(ctx context.Context) bool {
	if l.sb.Err() != nil {
		return false
	}
	if time.Since(l.looked) < time.Second {
		return l.leads
	}
	ctx, cancel := context.WithTimeout(ctx, stnPing)
	defer cancel()
	states, err := l.sb.vs.States().List(ctx)
	l.looked, l.leads = time.Now(), err == nil && slices.ContainsFunc(states, func(s *vpp_interfaces.InterfaceState) bool {
		return s.GetName() == l.net.HostInterconnect()
	})
	return l.leads
}

func (l *lookout) see() client.Report {
	_, versions, keys := l.net.GetSTN()
	not := func(why string) client.Report { return client.Report{Why: why, IPVersions: versions} }
	if err := l.sb.Err(); err != nil {
		return not(err.Error())
	}
	l.mu.Lock()
	silent := time.Since(l.answered)
	l.mu.Unlock()
	if _, has := l.sb.vs.(commandLine); has && silent > stnPing {
		return not("VPP does not answer")
	}
	for _, key := range keys {
		status := l.sb.scheduler.ValueStatus(key).GetValue()
		switch status.GetState() {
		case pb.ValueState_CONFIGURED, pb.ValueState_OBTAINED, pb.ValueState_DISCOVERED:
		default:
			return not(strings.TrimSpace(fmt.Sprintf("%s is %s %s", key, status.GetState(), status.GetError())))
		}
	}
	return client.Report{Ready: true, IPVersions: versions}
}
