package vppapi

import "sync/atomic"

// Totals counts the traffic between this process and VPP over all connections.
type Totals struct {
	// Connections created, and open now.
	Created, Open uint64
	// Requests sent, answered, and failed; Replies are the answering messages.
	Sent, Done, Failed, Replies uint64
}

var totals struct{ created, open, sent, done, failed, replies atomic.Uint64 }

// Count returns the present totals.
func Count() Totals {
	return Totals{
		Created: totals.created.Load(), Open: totals.open.Load(),
		Sent: totals.sent.Load(), Done: totals.done.Load(), Failed: totals.failed.Load(), Replies: totals.replies.Load(),
	}
}
