package server

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// Connection limits. A connection is pending until its TLS handshake has verified a certificate.
const (
	handshakeTimeout = 5 * time.Second
	// pendingPerAddress limits the pending connections of a source address, and pendingInTotal all
	// of them.
	pendingPerAddress = 256
	pendingInTotal    = 4096
	// connectionsPerClient limits the connections of a certificate or, without certificates, of a
	// source address.
	connectionsPerClient = 256
	// reservedDescriptors are left for data, log and other members.
	reservedDescriptors = 150
)

// gate admits the connections of clients.
//
//	accept ──> pending: limits per source address and in total; the oldest makes room for the newest
//	             │ handshake with a certificate, within handshakeTimeout
//	             v
//	           established: limits per certificate and in total; a further one is refused
//
// Pending and established connections use separate file descriptors, so that clients without a
// certificate cannot displace others. During a flood, a client succeeds if its handshake is faster
// than the flood fills the limit of its source address.
type gate struct {
	perAddress, maxPending    int
	perClient, maxEstablished int

	mu               sync.Mutex
	pending          map[netip.Addr]*list.List
	pendingCount     int
	established      map[string]int
	establishedCount int
}

// newGate sets the limits from the process's limit of open files.
func newGate() *gate {
	descriptors := 1024
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		descriptors = int(min(limit.Cur, 1<<30))
	}
	usable := max(descriptors-reservedDescriptors, 16)
	pending := min(pendingInTotal, usable/4)
	return &gate{
		perAddress: min(pendingPerAddress, max(pending/4, 1)), maxPending: pending,
		perClient: connectionsPerClient, maxEstablished: usable - 2*pending,
		pending: make(map[netip.Addr]*list.List), established: make(map[string]int),
	}
}

type gateListener struct {
	net.Listener
	gate *gate
	// certificates keeps connections pending until gateCredentials has verified a certificate.
	certificates bool
}

func (l *gateListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &gateConn{Conn: raw, gate: l.gate}
		if source, err := netip.ParseAddrPort(raw.RemoteAddr().String()); err == nil {
			conn.source = source.Addr().Unmap()
		}
		if l.certificates {
			l.gate.admit(conn)
			return conn, nil
		}
		if !conn.source.IsValid() { // a unix socket, which only the same user can open
			return raw, nil
		}
		if conn.gate.establish(conn, conn.source.String()) == nil {
			return conn, nil
		}
		conn.Close()
	}
}

// gateConn is a client's connection. The gate's lock guards the fields below.
type gateConn struct {
	net.Conn
	gate   *gate
	source netip.Addr
	// place is the position among the pending connections, or nil.
	place *list.Element
	// client is the certificate's name or the source address. It is "" until established.
	client string
	closed bool
}

// Close also frees the connection's place.
func (c *gateConn) Close() error {
	c.gate.forget(c)
	return c.Conn.Close()
}

var errTooManyConnections = errors.New("too many connections")

// admit makes a connection pending. Over a limit, it closes the oldest pending connection of the
// same address, or of the address with most.
func (g *gate) admit(c *gateConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.pending[c.source]; l != nil && l.Len() >= g.perAddress {
		g.evict(l, "address")
	}
	if g.pendingCount >= g.maxPending {
		var most *list.List
		for _, l := range g.pending {
			if most == nil || l.Len() > most.Len() {
				most = l
			}
		}
		g.evict(most, "total")
	}
	l := g.pending[c.source]
	if l == nil {
		l = list.New()
		g.pending[c.source] = l
	}
	c.place = l.PushBack(c)
	g.pendingCount++
	pendingConnections.Inc()
}

func (g *gate) evict(l *list.List, reason string) {
	oldest := l.Front().Value.(*gateConn)
	g.leavePending(oldest)
	oldest.Conn.Close()
	refusedConnections.WithLabelValues(reason).Inc()
}

func (g *gate) leavePending(c *gateConn) {
	if c.place == nil {
		return
	}
	l := g.pending[c.source]
	l.Remove(c.place)
	c.place = nil
	if l.Len() == 0 {
		delete(g.pending, c.source)
	}
	g.pendingCount--
	pendingConnections.Dec()
}

// establish counts a connection of the client, or returns errTooManyConnections.
func (g *gate) establish(c *gateConn, client string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leavePending(c)
	switch {
	case c.closed:
		return net.ErrClosed
	case g.established[client] >= g.perClient, g.establishedCount >= g.maxEstablished:
		refusedConnections.WithLabelValues("client").Inc()
		return fmt.Errorf("%w of %s", errTooManyConnections, client)
	}
	c.client = client
	g.established[client]++
	g.establishedCount++
	establishedConnections.Inc()
	return nil
}

func (g *gate) forget(c *gateConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leavePending(c)
	if c.client != "" && !c.closed {
		if g.established[c.client]--; g.established[c.client] == 0 {
			delete(g.established, c.client)
		}
		g.establishedCount--
		establishedConnections.Dec()
	}
	c.closed = true
}

type gateCredentials struct {
	credentials.TransportCredentials
}

func (c gateCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := c.TransportCredentials.ServerHandshake(raw)
	conn, ok := raw.(*gateConn)
	if err != nil || !ok {
		if err != nil {
			refusedConnections.WithLabelValues("handshake").Inc()
		}
		return secure, info, err
	}
	client := commonNameOf(info)
	if client == "" {
		client = conn.source.String()
	}
	if err := conn.gate.establish(conn, client); err != nil {
		secure.Close()
		return nil, nil, err
	}
	return secure, info, nil
}

func (c gateCredentials) Clone() credentials.TransportCredentials {
	return gateCredentials{c.TransportCredentials.Clone()}
}

func commonNameOf(info credentials.AuthInfo) string {
	if tls, ok := info.(credentials.TLSInfo); ok && len(tls.State.VerifiedChains) > 0 {
		return tls.State.VerifiedChains[0][0].Subject.CommonName
	}
	return ""
}
