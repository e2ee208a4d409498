package kvscheduler

import (
	"context"
	"sync"
	"time"
)

// queueCapacity bounds the transactions and notifications that wait. What the
// scheduler itself adds (retries, drift, registrations) does not count.
const queueCapacity = 200

// job is a unit of work for the worker: a transaction, or a function.
type job struct {
	typ    TxnType
	values []KeyValue // sorted by key
	opts   txnOptions

	notifications []Notification
	fetch         func() []Notification // returns them when the job begins; else nil

	retryOf   uint64 // retries: the transaction that failed
	attempt   int
	retryKeys map[string]struct{}

	unimplemented *handler // RetryUnimplOps: the descriptor that is new

	drift string // reason, for a downstream resync that drift called for

	// fn, if not nil, is what the job does; it is not a transaction.
	fn func()

	queued  time.Time
	bounded bool
	result  chan jobResult // buffered; nil without a waiting caller
}

type jobResult struct {
	seq uint64
	err error
}

// queue is the FIFO of jobs.
type queue struct {
	slots chan struct{} // one element for each bounded job
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

// put adds a bounded job; wait reports whether it waits for a place.
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

// begin reports whether the caller may execute a job at once, as no other waits or is being executed. It must call
// finish then. This saves the change to the worker's goroutine and back, which takes as long as much of a
// small transaction.
func (q *queue) tryStart() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy || q.closed || len(q.jobs) > 0 {
		return false
	}
	q.busy = true
	return true
}

// finish ends the execution of a job.
func (q *queue) finish() {
	q.mu.Lock()
	q.busy = false
	next := len(q.jobs) > 0 || q.closed
	q.mu.Unlock()
	if next {
		q.wakeUp()
	}
}

// wakeUp has pop look again.
func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// push adds a job without waiting. False: the queue is closed.
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
	if !busy { // else finish does it
		q.wakeUp()
	}
	return true
}

// pop takes the first job out of the queue, waiting for it; nil after close. finish must be called after it.
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
				q.jobs = q.jobs[:0] // its place is used again
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

// withdraw removes a job that was not started. False: too late.
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

// close ends the queue. The jobs that are left fail with ErrClosed.
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

// length is the number of waiting jobs.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}
