package dbwatcher

import (
	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/controller"
)

// Feedback receives the node's values in the database in order to publish their status. Its
// methods, and the functions that they return, must not block.
type Feedback interface {
	// Replaced passes all values of the node, by northbound key, and the names of all requests for
	// a resync. The returned function is called when the event loop has processed them.
	Replaced(values map[string]Value, requests []string) (processed func(*controller.EventRecord))
	// Changed passes the values that were written or deleted. The returned function is called when
	// the event loop has processed them; if it is never called, Replaced follows. Values that equal
	// their predecessors are not processed.
	Changed(values map[string]Value) (processed func(*controller.EventRecord))
	// Requested reports that a request for a resync was put or deleted.
	Requested(name string, deleted bool)
	// Answer passes the outcome of a request for a resync.
	Answer(name string, outcome *feedbackpb.ResyncStatus)
}

// Value is the state of a key in the database.
type Value struct {
	// Revision of the last change of the key.
	Revision int64
	Deleted  bool
	// Err is set if the value cannot be decoded.
	Err error
	// Kept: an earlier value stays in force because of Err.
	Kept bool
	// Warnings are problems of a decoded value.
	Warnings []string
	// Same: the value equals the previous one, so the event loop gets no event.
	Same bool
}

type noFeedback struct{}

func (noFeedback) Replaced(map[string]Value, []string) func(*controller.EventRecord) {
	return func(*controller.EventRecord) {}
}
func (noFeedback) Changed(map[string]Value) func(*controller.EventRecord) { return nil }
func (noFeedback) Requested(string, bool)                                 {}
func (noFeedback) Answer(string, *feedbackpb.ResyncStatus)                {}
