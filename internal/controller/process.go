package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// processing is the state of one event being processed. Its methods are steps of
// Controller.process.
type processing struct {
	*Controller
	queued
	ctx    context.Context
	log    *slog.Logger
	scope  *scope
	record *EventRecord

	// update is nil for resyncs.
	update UpdateEvent
	// handlers of the event in calling order; called counts the calls so far.
	handlers []EventHandler
	called   int

	operations *operations
	// externalKeys are the keys with changed external values. undoExternal, if not nil, restores
	// the previous values.
	externalKeys []string
	undoExternal func()
	internalData []string // before a verification

	// sharing is the number of events in the transaction; set for its first event only.
	sharing int

	errs []error
	// heal is the first error that requires a healing resync.
	heal error
	// abort skips all further steps except the bookkeeping.
	abort bool
	// refused: the event changed nothing
	refused bool
	// incomplete: a handler failed in a resync
	incomplete bool
}

// process processes an event, and further ones that may share its transaction. An error is fatal.
func (c *Controller) process(q queued) (fatal error) {
	if !requestOf(q.event).begin() {
		q.event.Done(Outcome{Err: ErrWithdrawn})
		return nil
	}
	c.caches.begin()
	var events []*processing
	for more := true; more; {
		p := c.newProcessing(q)
		p.receive()
		p.selectHandlers()
		p.logStart()
		p.callHandlers()
		events = append(events, p)
		if p.abort {
			p.operations.undo()
		}
		if more = !p.abort && isBulk(events[0].event); more {
			q, more = c.queue.takeMore(len(events))
		}
	}
	if isBulk(events[0].event) {
		endBulk(events)
	}
	events[0].sharing = len(events)
	c.commit(events)
	for _, p := range events {
		p.revert()
		p.finish()
	}
	for _, p := range events {
		if err := p.followWithResyncs(); err != nil && fatal == nil {
			fatal = err
		}
	}
	return fatal
}

func (c *Controller) newProcessing(q queued) *processing {
	p := &processing{
		Controller: c,
		queued:     q,
		scope:      &scope{controller: c, seq: c.loop.nextSeq},
		operations: c.caches.next(),
		record: &EventRecord{
			SeqNum:          c.loop.nextSeq,
			Enqueued:        q.enqueued,
			ProcessingStart: time.Now(),
			IsFollowUp:      q.followUp,
			FollowUpTo:      q.followUpTo,
			Name:            q.event.Name(),
			Description:     q.event.String(),
			Method:          q.event.Method(),
			Handlers:        []HandlerRecord{},
		},
	}
	c.loop.nextSeq++
	p.ctx = withScope(c.ctx, p.scope)
	p.log = c.log.With("event", p.scope.seq)
	if q.event.Method() == Update {
		p.update = q.event.(UpdateEvent) // checked by PushEvent
	}
	return p
}

// receive applies the content of the event to the caches.
func (p *processing) receive() {
	p.progress.at(fmt.Sprintf("the beginning of event #%d (%s)", p.scope.seq, p.record.Name))
	if p.update == nil {
		p.loop.resyncCount++
	}
	switch e := p.event.(type) {
	case *HealingResync:
		if e.Type == AfterError {
			p.loop.healing = false
		} else {
			p.loop.periodic = false
		}
	case *VerificationResync:
		p.loop.verification = false
		p.internalData = describeInternalData(p.Controller.handlers)
	case *Shutdown:
		p.loop.shutdown = true
	}
	var err error
	p.externalKeys, p.undoExternal, err = p.caches.receive(p.event, p.sources, p.log)
	if err != nil {
		p.errs = append(p.errs, err)
		p.abort, p.refused = true, true
	}
}

func (p *processing) selectHandlers() {
	if p.abort || p.event.Method() == DownstreamResync {
		return
	}
	handlers := slices.Clone(p.Controller.handlers)
	if p.update != nil && p.update.Direction() == Reverse {
		slices.Reverse(handlers)
	}
	for _, h := range handlers {
		wants, err := p.handles(h)
		if err != nil {
			p.errs = append(p.errs, fmt.Errorf("%s: %w", h, err))
			p.abort, p.heal = true, cmp.Or(p.heal, err)
			return
		}
		if wants {
			p.handlers = append(p.handlers, h)
		}
	}
}

func (p *processing) handles(h EventHandler) (wants bool, err error) {
	defer p.recoverPanic(&err)
	return h.HandlesEvent(p.event), nil
}

func (p *processing) callHandlers() {
	if p.abort {
		return
	}
	for _, h := range p.handlers {
		p.called++
		p.progress.at(fmt.Sprintf("%s, for event #%d (%s)", h, p.scope.seq, p.record.Name))
		change, err := p.call(h)
		if err = p.note(h, change, err); err == nil {
			continue
		}
		switch {
		case isFatal(err):
			p.abort = true
			return
		case isAbort(err):
			p.abort = true
			p.heal = cmp.Or(p.heal, err)
			return
		case p.withRevert():
			return
		case p.update == nil:
			p.incomplete = true
		}
		if p.healsErrors() {
			p.heal = cmp.Or(p.heal, err)
		}
	}
}

// endBulk calls EndBulk of the handlers for the last event that was not aborted.
func endBulk(events []*processing) {
	for _, p := range slices.Backward(events) {
		if !p.abort {
			p.endBulk()
			return
		}
	}
}

func (p *processing) endBulk() {
	for _, h := range p.Controller.handlers {
		bulk, ok := h.(BulkHandler)
		if !ok {
			continue
		}
		change, err := p.callEndBulk(bulk)
		if change == "" && err == nil {
			continue
		}
		if err = p.note(h, change, err); err == nil {
			continue
		}
		p.heal = cmp.Or(p.heal, err)
		if isAbort(err) || isFatal(err) {
			p.abort = true
			p.operations.undo()
		}
	}
}

// note records the result of a handler and returns its error with its name.
func (p *processing) note(h EventHandler, change string, err error) error {
	p.record.Handlers = append(p.record.Handlers, HandlerRecord{Handler: h.String(), Change: change, ErrorStr: errorString(err)})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", h, err)
	p.log.Log(p.ctx, levelOf(err), "Event handler failed", "handler", h.String(), "error", err)
	p.errs = append(p.errs, err)
	return err
}

// levelOf returns the log level for the error of a handler. Fatal errors are logged when the agent
// exits.
func levelOf(err error) slog.Level {
	if isFatal(err) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

func (p *processing) callEndBulk(h BulkHandler) (change string, err error) {
	defer p.recoverPanic(&err)
	return h.EndBulk(p.ctx, p.operations)
}

// call calls a handler. A panic aborts the event.
func (p *processing) call(h EventHandler) (change string, err error) {
	defer p.recoverPanic(&err)
	if p.update == nil {
		return "", h.Resync(p.ctx, p.event, p.caches.kubeState, p.loop.resyncCount, p.operations)
	}
	return h.Update(p.ctx, p.update, p.operations)
}

func (p *processing) recoverPanic(err *error) {
	if r := recover(); r != nil {
		p.log.Error("Event handler panicked", "panic", r, "stack", string(debug.Stack()))
		*err = NewAbortEventError(fmt.Errorf("panic: %v", r))
	}
}

// revert calls Revert of the called handlers in reverse order after a RevertOnFailure event failed.
func (p *processing) revert() {
	if !p.withRevert() || len(p.errs) == 0 || slices.ContainsFunc(p.errs, isFatal) {
		return
	}
	p.refused = true
	if p.undoExternal != nil {
		p.undoExternal()
	}
	for _, h := range slices.Backward(p.handlers[:p.called]) {
		p.progress.at(fmt.Sprintf("%s, which reverts event #%d (%s)", h, p.scope.seq, p.record.Name))
		err := p.callRevert(h)
		p.record.Handlers = append(p.record.Handlers, HandlerRecord{Handler: h.String(), Revert: true, ErrorStr: errorString(err)})
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: revert: %w", h, err)
		p.log.Log(p.ctx, levelOf(err), "Event handler failed to revert", "handler", h.String(), "error", err)
		p.errs = append(p.errs, err)
		p.heal = cmp.Or(p.heal, err)
		if isFatal(err) {
			return
		}
	}
}

func (p *processing) callRevert(h EventHandler) (err error) {
	defer p.recoverPanic(&err)
	return h.Revert(p.ctx, p.event)
}

// observers see each event at its end, in this order, before its sender.
var observers = []func(*processing){(*processing).remember, (*processing).logEnd, (*processing).noteResync, (*processing).tellExternalObserver, (*processing).tellHandlers}

// finish completes the record of the event and passes it to the observers and the sender.
func (p *processing) finish() {
	p.progress.at(fmt.Sprintf("the end of event #%d (%s)", p.scope.seq, p.record.Name))
	p.verify()
	err := errors.Join(p.errs...)
	p.record.ProcessingEnd = time.Now()
	p.record.ErrorStr = errorString(err)
	for _, observe := range observers {
		observe(p)
	}
	p.complete(Outcome{Err: err, Accepted: !p.refused, Record: p.record})
}

// complete passes the outcome to the sender. The caches keep the content of an aborted event until
// the next resync, so an event with completesLater gets the outcome of that resync.
func (p *processing) complete(o Outcome) {
	later, ok := p.event.(interface{ completesLater() bool })
	if ok && later.completesLater() && o.Txn() == nil && o.Err != nil {
		p.loop.incomplete = append(p.loop.incomplete, p.event)
		return
	}
	p.event.Done(o)
	if p.isResync() && o.Txn() != nil {
		for _, event := range p.loop.incomplete {
			event.Done(o)
		}
		p.loop.incomplete = nil
	}
}

func (p *processing) remember() {
	p.history.add(p.record)
	p.scope.ended.Store(true)
}

// EventObserver is implemented by handlers that need the results of events. The event loop calls
// EventDone at the end of each event; it must not block.
type EventObserver interface {
	EventDone(event Event, record *EventRecord)
}

func (p *processing) tellHandlers() {
	for _, h := range p.Controller.handlers {
		if observer, ok := h.(EventObserver); ok {
			observer.EventDone(p.event, p.record)
		}
	}
}

// tellExternalObserver passes the changes of an external event to the observer.
func (p *processing) tellExternalObserver() {
	if p.observer == nil {
		return
	}
	switch e := p.event.(type) {
	case *DBResync, *ExternalConfigResync:
		p.observer(p.caches.given(nil), true, p.record)
	case *ExternalConfigChange:
		if e.Source != DatabaseSource && len(p.externalKeys) > 0 {
			p.observer(p.caches.given(p.externalKeys), false, p.record)
		}
	}
}

// isResync reports whether handlers computed the whole configuration.
func (p *processing) isResync() bool {
	return p.update == nil && p.event.Method() != DownstreamResync
}

// noteResync updates the health after a resync. The first one starts the periodic healing.
func (p *processing) noteResync() {
	if !p.isResync() || slices.ContainsFunc(p.errs, isFatal) {
		return
	}
	if !p.health.started() {
		p.timers.startup.Stop()
		if p.cfg.EnablePeriodicHealing {
			p.timers.periodic.Reset(p.cfg.PeriodicHealingInterval.Std())
		}
	}
	healing, ok := p.event.(*HealingResync)
	p.health.resync(p.heal, ok && healing.Type == AfterError)
}

// followWithResyncs schedules the resyncs that the result of the event requires. An error is fatal.
func (p *processing) followWithResyncs() error {
	for _, err := range p.errs {
		if isFatal(err) {
			return err
		}
	}
	e, ok := p.event.(*HealingResync)
	healing := ok && e.Type == AfterError
	if p.heal != nil {
		if healing {
			p.loop.failedHealings++
		}
		p.scheduleHealing(p.heal)
		return nil
	}
	if healing {
		p.loop.failedHealings = 0
	}
	if _, verified := p.event.(*VerificationResync); p.cfg.EnableVerification && !verified && !p.loop.verification {
		p.loop.verification = true
		p.pushInternal(&VerificationResync{})
	}
	return nil
}

func (p *processing) withRevert() bool {
	return p.update != nil && p.update.TransactionType() == RevertOnFailure
}

func (p *processing) healsErrors() bool {
	return p.update == nil || p.update.TransactionType() == BestEffort
}

func (p *processing) logStart() {
	p.log.Debug("Processing event", "name", p.record.Name, "description", p.record.Description,
		"method", p.record.Method, "handlers", names(p.handlers))
}

// logEnd logs one line at level info per transaction, and one per failed event.
func (p *processing) logEnd() {
	attrs := []any{"name", p.record.Name, "description", p.record.Description,
		"took", p.record.ProcessingEnd.Sub(p.record.ProcessingStart)}
	if p.record.IsFollowUp {
		attrs = append(attrs, "followUpTo", p.record.FollowUpTo)
	}
	if p.record.Txn != nil {
		attrs = append(attrs, "txn", p.record.Txn.SeqNum, "operations", p.record.Txn.Operations)
	}
	if p.record.ErrorStr != "" {
		p.log.Log(p.ctx, levelOf(errors.Join(p.errs...)), "Event failed", append(attrs, "error", p.record.ErrorStr)...)
		return
	}
	if p.sharing > 1 {
		attrs = append(attrs, "events", p.sharing)
	}
	level := slog.LevelInfo
	if p.sharing == 0 {
		level = slog.LevelDebug
	}
	p.log.Log(p.ctx, level, "Event processed", attrs...)
}

func names(handlers []EventHandler) (names []string) {
	for _, h := range handlers {
		names = append(names, h.String())
	}
	return names
}

func errorString(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
