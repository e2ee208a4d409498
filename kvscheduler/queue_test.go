package kvscheduler

import (
	"testing"
	"testing/synctest"
)

// A job may start inline only if it overtakes no other job and no other job is running.
func TestInlineJobsKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		if !q.tryStart() {
			t.Fatal("idle queue rejects an inline job")
		}
		if q.tryStart() {
			t.Error("two jobs run at the same time")
		}
		first := &job{}
		q.push(first)
		popped := make(chan *job, 1)
		go func() { popped <- q.pop() }()
		synctest.Wait()
		if len(popped) > 0 {
			t.Error("pop returned a job while another one runs")
		}
		q.finish()
		if got := <-popped; got != first {
			t.Errorf("popped %v", got)
		}
		q.push(&job{})
		q.finish()
		if q.tryStart() {
			t.Error("inline job overtakes a queued job")
		}
		q.close()
		if q.tryStart() {
			t.Error("inline job started after close")
		}
	})
}

// Close waits for a transaction that runs on the goroutine of its committer.
func TestCloseWaitsForInlineJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Logger: quietLog()})
		if !s.queue.tryStart() {
			t.Fatal("idle scheduler rejects an inline job")
		}
		closed := make(chan struct{})
		go func() { _ = s.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		s.queue.finish()
		<-closed
	})
}
