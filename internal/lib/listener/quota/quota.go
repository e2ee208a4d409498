// Package quota limits concurrent work per client and in total, so that one client cannot exhaust
// memory or lock out others.
package quota

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// ErrExceeded is wrapped by errors of Take.
var ErrExceeded = errors.New("too many at once")

// Quota limits one kind of work. Its exported fields must not change while in use.
type Quota struct {
	// What is the kind of work for errors, e.g. "requests".
	What string
	// Each limits one client, All all clients together. 0: no limit.
	Each, All int

	mu    sync.Mutex
	of    map[string]int // by client, without zeros
	total int
}

// Take counts one unit of work until the first call of release. It does not block. Clients named by
// address and port are identified by their address only.
func (q *Quota) Take(client string) (release func(), err error) {
	if a, err := netip.ParseAddrPort(client); err == nil {
		client = a.Addr().String()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Each > 0 && q.of[client] >= q.Each {
		return nil, fmt.Errorf("%w: %s has %d %s in progress, the limit per client; end some first", ErrExceeded, client, q.of[client], q.What)
	}
	if q.All > 0 && q.total >= q.All {
		return nil, fmt.Errorf("%w: %d %s in progress, the limit for all clients; try again later", ErrExceeded, q.total, q.What)
	}
	if q.of == nil {
		q.of = make(map[string]int)
	}
	q.of[client]++
	q.total++
	return sync.OnceFunc(func() { q.release(client) }), nil
}

func (q *Quota) release(client string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.of[client]--; q.of[client] == 0 {
		delete(q.of, client)
	}
}

// Conn is a connection that is counted until closed.
type Conn struct {
	net.Conn
	// Release is called by Close, before the connection is closed.
	Release func()
}

func (c *Conn) Close() error {
	c.Release()
	return c.Conn.Close()
}
