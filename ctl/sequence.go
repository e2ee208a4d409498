package ctl

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
)

// sequence is a sequence diagram: lanes with arrows between them, one below the
// other.
//
//	NB          KVScheduler      vpp-route     Southbound
//	 ├── Put … ──────>│               │             │
//	 ├── Commit ─────>│── Create … ──>│── 82µs ────>│
//	 │                │ … is CONFIGURED             │
type sequence struct {
	lanes []string
	steps []step
}

// step is an arrow or, if it leads nowhere, a note.
type step struct {
	from, to string
	text     string
	failed   bool
}

const (
	laneNB        = "NB"
	laneScheduler = "KVScheduler"
	laneSB        = "Southbound"
)

// sequenceOf tells what happened in a transaction.
func sequenceOf(t *kvscheduler.RecordedTxn) sequence {
	source := laneNB
	switch t.Type {
	case kvscheduler.SBNotification:
		source = laneSB
	case kvscheduler.RetryFailedOps, kvscheduler.RetryUnimplOps:
		source = laneScheduler
	}
	s := sequence{lanes: []string{laneScheduler}}
	if source == laneNB {
		s.lanes = []string{laneNB, laneScheduler}
	}
	for _, kv := range t.Values {
		verb := "Put "
		switch {
		case t.Type == kvscheduler.SBNotification:
			verb = "notify "
		case t.Type != kvscheduler.NBTransaction:
			verb = "retry "
		case kv.Value == nil:
			verb = "Delete "
		}
		s.arrow(source, laneScheduler, verb+kv.Key)
	}
	if source == laneNB {
		s.arrow(laneNB, laneScheduler, "Commit")
	}
	reads := t.Retrieved
	for i, op := range t.Executed {
		for ; len(reads) > 0 && reads[0].After <= i; reads = reads[1:] {
			s.retrieve(reads[0])
		}
		s.operation(op)
	}
	for _, r := range reads {
		s.retrieve(r)
	}
	s.lanes = append(s.lanes, laneSB)
	return s
}

func (s *sequence) arrow(from, to, text string) {
	s.steps = append(s.steps, step{from: from, to: to, text: text})
}

func (s *sequence) retrieve(r kvscheduler.RecordedRetrieve) {
	s.lane(r.Descriptor)
	asked := "all"
	if n := len(r.Keys) + r.MoreKeys; n > 0 {
		asked = r.Keys[0]
		if n > 1 {
			asked += fmt.Sprintf(" and %d more", n-1)
		}
	}
	s.arrow(laneScheduler, r.Descriptor, "RETRIEVE "+asked)
	s.steps = append(s.steps, step{from: r.Descriptor, to: laneSB, text: took(r.Duration), failed: r.Err != nil})
	result := fmt.Sprintf("%d found", r.Found)
	if r.Err != nil {
		result, _, _ = strings.Cut(r.Err.Error(), "\n")
	}
	s.steps = append(s.steps, step{from: r.Descriptor, to: laneScheduler, text: result, failed: r.Err != nil})
}

// lane adds the lane of a descriptor, unless it is there.
func (s *sequence) lane(descriptor string) {
	if !slices.Contains(s.lanes, descriptor) {
		s.lanes = append(s.lanes, descriptor)
	}
}

func (s *sequence) operation(op kvscheduler.RecordedOp) {
	flags := ""
	if f := op.Flags(); len(f) > 0 {
		flags = " [" + strings.Join(f, " ") + "]"
	}
	result := fmt.Sprintf("%s is %v", op.Key, op.NewState)
	if op.NOOP || op.Descriptor == "" || op.NewState == pb.ValueState_OBTAINED || op.PrevState == pb.ValueState_OBTAINED {
		s.steps = append(s.steps, step{from: laneScheduler, text: result + flags}) // no descriptor was called
		return
	}
	s.lane(op.Descriptor)
	s.arrow(laneScheduler, op.Descriptor, fmt.Sprintf("%v %s%s", op.Operation, op.Key, flags))
	s.steps = append(s.steps, step{from: op.Descriptor, to: laneSB, text: took(op.Duration), failed: op.NewErr != nil})
	if op.NewErr != nil {
		text, _, _ := strings.Cut(op.NewErr.Error(), "\n")
		s.steps = append(s.steps, step{from: op.Descriptor, to: laneScheduler, text: text, failed: true})
	}
	s.steps = append(s.steps, step{from: laneScheduler, text: result})
}

// shorten replaces the texts.
func (s *sequence) shorten(short func(string) string) {
	for i := range s.steps {
		s.steps[i].text = short(s.steps[i].text)
	}
}
