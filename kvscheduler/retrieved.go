package kvscheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// RecordedRetrieve is one reading of the southbound by a descriptor.
type RecordedRetrieve struct {
	Descriptor string
	// Keys that were asked for, sorted, at most 16 of them; none: all values of
	// the descriptor. MoreKeys were asked for as well.
	Keys     []string
	MoreKeys int
	// Found is the number of values that the descriptor returned.
	Found int
	// After is the number of executed operations before it.
	After    int
	Duration time.Duration
	Err      error
}

// maxRecordedKeys bounds the memory of a record.
const maxRecordedKeys = 16

// retrieved records a call that read the southbound: the given nodes, or all if
// keyed is false.
func (x *exec) retrieved(c *call, nodes []*node, keyed bool, err error) {
	if !x.recording || x.caller == nil {
		return
	}
	r := RecordedRetrieve{Descriptor: c.h.name, After: len(x.ops), Duration: x.caller.last, Err: err}
	x.caller.last = 0
	if err == nil {
		r.Found = len(c.outItems)
	}
	if keyed {
		r.MoreKeys = max(0, len(nodes)-maxRecordedKeys)
		for _, n := range nodes[:len(nodes)-r.MoreKeys] {
			r.Keys = append(r.Keys, n.key)
		}
	}
	x.reads = append(x.reads, r)
}

// recordedReads counts the operations as recorded does: without replaced ones.
func (x *exec) recordedReads() []RecordedRetrieve {
	if x.skipped == 0 {
		return x.reads
	}
	kept, counted := 0, 0
	for i := range x.reads {
		for ; counted < x.reads[i].After; counted++ {
			if x.ops[counted].Key != "" {
				kept++
			}
		}
		x.reads[i].After = kept
	}
	return x.reads
}

// asked names what was asked for.
func (r *RecordedRetrieve) asked() string {
	if len(r.Keys) == 0 {
		return "all"
	}
	text := strings.Join(r.Keys, ", ")
	if r.MoreKeys > 0 {
		text += fmt.Sprintf(" and %d more", r.MoreKeys)
	}
	return text
}

// result is what came back.
func (r *RecordedRetrieve) result() string {
	switch {
	case r.Err != nil:
		return "error: " + firstLine(r.Err.Error())
	case r.Found == 0:
		return "nothing found"
	}
	return fmt.Sprintf("%d found", r.Found)
}

// String renders the reading on one line.
func (r RecordedRetrieve) String() string {
	return fmt.Sprintf("RETRIEVE  %s: %s  %s", r.Descriptor, r.asked(), r.result())
}

// inOrder calls retrieve and execute for what the transaction did, in order;
// execute gets the index of the operation.
func (t *RecordedTxn) inOrder(retrieve func(*RecordedRetrieve), execute func(i int)) {
	reads := slices.Clone(t.Retrieved)
	for i := 0; i <= len(t.Executed); i++ {
		for len(reads) > 0 && (reads[0].After <= i || i == len(t.Executed)) {
			retrieve(&reads[0])
			reads = reads[1:]
		}
		if i < len(t.Executed) {
			execute(i)
		}
	}
}
