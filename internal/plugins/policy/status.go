package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/api/contiv/policy"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const filterPrefix = "config/contiv/filter/"

// Published returns the prefixes with which Publish.Replace is called.
func Published() []string {
	return []string{strings.TrimPrefix(models.PolicyStatusPrefix, models.StatusPrefix), strings.TrimPrefix(models.ClusterPolicyStatusPrefix, models.StatusPrefix)}
}

// Publish contains the sources and the destination of policy states.
type Publish struct {
	Watch func(keyPrefix string) (*kvscheduler.Watcher, []*pb.BaseValueStatus)
	// VSwitch returns an error while the vswitch does not follow its configuration.
	VSwitch func() error
	// Replace replaces all statuses under a prefix relative to models.StatusPrefix; see Published.
	Replace func(prefix string, statuses map[string]proto.Message)
}

// lookAgain is the interval of periodic checks. Changes within gather are published together.
const (
	lookAgain = 5 * time.Second
	gather    = 200 * time.Millisecond
)

type state struct {
	realised bool
	reasons  []string
	txn      *uint64
	since    time.Time
}

type realisation struct {
	mu sync.Mutex
	// asked contains changed policies with a pending transaction.
	asked map[processor.PolicyID]struct{}
	// changed contains outcomes that are not published yet.
	changed map[processor.PolicyID]outcome
	failed  map[processor.PolicyID]string
	// lacking maps the keys of unconfigured values to their states. present contains the keys of
	// configured values.
	lacking map[string]string
	present map[string]struct{}
	last    *uint64
	states  map[processor.PolicyID]state
	news    chan struct{}
}

type outcome struct {
	txn *uint64
	at  time.Time
}

func newRealisation() *realisation {
	return &realisation{
		asked: map[processor.PolicyID]struct{}{}, changed: map[processor.PolicyID]outcome{}, failed: map[processor.PolicyID]string{},
		lacking: map[string]string{}, present: map[string]struct{}{}, states: map[processor.PolicyID]state{}, news: make(chan struct{}, 1),
	}
}

func (r *realisation) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func policyOf(event controller.Event) (id processor.PolicyID, changeTime string, ok bool) {
	change, is := event.(*controller.KubeStateChange)
	if !is {
		return id, "", false
	}
	value := change.NewValue
	if value == nil {
		value = change.PrevValue
	}
	switch v := value.(type) {
	case *policy.Policy:
		id = processor.PolicyID{Namespace: v.GetNamespace(), Name: v.GetName()}
		changeTime = v.GetChangeTime()
	case *policy.ClusterPolicy:
		id, changeTime = processor.PolicyID{Name: v.GetName()}, v.GetChangeTime()
	default:
		return id, "", false
	}
	if change.NewValue == nil {
		changeTime = ""
	}
	return id, changeTime, true
}

// EventDone implements controller.EventObserver.
func (p *Policy) EventDone(event controller.Event, record *controller.EventRecord) {
	if !p.HandlesEvent(event) || !p.enforces() {
		return
	}
	done := outcome{at: record.ProcessingEnd}
	if record.Txn != nil {
		done.txn = &record.Txn.SeqNum
	}
	id, changeTime, about := policyOf(event)
	p.real.mu.Lock()
	switch {
	case about:
		p.real.done(id, done, record.ErrorStr)
	case event.Method() != controller.Update:
		p.mu.Lock()
		for _, known := range p.processor.Policies() {
			p.real.done(known.ID, done, record.ErrorStr)
		}
		p.mu.Unlock()
	}
	p.real.mu.Unlock()
	p.real.wake()
	if about && record.ErrorStr == "" {
		p.metrics.programmed(changeTime, record.ProcessingEnd)
	}
}

// The caller holds the lock.
func (r *realisation) done(id processor.PolicyID, done outcome, failure string) {
	delete(r.asked, id)
	if done.txn != nil || r.states[id].since.IsZero() {
		r.changed[id] = done
	}
	if delete(r.failed, id); failure != "" {
		r.failed[id] = failure
	}
}

// RunStatus publishes the states of policies until ctx ends.
func (p *Policy) RunStatus(ctx context.Context, o Publish) {
	if !p.enforces() {
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { p.real.follow(ctx, o) })
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.real.news:
		case <-again.C:
		}
		if statuses, known := p.look(o); known {
			for prefix, some := range statuses {
				o.Replace(strings.TrimPrefix(prefix, models.StatusPrefix), some)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather):
		}
	}
}

func (r *realisation) follow(ctx context.Context, o Publish) {
	for {
		watcher, statuses := o.Watch(filterPrefix)
		r.mu.Lock()
		clear(r.lacking)
		clear(r.present)
		for _, s := range statuses {
			r.note(s)
		}
		r.mu.Unlock()
		r.wake()
		for {
			events, err := watcher.Next(ctx)
			if errors.Is(err, kvscheduler.ErrLostPlace) {
				break
			}
			if err != nil {
				return
			}
			r.mu.Lock()
			for _, event := range events {
				r.note(event.Status)
				r.last = &event.Txn
			}
			r.mu.Unlock()
			r.wake()
		}
	}
}

// The caller holds the lock.
func (r *realisation) note(s *pb.BaseValueStatus) {
	v := s.GetValue()
	delete(r.lacking, v.GetKey())
	delete(r.present, v.GetKey())
	switch v.GetState() {
	case pb.ValueState_CONFIGURED, pb.ValueState_OBTAINED:
		r.present[v.GetKey()] = struct{}{}
		return
	case pb.ValueState_REMOVED, pb.ValueState_NONEXISTENT:
		return
	}
	text := v.GetState().String()
	if v.GetError() != "" {
		text += ": " + v.GetError()
	}
	r.lacking[v.GetKey()] = text
}

const maxReasons = 5

// look returns the statuses to publish by prefix, or false before the first resync.
func (p *Policy) look(o Publish) (map[string]map[string]proto.Message, bool) {
	unable := ""
	if err := o.VSwitch(); err != nil {
		unable = err.Error()
	}
	p.real.mu.Lock()
	defer p.real.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.resynced {
		return nil, false
	}
	statuses := map[string]map[string]proto.Message{models.PolicyStatusPrefix: {}, models.ClusterPolicyStatusPrefix: {}}
	present := map[processor.PolicyID]bool{}
	realised := 0
	for _, known := range p.processor.Policies() {
		present[known.ID] = true
		s := p.real.stateOf(known, unable, p.processor)
		if s.realised {
			realised++
		}
		if s.since.IsZero() || s.realised && len(known.Wired) == 0 {
			continue
		}
		prefix := models.PolicyStatusPrefix
		if known.ID.Namespace == "" {
			prefix = models.ClusterPolicyStatusPrefix
		}
		statuses[prefix][strings.TrimPrefix(prefix, models.StatusPrefix)+known.ID.String()] = &feedback.PolicyStatus{
			Realised: s.realised, Reasons: s.reasons, Transaction: s.txn, Time: timestamppb.New(s.since),
		}
	}
	// Includes policies that were added and deleted since the last check.
	keep(p.real.states, present)
	keep(p.real.changed, present)
	keep(p.real.failed, present)
	p.metrics.count(realised, len(present))
	return statuses, true
}

func keep[V any](about map[processor.PolicyID]V, present map[processor.PolicyID]bool) {
	maps.DeleteFunc(about, func(id processor.PolicyID, _ V) bool { return !present[id] })
}

// Problems describes policies with invalid parts.
func (p *Policy) Problems(context.Context) (problems []string) {
	const most = 3
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.enforces() {
		return nil
	}
	more := 0
	for _, known := range p.processor.Invalid() {
		if len(problems) == most {
			more++
			continue
		}
		problems = append(problems, fmt.Sprintf("policy %v is invalid in part: %s", known.ID, strings.Join(known.Invalid[:min(len(known.Invalid), most)], ", ")))
	}
	if more > 0 {
		problems = append(problems, fmt.Sprintf("%d more policies are invalid in part: see `contivctl policies`", more))
	}
	return problems
}

// The caller holds both locks.
func (r *realisation) stateOf(known *processor.Policy, unable string, values *processor.Processor) state {
	before := r.states[known.ID]
	if _, asked := r.asked[known.ID]; asked {
		return before
	}
	reasons := r.reasons(known, unable, values)
	change, changed := r.changed[known.ID]
	if !changed && !before.since.IsZero() && slices.Equal(before.reasons, reasons) {
		return before
	}
	now := state{realised: len(reasons) == 0, reasons: reasons, txn: change.txn, since: change.at}
	if !changed || len(reasons) > 0 && now.txn == nil {
		now.txn, now.since = r.last, time.Now()
	}
	delete(r.changed, known.ID)
	r.states[known.ID] = now
	return now
}

// The caller holds both locks.
func (r *realisation) reasons(known *processor.Policy, unable string, values *processor.Processor) (reasons []string) {
	if unable != "" {
		reasons = append(reasons, unable)
	}
	reasons = append(reasons, known.Invalid...)
	failure := r.failed[known.ID]
	if len(r.lacking) > 0 || failure != "" {
		missing := false
		for _, key := range values.Keys(known) {
			_, present := r.present[key]
			text := r.lacking[key]
			missing = missing || text == "" && !present
			if text != "" {
				reasons = append(reasons, key+" is "+text)
			}
		}
		// The failure matters only while values are missing: it may concern another part of the
		// event.
		if failure != "" && missing {
			reasons = append(reasons, failure)
		}
	}
	for _, pod := range known.Unwired {
		reasons = append(reasons, fmt.Sprintf("pod %v is not connected yet", pod))
	}
	if n := len(reasons) - maxReasons; n > 0 {
		reasons = append(reasons[:maxReasons:maxReasons], fmt.Sprintf("%d more", n))
	}
	return reasons
}
