package diagram

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Sequence is the sequence diagram of a transaction: lanes with arrows between them.
//
//	NB          KVScheduler      vpp-route     Southbound
//	 ├── Put … ──────>│               │             │
//	 ├── Commit ─────>│── Create … ──>│── create ──>│
//	 │                │ … is CONFIGURED             │
type Sequence struct {
	title string
	lanes []string
	steps []step
}

// step is an arrow between two lanes, or a note if it has no target.
type step struct {
	from, to string
	text     string
	detail   string // omitted in SVG
	took     time.Duration
	failed   bool
	reply    bool
}

const (
	laneNB        = "NB"
	laneScheduler = "KVScheduler"
	laneSB        = "Southbound"
)

// SequenceOf returns the diagram of a transaction.
func SequenceOf(t *record.Txn) *Sequence {
	source := laneNB
	switch t.Type {
	case record.SBNotification:
		source = laneSB
	case record.RetryFailedOps, record.RetryUnimplOps:
		source = laneScheduler
	}
	s := &Sequence{title: fmt.Sprintf("#%d %s", t.SeqNum, t.Title()), lanes: []string{laneScheduler}}
	if t.Description != "" {
		s.title += ": " + t.Description
	}
	if source == laneNB {
		s.lanes = []string{laneNB, laneScheduler}
	}
	for _, kv := range t.Values {
		st := step{from: source, to: laneScheduler}
		switch {
		case t.Type == record.SBNotification:
			st.text = "PushSBNotification " + kv.Key
		case t.Type != record.NBTransaction:
			st.text = "retry " + kv.Key
		case kv.Value == nil:
			st.text = "Delete " + kv.Key
		default:
			st.text, st.detail = "Put "+kv.Key, record.Compact(kv.Value)
		}
		s.steps = append(s.steps, st)
	}
	if source == laneNB {
		s.arrow(laneNB, laneScheduler, "Commit")
	}
	t.InOrder(s.retrieve, func(i int) { s.operation(&t.Executed[i]) })
	if source == laneNB {
		s.steps = append(s.steps, step{from: laneScheduler, to: laneNB, text: resultOf(t), reply: true})
	}
	s.lanes = append(s.lanes, laneSB)
	return s
}

func resultOf(t *record.Txn) string {
	switch {
	case slices.ContainsFunc(t.Executed, func(op record.Op) bool { return op.IsRevert }):
		return "reverted"
	case slices.ContainsFunc(t.Executed, func(op record.Op) bool { return op.NewErr != nil }):
		return "errors"
	}
	return "done"
}

func (s *Sequence) arrow(from, to, text string) {
	s.steps = append(s.steps, step{from: from, to: to, text: text})
}

func (s *Sequence) note(text string) {
	s.steps = append(s.steps, step{from: laneScheduler, text: text})
}

func (s *Sequence) lane(descriptor string) {
	if !slices.Contains(s.lanes, descriptor) {
		s.lanes = append(s.lanes, descriptor)
	}
}

func (s *Sequence) retrieve(r *record.Retrieve) {
	s.lane(r.Descriptor)
	s.arrow(laneScheduler, r.Descriptor, "Retrieve "+r.Asked())
	s.steps = append(s.steps,
		step{from: r.Descriptor, to: laneSB, text: "read", took: r.Duration, failed: r.Err != nil},
		step{from: r.Descriptor, to: laneScheduler, text: r.Result(), failed: r.Err != nil, reply: true})
}

func (s *Sequence) operation(op *record.Op) {
	flags := ""
	if f := op.Flags(); len(f) > 0 {
		flags = " [" + strings.Join(f, " ") + "]"
	}
	if op.NOOP || op.Descriptor == "" || op.NewState == pb.ValueState_OBTAINED || op.PrevState == pb.ValueState_OBTAINED {
		s.note(fmt.Sprintf("%v %s%s is %v", op.Operation, op.Key, flags, op.NewState)) // no descriptor was called
		return
	}
	s.lane(op.Descriptor)
	verb := strings.ToLower(op.Operation.String())
	s.arrow(laneScheduler, op.Descriptor, strings.ToUpper(verb[:1])+verb[1:]+" "+op.Key+flags)
	s.steps = append(s.steps, step{from: op.Descriptor, to: laneSB, text: verb, took: op.Duration, failed: op.NewErr != nil})
	if op.NewErr != nil {
		s.steps = append(s.steps, step{from: op.Descriptor, to: laneScheduler, text: record.FirstLine(op.NewErr.Error()), failed: true, reply: true})
	}
	s.note(fmt.Sprintf("%s is %v", op.Key, op.NewState))
}

// Shorten applies short to the texts of all steps.
func (s *Sequence) Shorten(short func(string) string) {
	for i := range s.steps {
		s.steps[i].text = short(s.steps[i].text)
	}
}

// WriteMermaid writes the diagram as Mermaid. The output does not contain durations.
func (s *Sequence) WriteMermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	names := map[string]string{}
	for _, lane := range s.lanes {
		switch lane {
		case laneNB:
			names[lane] = "NB"
			b.WriteString("    participant NB\n")
			continue
		case laneScheduler:
			names[lane] = "S"
		case laneSB:
			names[lane] = "SB"
		default:
			names[lane] = fmt.Sprintf("D%d", len(names)-slices.Index(s.lanes, laneScheduler))
		}
		fmt.Fprintf(&b, "    participant %s as %s\n", names[lane], mermaid(lane))
	}
	fmt.Fprintf(&b, "    Note over S: %s\n", mermaid(s.title))
	for _, st := range s.steps {
		text := st.text
		if st.detail != "" {
			text += " " + st.detail
		}
		arrow := "->>"
		switch {
		case st.to == "":
			fmt.Fprintf(&b, "    Note over S: %s\n", mermaid(text))
			continue
		case st.reply:
			arrow = "-->>"
		case st.failed:
			arrow = "-x"
		}
		fmt.Fprintf(&b, "    %s%s%s: %s\n", names[st.from], arrow, names[st.to], mermaid(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaid escapes the special characters of Mermaid.
func mermaid(text string) string {
	return strings.NewReplacer("#", "#35;", ";", "#59;", "\n", " ", "<", "#lt;", ">", "#gt;", "%", "#37;").Replace(text)
}
