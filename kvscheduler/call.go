package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/proto"
)

// ErrDeadline is wrapped by the error of a callback that exceeded its deadline.
var ErrDeadline = errors.New("deadline exceeded")

// caller runs callbacks of descriptors, one at a time, on a goroutine of its
// own, so that one that never returns does not stop the scheduler:
//
//	engine ── call ──> goroutine ── callback ──> southbound
//	       <─ result ─            or, after the deadline and some grace: given up
//
// A goroutine that was given up is replaced. Until it returns, its descriptor is
// not called again: callbacks of a descriptor never run concurrently.
type caller struct {
	timeout time.Duration
	work    chan *call
	timer   *time.Timer
	ticking bool // the timer was set, and its firing not noticed yet
	// ctx serves many calls: it lives a bit longer than one of them may take.
	ctx     context.Context
	cancel  context.CancelFunc
	renewAt time.Time
	// spare is used for one call after the other.
	spare *call
	// spent is the time spent in all calls, and last in the last one.
	spent, last time.Duration
	heartbeat   *heartbeat
}

// call is one call of one callback, and its result.
type call struct {
	h        *handler
	name     string
	run      callback
	key      string
	old, new proto.Message
	meta     any
	items    []item
	ctx      context.Context
	start    time.Time

	outMeta  any
	outItems []item
	outErrs  []error
	err      error
	exited   bool          // the callback ended its goroutine
	done     chan struct{} // gets one element when the call returns
}

type callback func(c *call)

func callCreate(c *call)       { c.outMeta, c.err = c.h.create(c.ctx, c.key, c.new) }
func callUpdate(c *call)       { c.outMeta, c.err = c.h.update(c.ctx, c.key, c.old, c.new, c.meta) }
func callDelete(c *call)       { c.err = c.h.delete(c.ctx, c.key, c.old, c.meta) }
func callRetrieve(c *call)     { c.outItems, c.err = c.h.retrieve(c.ctx, c.items) }
func callRetrieveKeys(c *call) { c.outItems, c.err = c.h.retrieveKeys(c.ctx, c.items) }

func newCaller(timeout time.Duration) *caller {
	c := &caller{timeout: timeout, timer: time.NewTimer(time.Hour), heartbeat: newHeartbeat()}
	c.timer.Stop()
	c.start()
	return c
}

func (c *caller) start() {
	c.work = make(chan *call)
	go serve(c.work)
}

// close ends the goroutine, unless it is stuck in a callback.
func (c *caller) close() {
	close(c.work)
	c.timer.Stop()
	if c.cancel != nil {
		c.cancel()
	}
}

func serve(work <-chan *call) {
	for c := range work {
		serveOne(c) // after it, c belongs to the engine again
	}
}

func serveOne(c *call) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			c.err = &PanicError{c.h.name, c.name, p, debug.Stack()}
		} else if !returned {
			c.exited = true
			c.err = fmt.Errorf("%s of descriptor %s ended its goroutine", c.name, c.h.name)
		}
		c.done <- struct{}{}
	}()
	c.run(c)
	returned = true
}

// call returns a call to be filled in, made and forgotten before the next one.
func (c *caller) call() *call {
	if c.spare == nil {
		c.spare = &call{done: make(chan struct{}, 1)}
	}
	*c.spare = call{done: c.spare.done}
	return c.spare
}

// do runs the call. If it exceeds its deadline its results must not be
// looked at, except for the error.
func (c *caller) do(k *call) error {
	if stuck := k.h.running; stuck != nil {
		select {
		case <-stuck.done:
			k.h.running = nil
		default:
			return fmt.Errorf("%s of descriptor %s was not called: %s for %s has not returned since %s: %w",
				k.name, k.h.name, stuck.name, stuck.key, stuck.start.Format(time.RFC3339), ErrDeadline)
		}
	}
	now := time.Now()
	if c.ctx == nil || now.After(c.renewAt) {
		if c.cancel != nil {
			c.cancel()
		}
		slack := c.timeout / 8
		c.renewAt = now.Add(slack)
		c.ctx, c.cancel = context.WithDeadline(context.Background(), now.Add(c.timeout+slack))
	}
	k.ctx, k.start = c.ctx, now
	if k.done == nil {
		k.done = make(chan struct{}, 1)
	}
	c.work <- k
	defer c.heartbeat.beat()
	returned := c.await(k)
	c.last = time.Since(now)
	c.spent += c.last
	if returned {
		if k.exited {
			c.start()
		}
		return k.err
	}
	k.h.running = k
	c.spare = nil
	close(c.work) // the goroutine ends when its callback returns
	c.start()
	return fmt.Errorf("%s of descriptor %s did not return within %v: %w", k.name, k.h.name, c.timeout, ErrDeadline)
}

// await reports whether the call returned before its deadline and some grace. The timer is not set anew for each call,
// which would take as long as much else of a short one, but when it fires because of an earlier one.
func (c *caller) await(k *call) bool {
	limit := c.timeout + c.timeout/2
	if !c.ticking {
		c.timer.Reset(limit)
		c.ticking = true
	}
	for {
		select {
		case <-k.done:
			return true
		case <-c.timer.C:
			left := limit - time.Since(k.start)
			if c.ticking = left > 0; !c.ticking {
				return false
			}
			c.timer.Reset(left)
		}
	}
}
