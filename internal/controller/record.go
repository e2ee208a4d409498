package controller

import (
	"fmt"
	"strings"
	"time"
)

// EventRecord is the record of a processed event, and the JSON of GET /controller/event-history.
type EventRecord struct {
	SeqNum uint64
	// Enqueued is when the event was sent.
	Enqueued        time.Time
	ProcessingStart time.Time
	ProcessingEnd   time.Time
	// IsFollowUp: a handler sent it while event FollowUpTo was processed.
	IsFollowUp bool
	FollowUpTo uint64
	// Name is the kind of event, Description its String.
	Name        string
	Description string
	Method      EventMethod
	// Handlers that were called, in calling order.
	Handlers []HandlerRecord
	// Txn is nil if nothing was committed.
	Txn *TxnRecord `json:",omitempty"`
	// ErrorStr is "" for success.
	ErrorStr string `json:",omitempty"`
}

// HandlerRecord is one call of a handler.
type HandlerRecord struct {
	Handler string
	// Revert is true for calls of Revert, false for Update and Resync.
	Revert bool
	// Change is the handler's description; "" if nothing changed.
	Change   string
	ErrorStr string `json:",omitempty"`
}

// TxnRecord refers to the scheduler's record of the event's transaction.
type TxnRecord struct {
	SeqNum uint64
	// SouthboundTime is the time spent in the vswitch.
	SouthboundTime time.Duration
	// Operations is the number of executed operations.
	Operations int
	ErrorStr   string `json:",omitempty"`
}

var methodNames = [...]string{
	FullResync:       "FullResync",
	DownstreamResync: "DownstreamResync",
	UpstreamResync:   "UpstreamResync",
	Update:           "Update",
}

func (m EventMethod) String() string {
	if m < 0 || int(m) >= len(methodNames) {
		return fmt.Sprintf("EventMethod(%d)", int(m))
	}
	return methodNames[m]
}

// MarshalText returns the name of the method.
func (m EventMethod) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *EventMethod) UnmarshalText(text []byte) error {
	for i, name := range methodNames {
		if name == string(text) {
			*m = EventMethod(i)
			return nil
		}
	}
	return fmt.Errorf("unknown event method %q", text)
}

// String formats the record on several lines.
func (r *EventRecord) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s (%v", r.SeqNum, r.Name, r.Method)
	if r.IsFollowUp {
		fmt.Fprintf(&b, ", follow-up to #%d", r.FollowUpTo)
	}
	fmt.Fprintf(&b, ") %s, waited %v, took %v\n", r.ProcessingStart.Format("2006-01-02 15:04:05.000"),
		r.ProcessingStart.Sub(r.Enqueued).Round(time.Microsecond), r.ProcessingEnd.Sub(r.ProcessingStart).Round(time.Microsecond))
	if r.Description != r.Name {
		fmt.Fprintf(&b, "   %s\n", strings.ReplaceAll(r.Description, "\n", "\n   "))
	}
	for _, h := range r.Handlers {
		fmt.Fprintf(&b, "   - %s", h.Handler)
		if h.Revert {
			b.WriteString(" (revert)")
		}
		if h.Change != "" {
			fmt.Fprintf(&b, ": %s", h.Change)
		}
		if h.ErrorStr != "" {
			fmt.Fprintf(&b, " ERROR: %s", h.ErrorStr)
		}
		b.WriteByte('\n')
	}
	if t := r.Txn; t != nil {
		fmt.Fprintf(&b, "   transaction #%d: %d operations, %v in the vswitch", t.SeqNum, t.Operations, t.SouthboundTime.Round(time.Microsecond))
		if t.ErrorStr != "" {
			fmt.Fprintf(&b, ", ERROR: %s", t.ErrorStr)
		}
		b.WriteByte('\n')
	}
	if r.ErrorStr != "" {
		fmt.Fprintf(&b, "   ERROR: %s\n", r.ErrorStr)
	}
	return b.String()
}
