package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
)

// ErrDeadline is wrapped by the error of a callback that exceeded its deadline.
var ErrDeadline = errors.New("deadline exceeded")

// caller runs callbacks of descriptors, one at a time, on a goroutine of its
// own, so that one that never returns does not stop the scheduler:
//
//	engine ── call ──> goroutine ── callback ──> southbound
//	       <─ result ─            or, after the deadline and some grace: given up, by watch
//
// A goroutine that was given up is replaced. Until it returns, its descriptor is
// not called again: callbacks of a descriptor never run concurrently.
//
// Two changes of goroutine for a call are the least: whoever commits must get an answer after the deadline, so its
// goroutine cannot be the one in the callback. A coroutine (iter.Pull) changes faster, but the process
// ends if a goroutine that is locked to its thread, as those in a network namespace are, commits a transaction.
type caller struct {
	timeout time.Duration
	work    chan *call
	// began is when the call under way began, as the heartbeat counts; 0: none is. Whoever makes it 0
	// ends the call: the goroutine, when the callback has returned, or watch, to give it up.
	began atomic.Int64
	ended chan bool // whether the callback returned, once per call
	// watcher calls watch.
	watcher *time.Timer
	closed  atomic.Bool
	// ctx serves many calls: it lives a bit longer than one of them may take.
	ctx     context.Context
	cancel  context.CancelFunc
	renewAt time.Duration // as the heartbeat counts
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
	began    int64 // see caller

	outMeta  any
	outItems []item
	outErrs  []error
	err      error
	exited   bool        // the callback ended its goroutine
	returned atomic.Bool // after the call was given up
}

type callback func(c *call)

func callCreate(c *call)       { c.outMeta, c.err = c.h.create(c.ctx, c.key, c.new) }
func callUpdate(c *call)       { c.outMeta, c.err = c.h.update(c.ctx, c.key, c.old, c.new, c.meta) }
func callDelete(c *call)       { c.err = c.h.delete(c.ctx, c.key, c.old, c.meta) }
func callRetrieve(c *call)     { c.outItems, c.err = c.h.retrieve(c.ctx, c.items) }
func callRetrieveKeys(c *call) { c.outItems, c.err = c.h.retrieveKeys(c.ctx, c.items) }

func newCaller(timeout time.Duration) *caller {
	c := &caller{timeout: timeout, ended: make(chan bool, 1), heartbeat: newHeartbeat()}
	c.start()
	c.watcher = time.AfterFunc(time.Hour, c.watch)
	c.watcher.Reset(c.limit())
	return c
}

func (c *caller) start() {
	c.work = make(chan *call)
	go c.serve(c.work)
}

// close ends the goroutine, unless it is stuck in a callback.
func (c *caller) close() {
	close(c.work)
	c.closed.Store(true)
	c.watcher.Stop()
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *caller) serve(work <-chan *call) {
	for k := range work {
		c.serveOne(k) // after it, k belongs to the engine again
	}
}

func (c *caller) serveOne(k *call) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			k.err = &PanicError{k.h.name, k.name, p, debug.Stack()}
		} else if !returned {
			k.exited = true
			k.err = fmt.Errorf("%s of descriptor %s ended its goroutine", k.name, k.h.name)
		}
		if c.began.CompareAndSwap(k.began, 0) {
			c.ended <- true
		} else {
			k.returned.Store(true)
		}
	}()
	k.run(k)
	returned = true
}

// limit is how long a call may take: its deadline and some grace.
func (c *caller) limit() time.Duration { return c.timeout + c.timeout/2 }

// watch gives the call under way up if it is beyond its limit, and looks again when it may be. That the engine
// waits for one channel, and not for a timer as well, saves a good part of the time of a short call.
func (c *caller) watch() {
	next := c.limit()
	if began := c.began.Load(); began != 0 {
		if left := next - (c.heartbeat.now() - time.Duration(began)); left > 0 {
			next = left
		} else if c.began.CompareAndSwap(began, 0) {
			c.ended <- false
		}
	}
	c.watcher.Reset(next)
	if c.closed.Load() {
		c.watcher.Stop()
	}
}

// call returns a call to be filled in, made and forgotten before the next one.
func (c *caller) call() *call {
	if c.spare == nil {
		c.spare = &call{}
	}
	*c.spare = call{}
	return c.spare
}

// do runs the call. If it exceeds its deadline its results must not be
// looked at, except for the error.
func (c *caller) do(k *call) error {
	if stuck := k.h.running; stuck != nil {
		if !stuck.returned.Load() {
			return fmt.Errorf("%s of descriptor %s was not called: %s for %s has not returned since %s: %w",
				k.name, k.h.name, stuck.name, stuck.key, c.heartbeat.since.Add(time.Duration(stuck.began)).Format(time.RFC3339), ErrDeadline)
		}
		k.h.running = nil
	}
	began := c.heartbeat.now()
	if c.ctx == nil || began > c.renewAt {
		if c.cancel != nil {
			c.cancel()
		}
		slack := c.timeout / 8
		c.renewAt = began + slack
		c.ctx, c.cancel = context.WithTimeout(context.Background(), c.timeout+slack)
	}
	k.ctx, k.began, k.exited = c.ctx, int64(began), false
	k.returned.Store(false) // it may have been made before
	c.began.Store(k.began)
	c.work <- k
	returned := <-c.ended
	end := c.heartbeat.now()
	c.last = end - began
	c.spent += c.last
	c.heartbeat.beat(end)
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
