package kvscheduler

import (
	"context"
	"sync"
	"time"
)

// queueCapacity is the maximum number of queued transactions and notifications. Jobs of the scheduler
// itself, such as retries and registrations, do not count.
const queueCapacity = 200

// job is a unit of work of the worker: a transaction or a function.
type job struct {
	typ    TxnType
	values []KeyValue // sorted by key
	opts   txnOptions

	notifications []Notification
	fetch         func() []Notification // returns the notifications when the job starts; may be nil

	retryOf   uint64 // retries: sequence number of the failed transaction
	attempt   int
	retryKeys map[string]struct{}

	unimplemented *handler // RetryUnimplOps: the new descriptor

	drift string // reason of a resync for drift reports, or ""

	// fn, if not nil, is executed instead of a transaction.
	fn func()

	queued  time.Time
	bounded bool
	result  chan jobResult // buffered; nil if no caller waits
}

type jobResult struct {
	seq uint64
	err error
}

// queue is the FIFO queue of jobs.
type queue struct {
	slots chan struct{} // one element per bounded job
	wake  chan struct{}
	done  chan struct{} // closed by close

	mu     sync.Mutex
	jobs   []*job
	busy   bool // a job is being executed
	closed bool
}

func newQueue() *queue {
	return &queue{slots: make(chan struct{}, queueCapacity), wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// put adds a bounded job. If the queue is full, it waits or returns ErrQueueFull.
func (q *queue) put(ctx context.Context, j *job, wait bool) error {
	select {
	case <-q.done:
		return ErrClosed
	case q.slots <- struct{}{}:
	default:
		if !wait {
			return ErrQueueFull
		}
		select {
		case <-q.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case q.slots <- struct{}{}:
		}
	}
	j.bounded = true
	if !q.push(j) {
		<-q.slots
		return ErrClosed
	}
	return nil
}

// tryStart reports whether the caller may execute a job at once because the queue is idle and empty.
// The caller must then call finish. This saves two goroutine switches, which take as long as a small
// transaction.
func (q *queue) tryStart() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy || q.closed || len(q.jobs) > 0 {
		return false
	}
	q.busy = true
	return true
}

func (q *queue) finish() {
	q.mu.Lock()
	q.busy = false
	next := len(q.jobs) > 0 || q.closed
	q.mu.Unlock()
	if next {
		q.wakeUp()
	}
}

// wakeUp makes pop check the queue again.
func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// push adds a job without waiting. It returns false if the queue is closed.
func (q *queue) push(j *job) bool {
	j.queued = time.Now()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.jobs = append(q.jobs, j)
	busy := q.busy
	q.mu.Unlock()
	if !busy { // otherwise finish wakes it up
		q.wakeUp()
	}
	return true
}

// pop waits for a job and returns it, or returns nil after close. The caller must call finish.
func (q *queue) pop() *job {
	for {
		q.mu.Lock()
		if len(q.jobs) > 0 && !q.closed && !q.busy {
			q.busy = true
			j := q.jobs[0]
			q.jobs[0] = nil
			if len(q.jobs) > 1 {
				q.jobs = q.jobs[1:]
			} else {
				q.jobs = q.jobs[:0] // reuse the array
			}
			q.mu.Unlock()
			if j.bounded {
				<-q.slots
			}
			return j
		}
		ended := q.closed && !q.busy
		q.mu.Unlock()
		if ended {
			return nil
		}
		<-q.wake
	}
}

// withdraw removes a job that has not started. It returns false if the job has started.
func (q *queue) withdraw(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.jobs {
		if q.jobs[i] == j {
			q.jobs = append(q.jobs[:i:i], q.jobs[i+1:]...)
			if j.bounded {
				<-q.slots
			}
			return true
		}
	}
	return false
}

func (q *queue) close() {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed = true
	jobs := q.jobs
	q.jobs = nil
	q.mu.Unlock()
	close(q.done)
	for _, j := range jobs {
		if j.result != nil {
			j.result <- jobResult{NoSeqNum, ErrClosed}
		}
	}
	q.wakeUp()
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}
