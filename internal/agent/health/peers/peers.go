package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/lib/rest"
)

// URL of the handler.
const URL = "/contiv/v1/peers"

// Peer is an address of another node.
type Peer struct {
	Node    string
	Address netip.Addr // answers probes: the gateway of the peer's pods
	Size    int        // of a pod's largest packet
}

// Pinger is implemented by package ping.
type Pinger interface {
	Ping(ctx context.Context, to netip.Addr, size int) (time.Duration, error)
	// Knock is Ping for nodes that ignore echo requests.
	Knock(ctx context.Context, to netip.Addr, size int) (time.Duration, error)
	Close()
}

// Options of a Prober. Peers and Open must be set.
type Options struct {
	// Peers returns the current peers to probe, nil before they are known.
	Peers func() []Peer
	Open  func() (Pinger, error)
	// Interval between probes of a peer; 0: 15 s.
	Interval time.Duration
	// Timeout for an answer; 0: 1 s.
	Timeout time.Duration
	Log     *slog.Logger
}

const (
	// attempts is the number of lost probes after which a peer counts as silent in a round.
	attempts = 3
	// sizeRounds is the number of rounds from one with large packets to the next.
	sizeRounds = 4
	// silentRounds is the number of consecutive silent rounds that make a problem, because a peer
	// may be starting.
	silentRounds = 2
)

// Report is the state of a peer. GET /contiv/v1/peers returns a JSON list of them.
type Report struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	// Answers: the last round of probes was answered.
	Answers bool `json:"answers"`
	// RoundTripSeconds of the last answer.
	RoundTripSeconds float64 `json:"roundTripSeconds"`
	// Size of the largest packet that passed, and Wanted, the size of pods' largest packets, in
	// bytes with the IP header. Size is 0 before the first measurement.
	Size   int `json:"size"`
	Wanted int `json:"wanted"`
	// Sent and Lost probes since the agent started.
	Sent uint64 `json:"sent"`
	Lost uint64 `json:"lost"`
	// Since is when Answers last changed.
	Since time.Time `json:"since"`
	// Error is the reason why probes could not be sent.
	Error string `json:"error,omitempty"`
	// Problem describes a problem and its remedy; "" if none.
	Problem string `json:"problem,omitempty"`
}

// Prober probes peers.
type Prober struct {
	o Options

	mu    sync.Mutex
	peers map[Peer]*state
	err   error // why nothing can be probed
}

type state struct {
	Report
	rounds, silent int
	// knocked: its last answer was to Knock, not to Ping.
	knocked bool
}

// New returns a prober. Run starts it.
func New(o Options) *Prober {
	o.Interval, o.Timeout = cmp.Or(o.Interval, 15*time.Second), cmp.Or(o.Timeout, time.Second)
	return &Prober{o: o, peers: map[Peer]*state{}}
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) {
	var pinger Pinger
	defer func() {
		if pinger != nil {
			pinger.Close()
		}
	}()
	for {
		if pinger == nil {
			var err error
			if pinger, err = p.o.Open(); err != nil {
				pinger = nil
				p.o.Log.Warn("Probing other nodes failed", "error", err)
			}
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
		}
		next := p.o.Interval
		if pinger != nil && !p.round(ctx, pinger) {
			next /= 3 // to see whether it lasts, or because the peers are not known yet
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// round probes all peers concurrently. It reports whether peers exist and all answered.
func (p *Prober) round(ctx context.Context, pinger Pinger) bool {
	peers := p.o.Peers()
	p.mu.Lock()
	for peer := range p.peers {
		if !slices.Contains(peers, peer) {
			delete(p.peers, peer)
		}
	}
	for _, peer := range peers {
		if p.peers[peer] == nil {
			p.peers[peer] = &state{Report: Report{Node: peer.Node, Address: peer.Address.String(), Wanted: peer.Size, Since: time.Now()}}
		}
	}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, peer := range peers {
		all.Go(func() { p.probe(ctx, pinger, peer) })
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.peers {
		if !s.Answers || s.Size < s.Wanted {
			return false
		}
	}
	return len(peers) > 0
}

func (p *Prober) probe(ctx context.Context, pinger Pinger, peer Peer) {
	p.mu.Lock()
	s := p.peers[peer]
	measure := s.rounds%sizeRounds == 0 || s.Size < s.Wanted
	p.mu.Unlock()
	took, err := p.ping(ctx, pinger, s, ping.Small)
	size := 0
	if err == nil && measure {
		size = ping.Largest(peer.Size, func(size int) bool {
			_, err := p.ping(ctx, pinger, s, size)
			return err == nil
		})
	}
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.rounds++
	if answers := err == nil; answers != s.Answers {
		s.Answers, s.Since = answers, time.Now()
	}
	s.Error = ""
	switch {
	case err == nil:
		s.silent, s.RoundTripSeconds = 0, took.Seconds()
	default:
		s.silent++
		if !errors.Is(err, ping.ErrNoAnswer) {
			s.Error = err.Error()
		}
	}
	if size > 0 {
		s.Size = size
	}
	s.Problem = s.problem()
}

// ping sends a packet and retries without an answer; the last attempt uses the other method.
func (p *Prober) ping(ctx context.Context, pinger Pinger, s *state, size int) (took time.Duration, err error) {
	for attempt := range attempts {
		knock, send := s.knocked, pinger.Ping
		if attempt == attempts-1 {
			knock = !knock
		}
		if knock {
			send = pinger.Knock
		}
		limited, cancel := context.WithTimeout(ctx, p.o.Timeout)
		took, err = send(limited, netip.MustParseAddr(s.Address), size)
		cancel()
		p.mu.Lock()
		if s.Sent++; err != nil {
			s.Lost++
		} else {
			s.knocked = knock
		}
		p.mu.Unlock()
		if err == nil || !errors.Is(err, ping.ErrNoAnswer) || ctx.Err() != nil {
			break
		}
	}
	return took, err
}

// tag is the length of a VLAN tag: how much longer than the interface's MTU an arriving packet may
// be. Nodes' answers then arrive in fragments, while pods' packets are lost.
const tag = 4

func (s *state) problem() string {
	switch {
	case s.Error != "" && s.silent >= silentRounds:
		return fmt.Sprintf("probing node %s at %s failed: %s", s.Node, s.Address, s.Error)
	case s.silent >= silentRounds:
		return fmt.Sprintf("node %s does not answer over the overlay (%s), so pods of this node cannot reach its pods: run `contivctl why` with both nodes", s.Node, s.Address)
	case s.Answers && s.Size > 0 && s.Size < s.Wanted:
		sure := s.Size - tag
		return fmt.Sprintf("packets to node %s larger than %d bytes are lost, but pods send up to %d (packets of pods may be lost from %d bytes): raise the MTU of the network between the nodes, or set mtuSize to %d",
			s.Node, s.Size, s.Wanted, sure+1, sure)
	}
	return ""
}

// Reports returns the states of all probed peers, sorted.
func (p *Prober) Reports() []Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	reports := []Report{}
	for _, s := range p.peers {
		reports = append(reports, s.Report)
	}
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Address, b.Address))
	})
	return reports
}

// Problems returns the problems of paths to peers.
func (p *Prober) Problems(context.Context) (problems []string) {
	for _, r := range p.Reports() {
		if r.Problem != "" {
			problems = append(problems, r.Problem)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		problems = append(problems, fmt.Sprintf("probing other nodes failed: %v", p.err))
	}
	return problems
}

func (p *Prober) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, p.Reports())
	})
}
