package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Stream sends UDP datagrams at a fixed interval from one endpoint to another, which echoes them.
type Stream struct {
	// Path is "<from> → <to>".
	Path string

	interval time.Duration
	client   net.Conn
	server   net.PacketConn
	stop     chan struct{}
	sending  sync.WaitGroup
	running  sync.WaitGroup

	mu       sync.Mutex
	sent     []time.Time
	returned []bool
	arrived  int
	change   chan struct{} // closed when arrived grows
}

// StreamReport counts the sent and lost datagrams of a stream.
type StreamReport struct {
	Sent, Lost int
	// LongestGap is the longest time in which all datagrams were lost.
	LongestGap time.Duration
}

func (r StreamReport) String() string {
	return fmt.Sprintf("%d sent, %d lost, longest gap %s", r.Sent, r.Lost, r.LongestGap.Round(time.Millisecond))
}

// StartStream starts a stream; the caller must call Stop.
func StartStream(from, to Endpoint, interval time.Duration) (*Stream, error) {
	s := &Stream{Path: from.Name + " → " + to.Name, interval: interval, stop: make(chan struct{}), change: make(chan struct{})}
	err := InNetns(NetnsPath(to.Netns), func() (err error) {
		s.server, err = net.ListenPacket("udp", netip.AddrPortFrom(to.Address, 0).String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening in %s: %w", to.Name, err)
	}
	s.client, err = dialIn(context.Background(), NetnsPath(from.Netns), "udp", s.server.LocalAddr().String())
	if err != nil {
		s.server.Close()
		return nil, fmt.Errorf("sending from %s: %w", from.Name, err)
	}
	s.running.Go(s.echo)
	s.running.Go(s.receive)
	s.sending.Go(s.send)
	return s, nil
}

// Await waits until n more datagrams have come back. It returns ctx's error if ctx ends first.
func (s *Stream) Await(ctx context.Context, n int) error {
	s.mu.Lock()
	goal := s.arrived + n
	s.mu.Unlock()
	for {
		s.mu.Lock()
		arrived, change := s.arrived, s.change
		s.mu.Unlock()
		if arrived >= goal {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("%s: %d of %d datagrams came back: %w", s.Path, n-(goal-arrived), n, ctx.Err())
		}
	}
}

// Stop ends the stream, waits a second for the last datagrams, and returns the report.
func (s *Stream) Stop() StreamReport {
	close(s.stop)
	s.sending.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.mu.Lock()
	missing := len(s.sent) - s.arrived
	s.mu.Unlock()
	s.Await(ctx, missing)
	s.client.Close()
	s.server.Close()
	s.running.Wait()
	return s.report()
}

func (s *Stream) report() StreamReport {
	r := StreamReport{Sent: len(s.sent)}
	var lastBefore time.Time
	for i, at := range s.sent {
		if s.returned[i] {
			if i > 0 && !s.returned[i-1] && !lastBefore.IsZero() {
				r.LongestGap = max(r.LongestGap, at.Sub(lastBefore))
			}
			lastBefore = at
			continue
		}
		r.Lost++
	}
	if n := len(s.sent); n > 0 && !s.returned[n-1] && !lastBefore.IsZero() {
		r.LongestGap = max(r.LongestGap, s.sent[n-1].Sub(lastBefore))
	}
	return r
}

func (s *Stream) send() {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		var payload [8]byte
		s.mu.Lock()
		binary.BigEndian.PutUint64(payload[:], uint64(len(s.sent)))
		s.sent = append(s.sent, time.Now())
		s.returned = append(s.returned, false)
		s.mu.Unlock()
		// A datagram that cannot be sent, e.g. without a route, counts as lost.
		s.client.Write(payload[:])
	}
}

func (s *Stream) receive() {
	var payload [8]byte
	for {
		n, err := s.client.Read(payload[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Other errors report ICMP errors of earlier datagrams.
		if err != nil || n != len(payload) {
			continue
		}
		i := binary.BigEndian.Uint64(payload[:])
		s.mu.Lock()
		if i < uint64(len(s.returned)) && !s.returned[i] {
			s.returned[i] = true
			s.arrived++
			close(s.change)
			s.change = make(chan struct{})
		}
		s.mu.Unlock()
	}
}

func (s *Stream) echo() {
	var payload [8]byte
	for {
		n, from, err := s.server.ReadFrom(payload[:])
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err == nil {
			s.server.WriteTo(payload[:n], from)
		}
	}
}
