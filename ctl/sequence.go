package ctl

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

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

// Sizes in pixels; the width of a character is that of a monospaced one.
const (
	laneGap, stepGap  = 200, 26
	margin, topHeight = 20, 70
	charWidth         = 6.7
)

// shorten replaces the texts.
func (s *sequence) shorten(short func(string) string) {
	for i := range s.steps {
		s.steps[i].text = short(s.steps[i].text)
	}
}

// writeSVG draws the sequence. Texts may reach across lanes, not into each other.
func (s sequence) writeSVG(w io.Writer, title string) error {
	x := make(map[string]int)
	for i, lane := range s.lanes {
		x[lane] = margin + 60 + i*laneGap
	}
	width := float64(x[laneSB] + 80)
	left := func(st step) int { // where its text begins
		if st.to == "" {
			return x[st.from] + 8
		}
		return min(x[st.from], x[st.to]) + 8
	}
	for _, st := range s.steps {
		width = max(width, float64(left(st)+margin)+charWidth*float64(utf8.RuneCountInString(st.text)))
	}
	width = max(width, margin*2+charWidth*1.2*float64(utf8.RuneCountInString(title)))
	height := topHeight + stepGap*(len(s.steps)+1) + margin

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" font-family="monospace" font-size="11">
<style>text{paint-order:stroke;stroke:white;stroke-width:3px} line{stroke:#555} .failed{stroke:#c00} .failedText{fill:#c00} .note{fill:#777}</style>
<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>
<rect width="100%%" height="100%%" fill="white"/>
<text x="%d" y="20" font-size="13">%s</text>
`, width, height, margin, html.EscapeString(title))
	for _, lane := range s.lanes {
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke-dasharray=\"3\"/>\n", x[lane], topHeight-10, x[lane], height-margin/2)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">%s</text>\n", x[lane], topHeight-20, html.EscapeString(lane))
	}
	for i, st := range s.steps {
		y := topHeight + stepGap*(i+1)
		text, line := "", ""
		switch {
		case st.failed:
			text, line = ` class="failedText"`, ` class="failed"`
		case st.to == "":
			text = ` class="note"`
		}
		if st.to != "" && st.to != st.from {
			fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"%s marker-end=\"url(#head)\"/>\n", x[st.from], y, x[st.to], y, line)
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", left(st), y-5, text, html.EscapeString(st.text))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
