package faults

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

type proxy struct {
	netns    string // of the underlay
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	mode  mode
	delay time.Duration
	// changed is closed and replaced with each change of the mode.
	changed chan struct{}
	conns   map[net.Conn]bool
	closed  bool
}

type mode int

const (
	pass mode = iota
	// refuse closes existing and new connections.
	refuse
	// hang keeps connections open without forwarding data.
	hang
)

// newProxy inserts a proxy between the agent of a node and etcd. It takes effect when the agent
// restarts.
func (s *site) newProxy(t *testing.T, node string) *proxy {
	t.Helper()
	n, router := s.node(t, node), lab.RouterAddress.Addr().String()
	p := &proxy{netns: lab.NetnsPath(s.state(t).Underlay()), changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	err := lab.InNetns(p.netns, func() (err error) {
		p.listener, err = net.Listen("tcp", net.JoinHostPort(router, "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	rules := fmt.Sprintf("add table ip faults; add chain ip faults output { type nat hook output priority -100; }; "+
		"add rule ip faults output ip daddr %s tcp dport 32379 dnat to %s", router, p.listener.Addr())
	if _, err := s.Exec(t.Context(), n.Name, "nft", rules); err != nil {
		t.Fatal(err)
	}
	return p
}

// set changes the mode and the delay per direction.
func (p *proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.delay = m, delay
	close(p.changed)
	p.changed = make(chan struct{})
	if m == refuse {
		p.dropAll()
	}
}

func (p *proxy) dropAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	close(p.changed)
	p.changed = make(chan struct{})
	p.dropAll()
	p.mu.Unlock()
	p.listener.Close()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		agent, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(agent) })
	}
}

func (p *proxy) serve(agent net.Conn) {
	defer agent.Close()
	if !p.keep(agent) {
		return
	}
	defer p.forget(agent)
	etcd, err := dialIn(context.Background(), p.netns, etcdAddress)
	if err != nil {
		return // etcd is down
	}
	defer etcd.Close()
	if !p.keep(etcd) {
		return
	}
	defer p.forget(etcd)
	var both sync.WaitGroup
	both.Go(func() { p.forward(agent, etcd) })
	both.Go(func() { p.forward(etcd, agent) })
	both.Wait()
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.mode == refuse {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

type chunk struct {
	data []byte
	at   time.Time
}

// forward copies data in one direction with the delay, or after the proxy stops hanging. It closes
// both sides at the end.
func (p *proxy) forward(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	chunks := make(chan chunk, 1024)
	p.running.Go(func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			chunks <- chunk{data[:n], time.Now()}
		}
	})
	failed := false
	for c := range chunks {
		if failed || !p.due(c.at) {
			failed = true
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			failed = true
			from.Close()
		}
	}
}

// due waits until data received at a time must be forwarded. It returns false if the connection has
// ended.
func (p *proxy) due(at time.Time) bool {
	for {
		p.mu.Lock()
		mode, delay, changed, closed := p.mode, p.delay, p.changed, p.closed
		p.mu.Unlock()
		var late <-chan time.Time
		switch {
		case closed || mode == refuse:
			return false
		case mode == pass && time.Since(at) >= delay:
			return true
		case mode == pass:
			late = time.After(delay - time.Since(at))
		}
		select {
		case <-late:
		case <-changed:
		}
	}
}
