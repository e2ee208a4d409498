package pathexplain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/netlink/namespace"
)

// answerTimeout bounds each probe.
const answerTimeout = 700 * time.Millisecond

// probe sends packets from the source to each point on the path. The last point that answers shows
// how far they get.
func (e *Explainer) probe(ctx context.Context, r *Report, q Question, from, to end) {
	var in func(func() error) error
	name, source := "node "+e.o.Node, netip.Addr{}
	if from.pod != nil {
		ns, err := namespace.Open(from.pod.NetNS)
		if err != nil {
			return // reported as a finding
		}
		defer ns.Close()
		in, name, source = ns.Run, "pod "+from.pod.Name, from.addr
	}
	if from.isNode() {
		if local, err := localAddresses(); err == nil && local[from.addr].device != 0 { // a separate vswitch has its addresses for itself
			source = from.addr
		}
	}
	here, err := ping.Open(in, source)
	if err != nil {
		r.find(name, fmt.Sprintf("nothing can be sent from there: %v", err))
		return
	}
	defer here.Close()
	node, err := ping.Open(nil, netip.Addr{})
	if err != nil {
		return
	}
	defer node.Close()

	same := func(list []netip.Addr) (netip.Addr, bool) { return sameVersion(list, q.To) }
	type step struct {
		pinger *ping.Pinger
		probe  Probe
		addr   netip.Addr
	}
	var steps []step
	add := func(pinger *ping.Pinger, from, what string, addr netip.Addr, last bool) {
		steps = append(steps, step{pinger, Probe{From: from, To: what, Kind: "icmp", End: last}, addr})
	}
	for _, n := range e.o.Nodes() {
		if gateway, ok := same(n.Gateways); ok && n.Name == e.o.Node && from.pod != nil {
			add(here, name, fmt.Sprintf("its gateway (%v)", gateway), gateway, false)
		}
	}
	if to.node != nil && !to.here {
		if addr, ok := same(to.node.Addresses); ok {
			add(node, "node "+e.o.Node, fmt.Sprintf("node %s (%v)", to.node.Name, addr), addr, false)
		}
		if gateway, ok := same(to.node.Gateways); ok {
			add(node, "node "+e.o.Node, fmt.Sprintf("node %s over the overlay (%v)", to.node.Name, gateway), gateway, false)
			steps[len(steps)-1].probe.Overlay = from.pod == nil || !slices.Contains(to.node.Addresses, to.addr)
		}
	}
	if !r.translated { // service addresses do not answer pings
		add(here, name, to.String(), to.addr, true)
	}
	var all sync.WaitGroup
	for i := range steps {
		all.Go(func() { e.send(ctx, steps[i].pinger, steps[i].addr, &steps[i].probe) })
	}
	all.Wait()
	for _, s := range steps {
		r.Probes = append(r.Probes, s.probe)
	}
	if q.Protocol == "tcp" {
		r.Probes = append(r.Probes, connect(ctx, in, name, here.Source(), to, q.Port))
	}
}

// sameVersion returns the first address of the same IP version as other.
func sameVersion(list []netip.Addr, other netip.Addr) (netip.Addr, bool) {
	i := slices.IndexFunc(list, func(a netip.Addr) bool { return a.Is4() == other.Is4() })
	if i < 0 {
		return netip.Addr{}, false
	}
	return list[i], true
}

// send sends small packets, then large ones. It uses UDP for an end that ignores echo requests.
func (e *Explainer) send(ctx context.Context, pinger *ping.Pinger, to netip.Addr, p *Probe) {
	way := pinger.Ping
	try := func(size int) (took time.Duration, err error) {
		for range 2 {
			limited, cancel := context.WithTimeout(ctx, answerTimeout)
			took, err = way(limited, to, size)
			cancel()
			if err == nil || !errors.Is(err, ping.ErrNoAnswer) {
				break
			}
		}
		return took, err
	}
	took, err := try(ping.Small)
	if errors.Is(err, ping.ErrNoAnswer) {
		way = pinger.Knock
		limited, cancel := context.WithTimeout(ctx, answerTimeout)
		if took, err = way(limited, to, ping.Small); err == nil {
			p.Kind = "udp"
		}
		cancel()
	}
	if err != nil {
		p.Error = err.Error()
		return
	}
	p.Answered, p.RoundTripSeconds, p.Wanted = true, took.Seconds(), e.o.MTU()
	_, err = try(p.Wanted)
	switch {
	case err == nil:
		p.Size = p.Wanted
	case p.Kind == "udp": // such answers are too few for a search
		p.Size = ping.Small
	default:
		p.Size = ping.Largest(p.Wanted, func(size int) bool {
			limited, cancel := context.WithTimeout(ctx, answerTimeout/4)
			defer cancel()
			_, err := pinger.Ping(limited, to, size)
			return err == nil
		})
	}
}

// Refused is the error of a refused connection.
const Refused = "refused: no process listens on the port, or a filter rejects"

func connect(ctx context.Context, in func(func() error) error, from string, source netip.Addr, to end, port uint16) Probe {
	p := Probe{From: from, To: fmt.Sprintf("%v, port %d/tcp", to, port), Kind: "tcp", End: true}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	start := time.Now()
	dialer := &net.Dialer{}
	if source.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	dial := func() error {
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(to.addr, port).String())
		if err == nil {
			conn.Close()
		}
		return err
	}
	if in != nil {
		inside := dial
		dial = func() error { return in(inside) }
	}
	if err := dial(); err == nil {
		p.Answered, p.RoundTripSeconds = true, time.Since(start).Seconds()
	} else {
		p.Error = failure(err)
	}
	return p
}

// failure returns the reason why a connection failed.
func failure(err error) string {
	var operation *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ping.ErrNoAnswer.Error()
	case errors.As(err, &operation):
		return operation.Err.Error()
	}
	return err.Error()
}
