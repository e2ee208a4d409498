package feedback

import (
	"context"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
)

const (
	// maxBatch is the number of statuses per etcd transaction (etcd allows 128 operations by
	// default), maxBatchBytes their maximum size in addition to the first one.
	maxBatch      = 100
	maxBatchBytes = 512 << 10
	// gather is the pause between two transactions unless more statuses are waiting. It merges fast
	// changes of one value.
	gather = 100 * time.Millisecond
	// sweepPeriod is how often the statuses in etcd are compared: KSR deletes the statuses of a
	// deleted node, which may return at once, and etcd may carry out a write after its retry.
	sweepPeriod = 2 * time.Minute
	// firstRetry is the delay before the second attempt; it doubles.
	firstRetry = 100 * time.Millisecond
)

func (p *Publisher) write(ctx context.Context) {
	delay, failing := firstRetry, false
	due := time.NewTicker(sweepPeriod)
	defer due.Stop()
	for {
		select {
		case <-p.news:
		case <-due.C:
			p.requestSweep()
		case <-ctx.Done():
			return
		}
		for {
			more, err := p.flush(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing {
					p.Log.Warn("Publishing statuses in etcd failed, retrying", "error", err)
				}
				failing, more = true, true
				if !pause(ctx, delay) {
					return
				}
				delay = min(2*delay, p.Config.RemoteDBProbingInterval.Std())
				continue
			case failing:
				p.Log.Info("Publishing statuses in etcd again")
				delay, failing = firstRetry, false
			}
			if !more {
				break
			}
		}
		if !pause(ctx, gather) {
			return
		}
	}
}

// requestSweep makes the next flush read the statuses in etcd, if any are expected.
func (p *Publisher) requestSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsure = p.unsure || len(p.entries) > 0
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// flush writes one batch and reports whether more is waiting. Before the first batch and after an
// error it reads the statuses in etcd.
func (p *Publisher) flush(ctx context.Context) (more bool, err error) {
	p.mu.Lock()
	complete, unsure := p.complete, p.unsure
	p.mu.Unlock()
	if !complete {
		return false, nil
	}
	if unsure {
		if err := p.sweep(ctx); err != nil {
			return true, err
		}
	}
	waiting := p.waiting()
	if waiting == 0 {
		return false, nil
	}
	if err := p.limiter.WaitN(ctx, min(waiting, maxBatch)); err != nil {
		return false, err
	}
	changes, more := p.take()
	err = store.Apply(ctx, p.Store, changes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.unsure = true // some may have been written
		return true, err
	}
	for _, c := range changes {
		p.written(c)
	}
	return more, nil
}

func (p *Publisher) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dirty)
}

// written records the content of etcd. The caller holds mu.
func (p *Publisher) written(c store.Change) {
	key := strings.TrimPrefix(c.Key, p.prefix)
	e := p.entries[key]
	switch {
	case e == nil:
	case !c.Deleted:
		e.stored = hashBytes(c.Value)
	case e.gone() && e.awaits == 0:
		delete(p.entries, key)
	default:
		e.stored = 0
	}
}

func (p *Publisher) take() (changes []store.Change, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	size, taken := 0, 0
	for _, key := range p.dirty {
		if len(changes) >= maxBatch || size >= maxBatchBytes {
			break
		}
		taken++
		delete(p.queued, key)
		e := p.entries[key]
		if reservedPrefix := p.reservedPrefix(key); e == nil || !e.publishable(key) || reservedPrefix != "" && !p.reported[reservedPrefix] {
			continue
		}
		data, err := e.encode(key, p.Scheduler, now)
		before := len(changes)
		switch {
		case err != nil:
			p.Log.Error("Encoding a status failed", "key", key, "error", err)
		case data == nil && e.stored == 0:
			delete(p.entries, key)
		case data == nil:
			changes = append(changes, store.Change{KV: store.KV{Key: p.prefix + key}, Deleted: true})
		case hashBytes(data) != e.stored:
			changes = append(changes, store.Change{KV: store.KV{Key: p.prefix + key, Value: data}})
		}
		if len(changes) > before {
			if twin, ok := p.twin(key, changes[before]); ok {
				changes = append(changes, twin)
			}
		}
		size += len(key) + len(data)
	}
	p.dirty = p.dirty[taken:]
	return changes, len(p.dirty) > 0
}

// sweep reads the statuses in etcd and marks all entries as dirty.
func (p *Publisher) sweep(ctx context.Context) error {
	p.mu.Lock()
	p.unsure = false // later changes request another sweep
	p.mu.Unlock()
	kvs, _, err := p.Store.List(ctx, p.prefix)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.unsure = true
		return err
	}
	for _, e := range p.entries {
		e.stored = 0
	}
	for _, kv := range kvs {
		key := strings.TrimPrefix(kv.Key, p.prefix)
		e := p.entries[key]
		if e == nil {
			e = &entry{deleted: true} // of an earlier run
			p.entries[key] = e
		}
		e.stored = hashBytes(kv.Value)
	}
	p.mu.Unlock()
	err = p.sweepTwins(ctx)
	p.mu.Lock()
	if err != nil {
		p.unsure = true
		return err
	}
	for key := range p.entries {
		p.touch(key)
	}
	return nil
}
