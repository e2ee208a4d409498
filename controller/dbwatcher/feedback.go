package dbwatcher

import (
	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/controller"
)

// Feedback receives the node's values that others put into the database, to answer them. Its
// methods, and the functions that they return, must not wait.
type Feedback interface {
	// Replaced passes all values of the node in the database, by northbound key, and the names of
	// all requests for a resync. The returned function is called when the event loop has processed
	// them.
	Replaced(values map[string]Value, requests []string) (processed func(*controller.EventRecord))
	// Changed tells which values were written or deleted. The returned function is called when
	// the event loop has processed them; when it is not called, Replaced follows.
	// Values that mean the same as those before are not processed.
	Changed(values map[string]Value) (processed func(*controller.EventRecord))
	// Requested reports that a request for a resync was put or deleted.
	Requested(name string, deleted bool)
	// Answer is the outcome of a request for a resync.
	Answer(name string, outcome *feedbackpb.ResyncStatus)
}

// Value is what the database holds under a key.
type Value struct {
	// Revision of the last change of the key.
	Revision int64
	Deleted  bool
	// Err says why the value cannot be decoded.
	Err error
	// Kept says that an earlier value stays in force because of Err.
	Kept bool
	// Warnings are the problems of a value that could be decoded nevertheless.
	Warnings []string
	// Same says that the event loop need not be told: the value means the same as the
	// one before.
	Same bool
}

type noFeedback struct{}

func (noFeedback) Replaced(map[string]Value, []string) func(*controller.EventRecord) {
	return func(*controller.EventRecord) {}
}
func (noFeedback) Changed(map[string]Value) func(*controller.EventRecord) { return nil }
func (noFeedback) Requested(string, bool)                                 {}
func (noFeedback) Answer(string, *feedbackpb.ResyncStatus)                {}
