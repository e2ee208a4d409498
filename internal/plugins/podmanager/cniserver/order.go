package cniserver

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Calls that waited at the socket start in the order in which their connections were accepted,
// although each connection is read in its own goroutine. A connection is a waiting one if it has
// data when it is accepted: a silent connection delays no other.

// orderPatience bounds the delay by an earlier call that arrives incompletely.
const orderPatience = time.Second

// arrival is the place of a connection among the others.
type arrival struct {
	at time.Time
	// before is closed when the earlier waiting calls have started. It is nil if there are none.
	before <-chan struct{}
	// start marks the call as started.
	start func()
}

// arrivals assigns places to connections. It is used by one goroutine.
type arrivals struct {
	last <-chan struct{}
}

func (a *arrivals) next(conn net.Conn) *arrival {
	this := &arrival{at: time.Now(), before: a.last, start: func() {}}
	if !hasData(conn) {
		return this
	}
	started := make(chan struct{})
	a.last, this.start = started, sync.OnceFunc(func() {
		this.await(context.Background()) // the next call waits for all before this one
		close(started)
	})
	return this
}

// await waits until the earlier waiting calls have started.
func (a *arrival) await(ctx context.Context) {
	if a.before == nil {
		return
	}
	limit := time.NewTimer(orderPatience)
	defer limit.Stop()
	select {
	case <-a.before:
	case <-ctx.Done():
	case <-limit.C:
	}
}

// hasData reports whether a connection can be read without waiting.
func hasData(conn net.Conn) (has bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		has = err == nil && n > 0
	})
	return has
}

type arrivalKey struct{}

// Accepted returns the time at which a call's connection was accepted, or now for gRPC.
func Accepted(ctx context.Context) time.Time {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		return a.at
	}
	return time.Now()
}

// Started lets later calls start. A service calls it when the order of its calls is settled. Calls
// that never do hold later ones back until they end, at most for a second.
func Started(ctx context.Context) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.start()
	}
}
