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

// caller runs callbacks of descriptors, one at a time, on a goroutine of its own. A callback that
// never returns does not stop the scheduler:
//
//	engine ── call ──> goroutine ── callback ──> southbound
//	       <─ result ─      │
//	                        └─ after 1.5 × the deadline, checkDeadline abandons the call
//
// A new goroutine replaces the abandoned one. The descriptor is not called again until the
// abandoned callback returns, because callbacks of a descriptor never run concurrently.
//
// Each call costs two goroutine switches. Running the callback on the goroutine of the committer is
// impossible, because a commit returns at the deadline even if the callback hangs. A coroutine
// (iter.Pull) switches faster, but crashes the process if a goroutine that is locked to its thread
// commits a transaction, as goroutines in a network namespace are.
type caller struct {
	timeout time.Duration
	work    chan *call
	// began is the start of the current call in heartbeat time, or 0. The goroutine or checkDeadline
	// sets it to 0, which decides whether the call returned or was abandoned.
	began         atomic.Int64
	ended         chan bool // one element per call: whether the callback returned
	deadlineTimer *time.Timer
	closed        atomic.Bool
	// ctx is shared by successive calls, and lives slightly longer than one of them may take.
	ctx     context.Context
	cancel  context.CancelFunc
	renewAt time.Duration // in heartbeat time
	// reusable is the memory of the next call.
	reusable *call
	// spent is the total duration of all calls, last the duration of the last one.
	spent, last time.Duration
	heartbeat   *heartbeat
}

// call is one call of a callback with its arguments and results.
type call struct {
	h        *handler
	name     string
	run      callback
	key      string
	old, new proto.Message
	meta     any
	items    []item
	ctx      context.Context
	began    int64 // see caller.began

	outMeta  any
	outItems []item
	outErrs  []error
	err      error
	exited   bool        // the callback ended its goroutine
	returned atomic.Bool // the callback returned after the call was abandoned
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
	c.deadlineTimer = time.AfterFunc(time.Hour, c.checkDeadline)
	c.deadlineTimer.Reset(c.limit())
	return c
}

func (c *caller) start() {
	c.work = make(chan *call)
	go c.serve(c.work)
}

// close ends the goroutine unless it is stuck in a callback.
func (c *caller) close() {
	close(c.work)
	c.closed.Store(true)
	c.deadlineTimer.Stop()
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *caller) serve(work <-chan *call) {
	for k := range work {
		c.serveOne(k) // the engine owns k again
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

// limit is the time after which a call is abandoned: its deadline and some grace.
func (c *caller) limit() time.Duration { return c.timeout + c.timeout/2 }

// checkDeadline abandons the current call if it is beyond its limit, and schedules the next check.
// It makes the engine wait on one channel instead of a channel and a timer, which short calls
// notice.
func (c *caller) checkDeadline() {
	next := c.limit()
	if began := c.began.Load(); began != 0 {
		if left := next - (c.heartbeat.now() - time.Duration(began)); left > 0 {
			next = left
		} else if c.began.CompareAndSwap(began, 0) {
			c.ended <- false
		}
	}
	c.deadlineTimer.Reset(next)
	if c.closed.Load() {
		c.deadlineTimer.Stop()
	}
}

// newCall returns an empty call. It is valid until the next newCall.
func (c *caller) newCall() *call {
	if c.reusable == nil {
		c.reusable = &call{}
	}
	*c.reusable = call{}
	return c.reusable
}

// do runs the call. If the call is abandoned, only the returned error may be used, not the results.
func (c *caller) do(k *call) error {
	if stuck := k.h.running; stuck != nil {
		if !stuck.returned.Load() {
			return fmt.Errorf("%s of descriptor %s was not called: %s for %s has not returned since %s: %w",
				k.name, k.h.name, stuck.name, stuck.key, c.heartbeat.start.Add(time.Duration(stuck.began)).Format(time.RFC3339), ErrDeadline)
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
	k.returned.Store(false) // k may be a repeated call
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
	c.reusable = nil
	close(c.work) // the goroutine ends when its callback returns
	c.start()
	return fmt.Errorf("%s of descriptor %s did not return within %v: %w", k.name, k.h.name, c.timeout, ErrDeadline)
}
