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
	// stnLook is how often the agent checks whether the vswitch forwards.
	stnLook = 50 * time.Millisecond
	// stnPing bounds the vswitch's answer.
	stnPing = 2 * time.Second
)

// stnReporter is the agent's side of STN: it claims the network card and reports whether the
// vswitch forwards.
//
//	contivconf ── steal ──> stnReporter ── StealInterface ─────> contiv-stn
//	scheduler, vswitch ───> observe ── Attend: ready or why not ─>    │
//	event loop, status <── holder <────────── holder of the card ────┘
type stnReporter struct {
	client *client.Client
	lent   *lentCards
	log    *slog.Logger

	mu sync.Mutex
	// holding is the daemon's last message; nil if none.
	holding *stn.Holding
	// away is the reason why the daemon does not answer.
	away error
}

// lentCards records the network cards that contiv-stn lends to the vswitch. contiv-stn shields the
// host's stack from them once the vswitch forwards. If the driver shielded them earlier and all
// processes were killed, nothing would detect that the host is cut off.
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

// newSTNReporter returns nil for a vswitch that needs no STN.
func newSTNReporter(config contivconf.Config, shared bool, lent *lentCards, log *slog.Logger) (*stnReporter, error) {
	if shared {
		return nil, nil
	}
	c, err := client.New(config.STNSocketFile)
	if err != nil {
		return nil, err
	}
	return &stnReporter{client: c, lent: lent, log: log}, nil
}

func (s *stnReporter) Close() {
	if s != nil {
		s.client.Close()
	}
}

// steal returns the function for contivconf; nil without STN.
func (s *stnReporter) steal() func(string, bool) (*contivconf.Stolen, error) {
	if s == nil {
		return nil
	}
	return func(name string, dhcp bool) (*contivconf.Stolen, error) {
		ctx, cancel := context.WithTimeout(context.Background(), stnTimeout)
		defer cancel()
		r, err := s.client.Stolen(ctx, name)
		if err == nil && r == nil {
			r, err = s.client.Claim(ctx, name, dhcp)
		}
		if err != nil {
			return nil, err
		}
		s.lent.add(r.GetInterfaceName())
		return stolen(r)
	}
}

// stolen decodes the daemon's description of a card.
func stolen(r *stn.STNReply) (*contivconf.Stolen, error) {
	s := &contivconf.Stolen{Name: r.GetInterfaceName(), PCI: r.GetPciAddress(), MTU: int(r.GetMtu())}
	for _, text := range r.GetIpAddresses() {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("contiv-stn reported the address %[2]q of %[1]s: %[3]w", s.Name, text, err)
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
			return nil, fmt.Errorf("contiv-stn reported the route %[2]v of %[1]s: %[3]w", s.Name, route, err)
		}
		s.Routes = append(s.Routes, next)
	}
	return s, nil
}

// attend reports on the card until ctx ends. Before synced, it only reports that the agent waits.
func (s *stnReporter) attend(ctx context.Context, synced func() bool, net *ipnet.IPNet, sb *southbound, conf *contivconf.ContivConf, loop controller.EventLoop) error {
	if s == nil {
		return nil
	}
	l := &forwardingObserver{net: net, sb: sb, answered: time.Now()}
	go l.ping(ctx)
	return s.report(ctx, synced, l, func(h *stn.Holding) { s.hold(ctx, h, conf, loop) })
}

// observer determines whether the vswitch forwards.
type observer interface {
	// card returns the name of the stolen card, "" if none.
	card() string
	see() client.Report
	// left reports whether the vswitch answers and still has an earlier agent's configuration.
	left(ctx context.Context) bool
}

func (s *stnReporter) report(ctx context.Context, synced func() bool, o observer, held func(*stn.Holding)) error {
	// Before the first resync, the state of a running VPP is unknown. A report based on it would
	// return the card briefly at each restart of the agent, so observation starts only now.
	s.await(ctx, synced, o)
	reports := make(chan client.Report)
	go observe(ctx, o, reports)
	for ctx.Err() == nil {
		name := o.card()
		if name == "" {
			wait(ctx, stnLook)
			continue
		}
		err := s.client.Attend(ctx, name, reports, held)
		s.mu.Lock()
		before := s.away
		s.away = err
		s.mu.Unlock()
		if ctx.Err() == nil && err != nil && before == nil {
			s.log.Warn("contiv-stn does not answer; it cannot return the network card if VPP stops", "interface", name, "error", err)
		}
		wait(ctx, 4*stnLook)
	}
	return nil
}

// await returns when synced. Until then, while the vswitch still has an earlier agent's
// configuration, it asks the daemon to leave the card with its holder: the agent may wait for etcd
// longer than the daemon waits for an agent.
func (s *stnReporter) await(ctx context.Context, synced func() bool, o observer) {
	waiting, cancel := context.WithCancel(ctx)
	reports, done := make(chan client.Report), make(chan struct{})
	go func() {
		defer close(done)
		for waiting.Err() == nil {
			if info, err := s.client.Stolen(waiting, ""); err == nil && info != nil {
				s.client.Attend(waiting, info.GetInterfaceName(), reports, func(*stn.Holding) {}) // report returns the holder and the errors
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

// hold records the holder of the card.
func (s *stnReporter) hold(ctx context.Context, h *stn.Holding, conf *contivconf.ContivConf, loop controller.EventLoop) {
	s.mu.Lock()
	before := s.holding
	s.holding, s.away = h, nil
	s.mu.Unlock()
	if before.GetHolder() != h.GetHolder() || before == nil {
		event := &contivconf.STNHolderChange{Interface: h.GetInterfaceName(), Host: h.GetHolder() == stn.Holding_HOST, Reason: h.GetReason()}
		s.log.Info(event.Describe())
		if err := loop.PushEvent(ctx, event); err != nil {
			s.log.Warn("Reporting the holder of the network card to the event loop failed", "error", err)
		}
	}
	now, err := stolen(h.GetInfo())
	if last := conf.Resolved().Stolen; err == nil && last != nil && !now.Equal(last) {
		conf.LinksChanged(ctx)
	}
}

// warnings returns warnings for the user.
func (s *stnReporter) warnings() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away != nil:
		return []string{fmt.Sprintf("contiv-stn does not answer (%v) and cannot return the network card if VPP stops: start contiv-stn", s.away)}
	case s.holding.GetHolder() == stn.Holding_HOST && s.holding != nil:
		return []string{fmt.Sprintf("network card %s is held by the host instead of VPP: %s", s.holding.GetInterfaceName(), s.holding.GetReason())}
	}
	return nil
}

// forwardingObserver implements observer.
type forwardingObserver struct {
	net *ipnet.IPNet
	sb  *southbound

	// leads is whether the last check found an interconnect. Used by left only.
	leads  bool
	looked time.Time

	mu sync.Mutex
	// answered is the time of the vswitch's last answer.
	answered time.Time
}

// ping polls the vswitch.
func (l *forwardingObserver) ping(ctx context.Context) {
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

// observe sends the observations of o to reports.
func observe(ctx context.Context, o observer, reports chan<- client.Report) {
	for ctx.Err() == nil {
		select {
		case reports <- o.see():
		case <-time.After(stnLook): // discard it: it is outdated
		case <-ctx.Done():
		}
		wait(ctx, stnLook)
	}
}

func (l *forwardingObserver) card() string {
	name, _, _ := l.net.GetSTN()
	return name
}

// left checks for the interconnect, which a restarted VPP lacks, at most once a second.
func (l *forwardingObserver) left(ctx context.Context) bool {
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

func (l *forwardingObserver) see() client.Report {
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
