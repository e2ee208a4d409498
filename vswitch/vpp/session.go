package vpp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"
)

const (
	clientName = "contiv"
	// firstRetry and lastRetry bound how long after a failed attempt to connect the
	// next one follows.
	firstRetry, lastRetry = 50 * time.Millisecond, 250 * time.Millisecond
	// A VPP that does not answer for so long is given up, and connected to anew.
	pingInterval, pingTimeout = time.Second, 10 * time.Second
)

// core is what every VPP has.
var core = newModule("", "connection", &memclnt.ControlPing{}, &memclnt.ControlPingReply{}, &vpe.ShowVersion{}, &vpe.ShowVersionReply{})

// session is the way to VPP, whichever connection that is now.
type session struct {
	socket string
	log    *slog.Logger
	// opened prepares what is new with a connection, before anybody can use it.
	opened func(context.Context, *link) error
	// changed is called after a connection was lost and found again.
	changed func(reason string)
	// beside run as long as the session.
	beside []func(context.Context)

	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	now     *link // nil: none
	because error // why there is none
	up      chan struct{}
}

// link is a connection that is in order.
type link struct {
	*vppapi.Conn
	pid     uint32
	version string
	lacks   map[*module]error
	sources atomic.Pointer[fibSources] // nil: not asked for yet
}

func newSession(socket string, log *slog.Logger) *session {
	return &session{
		socket: socket, log: log, ended: make(chan struct{}), up: make(chan struct{}),
		because: errors.New("the first connection is not there yet"),
		opened:  func(context.Context, *link) error { return nil },
		changed: func(string) {},
	}
}

// start connects, again and again, until close.
func (s *session) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		var beside sync.WaitGroup
		for _, run := range s.beside {
			beside.Go(func() { run(ctx) })
		}
		s.run(ctx)
		beside.Wait()
	}()
}

func (s *session) close() {
	s.cancel()
	<-s.ended
}

// link returns the connection, or an error that says why there is none.
func (s *session) link() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil, fmt.Errorf("VPP at %s cannot be reached: %w", s.socket, s.because)
	}
	return s.now, nil
}

// ready waits for the first connection.
func (s *session) ready(ctx context.Context) error {
	select {
	case <-s.up:
		return nil
	case <-ctx.Done():
		_, err := s.link()
		return errors.Join(err, ctx.Err())
	}
}

func (s *session) run(ctx context.Context) {
	delay, logged := firstRetry, ""
	var last *link
	var lost time.Time
	for ctx.Err() == nil {
		l, err := s.connect(ctx)
		if err != nil {
			s.set(nil, err)
			if text := err.Error(); text != logged && ctx.Err() == nil {
				s.log.Warn("VPP cannot be reached, trying again", "socket", s.socket, "error", err)
				logged = text
			}
			if wait(ctx, delay) != nil {
				return
			}
			delay = min(2*delay, lastRetry)
			continue
		}
		delay, logged = firstRetry, ""
		s.set(l, nil)
		s.log.Info("Connected to VPP", "socket", s.socket, "version", l.version, "pid", l.pid, "lacking", len(l.lacks))
		for _, reason := range l.lacks {
			s.log.Warn("VPP lacks something", "reason", reason)
		}
		switch {
		case last == nil:
			close(s.up)
		case last.pid == l.pid:
			s.changed(fmt.Sprintf("the connection to VPP was lost for %v", time.Since(lost).Round(time.Millisecond)))
		default:
			s.changed(fmt.Sprintf("VPP was restarted, and away for %v", time.Since(lost).Round(time.Millisecond)))
		}
		last = l
		err = s.keepAlive(ctx, l)
		lost = time.Now()
		s.set(nil, err)
		l.Close()
		if ctx.Err() == nil {
			s.log.Warn("The connection to VPP is lost", "socket", s.socket, "error", err)
		}
	}
}

func (s *session) set(l *link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.because = l, err
}

// connect makes a connection and checks what VPP it is to.
func (s *session) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := vppapi.Dial(ctx, s.socket, clientName)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn}
	if l.lacks, err = checkModules(conn); err == nil {
		err = s.look(ctx, l)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// look asks VPP who it is.
func (s *session) look(ctx context.Context, l *link) error {
	var ping memclnt.ControlPingReply
	if err := l.Call(ctx, &memclnt.ControlPing{}, &ping); err != nil {
		return err
	}
	var version vpe.ShowVersionReply
	if err := l.Call(ctx, &vpe.ShowVersion{}, &version); err != nil {
		return err
	}
	l.pid, l.version = ping.VpePID, version.Version
	return s.opened(ctx, l)
}

// keepAlive returns when the connection has ended or VPP does not answer any more.
func (s *session) keepAlive(ctx context.Context, l *link) error {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Done():
			return l.Err()
		case <-ticker.C:
		}
		ping, cancel := context.WithTimeout(ctx, pingTimeout)
		err := l.Call(ping, &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("VPP has not answered for %v", pingTimeout)
		}
		if err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// use returns the connection if the module can be used.
func (v *VSwitch) use(m *module) (*link, error) {
	l, err := v.session.link()
	if err != nil {
		return nil, err
	}
	if err := l.lacks[m]; err != nil {
		return nil, err
	}
	return l, nil
}

// call sends a request of a module and waits for its reply.
func (v *VSwitch) call(ctx context.Context, m *module, req, reply api.Message) error {
	l, err := v.use(m)
	if err != nil {
		return err
	}
	return l.Call(ctx, req, reply)
}

// dump returns all objects of a kind.
func dump[D any, M interface {
	*D
	api.Message
}](ctx context.Context, v *VSwitch, m *module, req api.Message) ([]M, error) {
	l, err := v.use(m)
	if err != nil {
		return nil, err
	}
	return vppapi.DumpAll[D, M](ctx, l.Conn, req)
}
