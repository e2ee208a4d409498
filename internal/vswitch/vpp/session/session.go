package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"
)

const (
	clientName = "contiv"
	// firstRetry and lastRetry bound the delay before a new attempt to connect.
	firstRetry, lastRetry = 50 * time.Millisecond, 250 * time.Millisecond
	// A connection is closed and replaced if VPP does not answer for Timeout.
	pingInterval, Timeout = time.Second, 10 * time.Second
)

// Core is the module of every VPP.
var Core = NewModule("", "connection", &memclnt.ControlPing{}, &memclnt.ControlPingReply{}, &vpe.ShowVersion{}, &vpe.ShowVersionReply{})

// Hooks connects the users of a session.
type Hooks struct {
	// Modules lists the used parts of VPP's API, in addition to Core.
	Modules []*Module
	// Opened prepares a new connection before others can use it; may be nil.
	Opened func(context.Context, *Link) error
	// Changed is called after a reconnection; may be nil.
	Changed func(reason string)
	// Beside functions run for the lifetime of the session.
	Beside []func(context.Context)
}

// Session is the connection to VPP, across reconnections.
type Session struct {
	socket string
	log    *slog.Logger
	hooks  Hooks

	cancel context.CancelFunc
	Ended  chan struct{}

	mu      sync.Mutex
	now     *Link // nil: none
	because error // why none exists
	up      chan struct{}
}

func New(socket string, log *slog.Logger) *Session {
	return &Session{
		socket: socket, log: log, Ended: make(chan struct{}), up: make(chan struct{}),
		because: errors.New("the first connection is not there yet"),
	}
}

// Start connects and reconnects until close.
func (s *Session) Start(h Hooks) {
	if h.Opened == nil {
		h.Opened = func(context.Context, *Link) error { return nil }
	}
	if h.Changed == nil {
		h.Changed = func(string) {}
	}
	h.Modules = append([]*Module{Core, CliModule}, h.Modules...)
	s.hooks = h
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.Ended)
		var beside sync.WaitGroup
		for _, run := range s.hooks.Beside {
			beside.Go(func() { run(ctx) })
		}
		s.run(ctx)
		beside.Wait()
	}()
}

func (s *Session) Close() {
	s.cancel()
	<-s.Ended
}

// Link returns the connection, or an error that explains why none exists.
func (s *Session) Link() (*Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil, fmt.Errorf("VPP at %s cannot be reached: %w", s.socket, s.because)
	}
	return s.now, nil
}

// Ready waits for the first connection.
func (s *Session) Ready(ctx context.Context) error {
	select {
	case <-s.up:
		return nil
	case <-ctx.Done():
		_, err := s.Link()
		return errors.Join(err, ctx.Err())
	}
}

func (s *Session) run(ctx context.Context) {
	delay, logged := firstRetry, ""
	var last *Link
	var lost time.Time
	for ctx.Err() == nil {
		l, err := s.connect(ctx)
		if err != nil {
			s.set(nil, err)
			if text := err.Error(); text != logged && ctx.Err() == nil {
				s.log.Warn("Connecting to VPP failed, retrying", "socket", s.socket, "error", err)
				logged = text
			}
			if Sleep(ctx, delay) != nil {
				return
			}
			delay = min(2*delay, lastRetry)
			continue
		}
		delay, logged = firstRetry, ""
		s.set(l, nil)
		s.log.Info("Connected to VPP", "socket", s.socket, "version", l.Version, "pid", l.pid, "lacking", len(l.Lacks()))
		for _, reason := range l.Lacks() {
			s.log.Warn("VPP lacks a feature", "reason", reason)
		}
		switch {
		case last == nil:
			close(s.up)
		case last.pid == l.pid:
			s.hooks.Changed(fmt.Sprintf("the connection to VPP was lost for %v", time.Since(lost).Round(time.Millisecond)))
		default:
			s.hooks.Changed(fmt.Sprintf("VPP was restarted, and away for %v", time.Since(lost).Round(time.Millisecond)))
		}
		last = l
		err = s.keepAlive(ctx, l)
		lost = time.Now()
		s.set(nil, err)
		l.Close()
		if ctx.Err() == nil {
			s.log.Warn("Connection to VPP lost", "socket", s.socket, "error", err)
		}
	}
}

func (s *Session) set(l *Link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.because = l, err
}

// connect opens a connection and checks the VPP.
func (s *Session) connect(ctx context.Context) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	conn, err := vppapi.Dial(ctx, s.socket, clientName)
	if err != nil {
		return nil, err
	}
	l := &Link{Conn: conn}
	if l.modules, err = checkModules(conn, s.hooks.Modules); err == nil {
		err = s.look(ctx, l)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// look reads VPP's identity.
func (s *Session) look(ctx context.Context, l *Link) error {
	var ping memclnt.ControlPingReply
	if err := l.Call(ctx, &memclnt.ControlPing{}, &ping); err != nil {
		return err
	}
	var version vpe.ShowVersionReply
	if err := l.Call(ctx, &vpe.ShowVersion{}, &version); err != nil {
		return err
	}
	l.pid, l.Version = ping.VpePID, version.Version
	return s.hooks.Opened(ctx, l)
}

// keepAlive returns when the connection ends or VPP stops answering.
func (s *Session) keepAlive(ctx context.Context, l *Link) error {
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
		ping, cancel := context.WithTimeout(ctx, Timeout)
		err := l.Call(ping, &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("VPP has not answered for %v", Timeout)
		}
		if err != nil {
			return err
		}
	}
}

func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Use returns the connection if the module can be used.
func (s *Session) Use(m *Module) (*Link, error) {
	l, err := s.Link()
	if err != nil {
		return nil, err
	}
	return l, l.Lacking(m)
}

// Call sends a request of a module and waits for its reply.
func (s *Session) Call(ctx context.Context, m *Module, req, reply api.Message) error {
	l, err := s.Use(m)
	if err != nil {
		return err
	}
	return l.Call(ctx, req, reply)
}

// Dump returns all objects of a kind.
func Dump[D any, M interface {
	*D
	api.Message
}](ctx context.Context, s *Session, m *Module, req api.Message) ([]M, error) {
	l, err := s.Use(m)
	if err != nil {
		return nil, err
	}
	return vppapi.DumpAll[D, M](ctx, l.Conn, req)
}
