package vppapi

import "sync/atomic"

// Totals count what has passed between this process and VPP since it began, over all
// connections.
type Totals struct {
	// Connections that were made, and that are open.
	Created, Open uint64
	// Requests that were sent, answered, and neither; Replies are messages that answered.
	Sent, Done, Failed, Replies uint64
}

var totals struct{ created, open, sent, done, failed, replies atomic.Uint64 }

// Count returns the totals as they are now.
func Count() Totals {
	return Totals{
		Created: totals.created.Load(), Open: totals.open.Load(),
		Sent: totals.sent.Load(), Done: totals.done.Load(), Failed: totals.failed.Load(), Replies: totals.replies.Load(),
	}
}
