package policylab

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Disruptions kills agents, stops etcd, adds and removes a node, and replaces policies. Connections
// that all policies allow must continue, and a pod that no current policy allows must not get
// through, even with connections that an earlier policy allowed.
func Disruptions(t *testing.T, l *lab.Lab) {
	p := newPolicyLab(t, l)
	p.policy(t, "x", "former", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}]}]}")
	p.want(t, "only pods of z reach x", func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) })
	var former []net.Conn
	for _, address := range p.pods["x/a"].Addresses() {
		former = append(former, connect(t, p.pods["z/b"].Netns, address))
	}
	p.remove(t, "NetworkPolicy", "x", "former")
	p.want(t, "everything passes without policies", func(_, _, _ string) bool { return true })
	p.policy(t, "x", "first", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}")
	want := func(src, dst, _ string) bool { return !in("x", dst) || in("x", src) }
	p.want(t, "only pods of x reach x", want)
	var streams []*stream
	for _, address := range p.pods["x/a"].Addresses() {
		streams = append(streams, newStream(t, p.pods["x/b"].Netns, labtest.Echo(t, p.pods["x/a"].Netns, net.JoinHostPort(address.String(), "0"))))
	}
	intruder := newIntruder(t, p.pods["z/b"].Netns, p.pods["x/a"].Addresses(), former)

	ctx := t.Context()
	agents := func(do func(context.Context, string) error) func() error {
		return func() error {
			for _, node := range []string{"node1", "node2"} {
				if err := do(ctx, node); err != nil {
					return err
				}
			}
			return nil
		}
	}
	replace := func(from, to, spec string) func() error {
		return func() error {
			p.policy(t, "x", to, spec)
			p.remove(t, "NetworkPolicy", "x", from)
			return nil
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"agents are killed", agents(p.KillAgent)},
		{"agents are started", agents(p.StartAgent)},
		{"etcd stops", func() error { return p.StopEtcd(ctx) }},
		{"agents are killed without etcd", agents(p.KillAgent)},
		{"agents are started without etcd", agents(p.StartAgent)},
		{"etcd starts", func() error { return p.StartEtcd(ctx) }},
		{"a node joins", func() error { _, err := p.AddNode(ctx, "node3"); return err }},
		{"a policy replaces another one", replace("first", "second", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+red+"}]}]}")},
		{"the node leaves", func() error { return p.DelNode(ctx, "node3") }},
		{"and once more", replace("second", "third", "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}, {podSelector: {matchLabels: {pod: a}}}]}]}")},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		p.want(t, "after: "+step.name, want)
		for _, s := range streams {
			s.goesOn(t, step.name)
		}
		intruder.fails(t, step.name)
	}
	labtest.RequireQuiet(t, p.Lab)
}

func connect(t *testing.T, netns string, to netip.Addr) (c net.Conn) {
	t.Helper()
	if err := labtest.Inside(netns, func() (err error) {
		c, err = net.Dial("udp", net.JoinHostPort(to.String(), "80"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := exchange(c, longWait); err != nil {
		t.Fatal(err)
	}
	return c
}

// stream is a connection with continuous traffic.
type stream struct {
	answers atomic.Int64
	ended   chan error
}

func newStream(t *testing.T, netns, address string) *stream {
	t.Helper()
	s := &stream{ended: make(chan error, 1)}
	var c net.Conn
	if err := labtest.Inside(netns, func() (err error) {
		c, err = net.DialTimeout("tcp", address, longWait)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buffer := []byte("?")
		for {
			_, err := c.Write(buffer)
			if err == nil {
				_, err = io.ReadFull(c, buffer)
			}
			if err != nil {
				s.ended <- err
				return
			}
			s.answers.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	return s
}

func (s *stream) goesOn(t *testing.T, when string) {
	t.Helper()
	end := time.After(20 * time.Second)
	for goal := s.answers.Load() + 20; s.answers.Load() < goal; {
		select {
		case err := <-s.ended:
			t.Fatalf("%s: a connection that all policies allow has ended: %v", when, err)
		case <-end:
			t.Fatalf("%s: a connection that all policies allow stands still", when)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// intruder sends to addresses that no policy allows, and on connections that an earlier policy
// allowed.
type intruder struct{ tries, reached atomic.Int64 }

func newIntruder(t *testing.T, netns string, addresses []netip.Addr, former []net.Conn) *intruder {
	const wait = 5 * time.Millisecond
	i := &intruder{}
	var knocks []func() bool
	for _, address := range addresses {
		for _, port := range []string{"tcp/80", "udp/80"} {
			knocks = append(knocks, func() bool { return reaches(netns, address, port, wait) })
		}
	}
	for _, c := range former {
		knocks = append(knocks, func() bool { return exchange(c, wait) == nil })
	}
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for {
			for _, knock := range knocks {
				select {
				case <-stop:
					return
				default:
				}
				if knock() {
					i.reached.Add(1)
				}
				i.tries.Add(1)
			}
		}
	}()
	return i
}

func (i *intruder) fails(t *testing.T, when string) {
	t.Helper()
	if n := i.reached.Load(); n > 0 {
		t.Fatalf("until %s, %d of %d tries of a pod that no policy allows have succeeded", when, n, i.tries.Load())
	}
}
