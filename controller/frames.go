package controller

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// frameWidth is in columns.
const frameWidth = 130

// frames writes the framed event log: a box for the start and the end of each event. It is for
// people who follow one agent; structured logs have the same content.
type frames struct{ w io.Writer }

func (f frames) start(r *EventRecord, handlers []EventHandler) {
	if f.w == nil {
		return
	}
	b := newBox('>')
	b.title("NEW EVENT: "+r.Name, r.SeqNum)
	if r.IsFollowUp {
		b.line(fmt.Sprintf("follow-up to #%d", r.FollowUpTo))
	}
	for _, line := range strings.Split(r.Description, "\n") {
		b.line(line)
	}
	if len(handlers) > 0 {
		b.line("EVENT HANDLERS:")
		for _, h := range handlers {
			b.line("    * " + h.String())
		}
	}
	f.write(b)
}

func (f frames) end(r *EventRecord) {
	if f.w == nil {
		return
	}
	b := newBox('<')
	b.title("FINALIZED EVENT: "+r.Name, r.SeqNum)
	b.line(fmt.Sprintf("took %v", r.ProcessingEnd.Sub(r.ProcessingStart)))
	if len(r.Handlers) > 0 {
		b.line("HANDLED BY:")
	}
	for _, h := range r.Handlers {
		line := "    * " + h.Handler
		if h.Revert {
			line += " (revert)"
		}
		if h.Change != "" {
			line += ": " + h.Change
		}
		if h.ErrorStr != "" {
			line += " (ERROR: " + h.ErrorStr + ")"
		}
		b.line(line)
	}
	if r.Txn != nil {
		b.line(fmt.Sprintf("TRANSACTION #%d: %d operations", r.Txn.SeqNum, r.Txn.Operations))
	}
	if r.ErrorStr != "" {
		b.line("ERROR: " + r.ErrorStr)
	}
	f.write(b)
}

func (f frames) write(b *box) {
	_, _ = io.WriteString(f.w, b.String()) // a log that cannot be written must not stop the loop
}

type box struct {
	strings.Builder
	border string
}

func newBox(border byte) *box {
	b := &box{border: strings.Repeat(string(border), frameWidth) + "\n"}
	b.WriteString("\n" + b.border)
	return b
}

func (b *box) title(text string, seq uint64) {
	right := fmt.Sprintf("#%d *", seq)
	gap := frameWidth - 4 - utf8.RuneCountInString(text) - len(right)
	if gap < 1 {
		b.line(text)
		text, gap = "", frameWidth-4-len(right)
	}
	fmt.Fprintf(b, "*   %s%s%s\n", text, strings.Repeat(" ", gap), right)
}

func (b *box) line(text string) {
	const width = frameWidth - 6
	for _, part := range strings.Split(text, "\n") {
		runes := []rune(part)
		for first := true; first || len(runes) > 0; first = false {
			n := min(len(runes), width)
			fmt.Fprintf(b, "*   %-*s *\n", width, string(runes[:n]))
			runes = runes[n:]
		}
	}
}

// String returns the box with its lower border.
func (b *box) String() string { return b.Builder.String() + b.border }
