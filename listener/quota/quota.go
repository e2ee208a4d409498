// Package quota bounds what clients have in progress at once, so that one that never ends what it
// begins does not take a program's memory, nor other clients' turns.
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

// Quota bounds one kind of work. Its fields do not change while it is in use.
type Quota struct {
	// What is counted, for errors: "requests", for example.
	What string
	// Each is how many one client may have at once, All how many there may be at once. 0: any number.
	Each, All int

	mu    sync.Mutex
	of    map[string]int // by client, without zeros
	total int
}

// Take counts one more for the client until release is called, for the first time. It does not
// wait: the error says what the client can do. Clients that are named by their address and port are
// one if they have the same address.
func (q *Quota) Take(client string) (release func(), err error) {
	if a, err := netip.ParseAddrPort(client); err == nil {
		client = a.Addr().String()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Each > 0 && q.of[client] >= q.Each {
		return nil, fmt.Errorf("%w: %s has %d %s in progress already, and no client may have more: end some of them first", ErrExceeded, client, q.of[client], q.What)
	}
	if q.All > 0 && q.total >= q.All {
		return nil, fmt.Errorf("%w: there are %d %s of all clients in progress, and there may be no more: try again when some have ended", ErrExceeded, q.total, q.What)
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

// Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	// Release is called by Close, before the connection is closed.
	Release func()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.Release()
	return c.Conn.Close()
}
