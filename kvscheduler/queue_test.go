package kvscheduler

import (
	"testing"
	"testing/synctest"
)

// A job is begun outside of the queue only if that changes no order, and no two jobs are executed at once.
func TestInlineJobsKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		if !q.tryStart() {
			t.Fatal("an idle queue refuses")
		}
		if q.tryStart() {
			t.Error("two jobs are executed at once")
		}
		first := &job{}
		q.push(first)
		popped := make(chan *job, 1)
		go func() { popped <- q.pop() }()
		synctest.Wait()
		if len(popped) > 0 {
			t.Error("a job is popped while another is executed")
		}
		q.finish()
		if got := <-popped; got != first {
			t.Errorf("popped %v", got)
		}
		q.push(&job{})
		q.finish()
		if q.tryStart() {
			t.Error("a job overtakes one that waits")
		}
		q.close()
		if q.tryStart() {
			t.Error("a job is begun after the end")
		}
	})
}

// Close waits for a transaction that is executed on the goroutine of its caller.
func TestCloseWaitsForInlineJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Logger: quietLog()})
		if !s.queue.tryStart() {
			t.Fatal("an idle scheduler refuses")
		}
		closed := make(chan struct{})
		go func() { _ = s.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait")
		default:
		}
		s.queue.finish()
		<-closed
	})
}
