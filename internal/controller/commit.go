package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// commit merges the requests of the handlers with the external configuration and commits the result
// to the scheduler. There is more than one event only if all of them are updates without revert.
func (c *Controller) commit(events []*processing) {
	var remember func(internal map[string]proto.Message) map[string]proto.Message
	defer func() { c.caches.end(remember) }()

	committed := slices.DeleteFunc(slices.Clone(events), func(p *processing) bool {
		return p.abort || p.withRevert() && len(p.errs) > 0
	})
	if len(committed) == 0 {
		return
	}
	t := &transaction{Controller: c, events: committed, first: committed[0]}
	if t.first.incomplete && !c.synced.Load() {
		// A commit would remove the configuration of earlier runs of the agent.
		t.first.log.Warn("Startup resync is incomplete; the network stays unchanged until the healing resync")
		return
	}
	values, worthwhile := t.merge()
	if !worthwhile {
		return
	}
	err := t.commit(values)
	if t.first.event.Method() == FullResync {
		c.synced.Store(true)
	}
	if err == nil || !t.first.withRevert() {
		remember = t.remember
	}
}

type transaction struct {
	*Controller
	events []*processing
	// first is the only event, except in a batch of updates.
	first     *processing
	requested map[string]proto.Message
}

// merge computes the values of the transaction. worthwhile is false for an update without values.
func (t *transaction) merge() (values map[string]proto.Message, worthwhile bool) {
	last := t.events[len(t.events)-1]
	t.requested = last.operations.snapshot()
	switch {
	case t.first.update != nil:
		var externalKeys []string
		for _, p := range t.events {
			externalKeys = append(externalKeys, p.externalKeys...)
		}
		values = t.caches.mergeUpdate(t.requested, externalKeys, last.log)
		return values, len(values) > 0
	case t.first.event.Method() == DownstreamResync:
		return nil, true
	case t.first.incomplete:
		kept := maps.Clone(t.caches.internal)
		maps.Copy(kept, t.requested)
		t.requested = kept
	}
	return t.caches.mergeAll(t.requested, last.log), true
}

func (t *transaction) remember(internal map[string]proto.Message) map[string]proto.Message {
	switch {
	case t.first.event.Method() == DownstreamResync:
		return internal
	case t.first.update == nil:
		return t.requested
	}
	for key, value := range t.requested {
		if isNil(value) {
			delete(internal, key)
		} else {
			internal[key] = value
		}
	}
	return internal
}

// commit executes the transaction and records the result in its events.
func (t *transaction) commit(values map[string]proto.Message) error {
	txn := SchedulerTxn{
		Resync:      resyncType(t.first.event.Method()),
		Revert:      t.first.withRevert(),
		Description: t.description(),
	}
	if t.cfg.EnableRetry {
		txn.Retry = &kvscheduler.Retry{
			Period:     t.cfg.DelayRetry.Std(),
			MaxCount:   t.cfg.MaxRetryAttempts,
			ExpBackoff: t.cfg.EnableExpBackoffRetry,
		}
	}
	for _, key := range sortedKeys(values) {
		txn.Values = append(txn.Values, kvscheduler.KeyValue{Key: key, Value: values[key]})
	}
	t.progress.at(inScheduler)
	result, err := t.scheduler.Commit(t.first.ctx, txn)
	t.progress.at("the result of the transaction")
	if err != nil {
		t.first.log.Error("Transaction failed", "txn", result.SeqNum, "error", err)
	}
	heal := err != nil && !result.Final && !t.failedOnlyExternally(result)
	for _, p := range t.events {
		p.noteTransaction(result, err, heal)
	}
	return err
}

func (p *processing) noteTransaction(result TxnResult, err error, heal bool) {
	if result.SeqNum != kvscheduler.NoSeqNum {
		p.record.Txn = &TxnRecord{
			SeqNum:         result.SeqNum,
			SouthboundTime: result.SouthboundTime,
			Operations:     result.Operations,
			ErrorStr:       errorString(err),
		}
	}
	if err != nil {
		p.errs = append(p.errs, err)
	}
	if heal && p.healsErrors() {
		p.heal = cmp.Or(p.heal, err)
	}
}

// failedOnlyExternally reports whether only external sources requested the failed keys. The
// scheduler retries these; a healing resync would not help.
func (t *transaction) failedOnlyExternally(result TxnResult) bool {
	return len(result.FailedKeys) > 0 && !slices.ContainsFunc(result.FailedKeys, func(key string) bool {
		return t.requested[key] != nil || !t.caches.onlyExternal(key)
	})
}

func (t *transaction) description() string {
	var b strings.Builder
	b.WriteString(t.first.event.Name())
	if n := len(t.events); n > 1 {
		fmt.Fprintf(&b, " (%d events, #%d to #%d)", n, t.first.scope.seq, t.events[n-1].scope.seq)
	}
	for _, p := range t.events {
		for _, h := range p.record.Handlers {
			if h.Change != "" {
				fmt.Fprintf(&b, "\n* %s: %s", h.Handler, h.Change)
			}
		}
	}
	return b.String()
}

func resyncType(m EventMethod) kvscheduler.ResyncType {
	switch m {
	case FullResync:
		return kvscheduler.FullResync
	case UpstreamResync:
		return kvscheduler.UpstreamResync
	case DownstreamResync:
		return kvscheduler.DownstreamResync
	}
	return kvscheduler.NotResync
}
