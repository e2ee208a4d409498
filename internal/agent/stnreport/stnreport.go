// Package stnreport is the agent's side of stealing the network card (STN): it claims the card for the
// vswitch and reports to contiv-stn whether the vswitch forwards.
//
//	contivconf ── Claim ──> Reporter ── StealInterface ────────> contiv-stn
//	scheduler, vswitch ──> observe ── Attend: ready or why not ─>    │
//	event loop, status <── holder <───────── holder of the card ────┘
package stnreport

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
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/stn/client"
)

const (
	// claimTimeout bounds how long the event loop waits for the STN daemon.
	claimTimeout = 10 * time.Second
	// observePeriod is how often the agent checks whether the vswitch forwards.
	observePeriod = 50 * time.Millisecond
	// answerTimeout bounds the vswitch's answer.
	answerTimeout = 2 * time.Second
)

// Reporter claims a network card and reports on it. A nil Reporter stands for a vswitch that needs no STN.
type Reporter struct {
	client *client.Client
	lent   *LentCards
	log    *slog.Logger

	mu sync.Mutex
	// holding is the daemon's last message; nil if none.
	holding *stn.Holding
	// away is the reason why the daemon does not answer.
	away error
}

// LentCards records the network cards that contiv-stn lends to the vswitch. contiv-stn shields the
// host's stack from them once the vswitch forwards. If the driver shielded them earlier and all
// processes were killed, nothing would detect that the host is cut off.
type LentCards struct {
	mu    sync.Mutex
	names map[string]bool
}

func (l *LentCards) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = true
}

// Has reports whether a card is lent.
func (l *LentCards) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// New returns a Reporter for the contiv-stn at a socket. It adds claimed cards to lent. The caller closes
// it.
func New(socket string, lent *LentCards, log *slog.Logger) (*Reporter, error) {
	c, err := client.New(socket)
	if err != nil {
		return nil, err
	}
	return &Reporter{client: c, lent: lent, log: log}, nil
}

func (s *Reporter) Close() {
	if s != nil {
		s.client.Close()
	}
}

// Claim returns the function by which contivconf claims a card; nil without STN.
func (s *Reporter) Claim() func(string, bool) (*contivconf.Stolen, error) {
	if s == nil {
		return nil
	}
	return func(name string, dhcp bool) (*contivconf.Stolen, error) {
		ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
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

// Run reports on the card until ctx ends. Before synced, it only reports that the agent waits.
func (s *Reporter) Run(ctx context.Context, synced func() bool, net *ipnet.IPNet, sb *southbound.Southbound, conf *contivconf.ContivConf, loop controller.EventLoop) error {
	if s == nil {
		return nil
	}
	o := &forwardingObserver{net: net, sb: sb, answered: time.Now()}
	go o.ping(ctx)
	return s.report(ctx, synced, o, func(h *stn.Holding) { s.recordHolder(ctx, h, conf, loop) })
}

// observer determines whether the vswitch forwards.
type observer interface {
	// card returns the name of the stolen card, "" if none.
	card() string
	// forwards reports whether the vswitch forwards, and the reason if not.
	forwards() client.Report
	// forwardsEarlier reports whether the vswitch answers and still has an earlier agent's configuration.
	forwardsEarlier(ctx context.Context) bool
}

func (s *Reporter) report(ctx context.Context, synced func() bool, o observer, held func(*stn.Holding)) error {
	// Before the first resync, the state of a running VPP is unknown. A report based on it would
	// return the card briefly at each restart of the agent, so observation starts only now.
	s.await(ctx, synced, o)
	reports := make(chan client.Report)
	go observe(ctx, o, reports)
	for ctx.Err() == nil {
		name := o.card()
		if name == "" {
			wait(ctx, observePeriod)
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
		wait(ctx, 4*observePeriod)
	}
	return nil
}

// await returns when synced. Until then, while the vswitch still has an earlier agent's
// configuration, it asks the daemon to leave the card with its holder: the agent may wait for etcd
// longer than the daemon waits for an agent.
func (s *Reporter) await(ctx context.Context, synced func() bool, o observer) {
	waiting, cancel := context.WithCancel(ctx)
	reports, done := make(chan client.Report), make(chan struct{})
	go func() {
		defer close(done)
		for waiting.Err() == nil {
			if info, err := s.client.Stolen(waiting, ""); err == nil && info != nil {
				s.client.Attend(waiting, info.GetInterfaceName(), reports, func(*stn.Holding) {}) // report returns the holder and the errors
			}
			wait(waiting, 4*observePeriod)
		}
	}()
	for !synced() && ctx.Err() == nil {
		if o.forwardsEarlier(ctx) && !synced() {
			select {
			case reports <- client.Report{Waiting: true}:
			case <-time.After(observePeriod):
			case <-ctx.Done():
			}
		}
		wait(ctx, observePeriod)
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

// recordHolder records the holder of the card, and reports a change to the event loop.
func (s *Reporter) recordHolder(ctx context.Context, h *stn.Holding, conf *contivconf.ContivConf, loop controller.EventLoop) {
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

// Warnings returns warnings for the user.
func (s *Reporter) Warnings() []string {
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
	sb  *southbound.Southbound

	// connected is whether the last check found an interconnect, and checked the time of that check. Only
	// forwardsEarlier uses them.
	connected bool
	checked   time.Time

	mu sync.Mutex
	// answered is the time of the vswitch's last answer.
	answered time.Time
}

// ping polls the vswitch.
func (o *forwardingObserver) ping(ctx context.Context) {
	cli := o.sb.CommandLine()
	for ctx.Err() == nil && cli != nil {
		if _, err := cli(ctx, "show clock"); err == nil {
			o.mu.Lock()
			o.answered = time.Now()
			o.mu.Unlock()
		}
		wait(ctx, answerTimeout/4)
	}
}

// observe sends the observations of o to reports.
func observe(ctx context.Context, o observer, reports chan<- client.Report) {
	for ctx.Err() == nil {
		select {
		case reports <- o.forwards():
		case <-time.After(observePeriod): // discard it: it is outdated
		case <-ctx.Done():
		}
		wait(ctx, observePeriod)
	}
}

func (o *forwardingObserver) card() string {
	name, _, _ := o.net.GetSTN()
	return name
}

// forwardsEarlier checks for the interconnect, which a restarted VPP lacks, at most once a second.
func (o *forwardingObserver) forwardsEarlier(ctx context.Context) bool {
	if o.sb.Err() != nil {
		return false
	}
	if time.Since(o.checked) < time.Second {
		return o.connected
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	states, err := o.sb.VSwitch().States().List(ctx)
	o.checked, o.connected = time.Now(), err == nil && slices.ContainsFunc(states, func(s *vpp_interfaces.InterfaceState) bool {
		return s.GetName() == o.net.HostInterconnect()
	})
	return o.connected
}

func (o *forwardingObserver) forwards() client.Report {
	_, versions, keys := o.net.GetSTN()
	notReady := func(why string) client.Report { return client.Report{Why: why, IPVersions: versions} }
	if err := o.sb.Err(); err != nil {
		return notReady(err.Error())
	}
	o.mu.Lock()
	silent := time.Since(o.answered)
	o.mu.Unlock()
	if o.sb.CommandLine() != nil && silent > answerTimeout {
		return notReady("VPP does not answer")
	}
	for _, key := range keys {
		status := o.sb.Scheduler.ValueStatus(key).GetValue()
		switch status.GetState() {
		case pb.ValueState_CONFIGURED, pb.ValueState_OBTAINED, pb.ValueState_DISCOVERED:
		default:
			return notReady(strings.TrimSpace(fmt.Sprintf("%s is %s %s", key, status.GetState(), status.GetError())))
		}
	}
	return client.Report{Ready: true, IPVersions: versions}
}
