package controller

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

// HealingType tells why a HealingResync takes place.
type HealingType int

const (
	// Periodic healing compares the southbound with what was last computed.
	Periodic HealingType = iota
	// AfterError is a resync some time after an error.
	AfterError
)

// HealingResync repairs what earlier events left broken.
type HealingResync struct {
	NonBlocking
	Type HealingType
	// Error to be healed; nil for Periodic.
	Error error
}

func (*HealingResync) Name() string { return "Healing Resync" }
func (e *HealingResync) Method() EventMethod {
	if e.Type == Periodic {
		return DownstreamResync
	}
	return FullResync
}
func (e *HealingResync) String() string {
	if e.Type == Periodic {
		return "Healing Resync (periodic)"
	}
	return fmt.Sprintf("Healing Resync after error: %v", e.Error)
}

// VerificationResync follows other events when enableVerification is set: it
// must find nothing to change.
type VerificationResync struct{ NonBlocking }

func (*VerificationResync) Name() string        { return "Verification Resync" }
func (*VerificationResync) Method() EventMethod { return UpstreamResync }
func (*VerificationResync) String() string      { return "Verification Resync" }

// RequestedResync is a resync that a user requested.
type RequestedResync struct {
	NonBlocking
	// Type is UpstreamResync or DownstreamResync.
	Type EventMethod
	// By tells who asked, e.g. the key of the request.
	By string
	// Processed, if not nil, is told the record of the event, right after it was
	// processed. It must not wait.
	Processed func(*EventRecord)
}

func (*RequestedResync) Name() string               { return "Requested Resync" }
func (e *RequestedResync) Method() EventMethod      { return e.Type }
func (e *RequestedResync) processed(r *EventRecord) { tell(e.Processed, r) }
func (e *RequestedResync) String() string {
	return fmt.Sprintf("Requested Resync (%v) by %s", e.Type, e.By)
}

// Shutdown is the last event: handlers may remove what must not outlive the
// agent. What they leave alone keeps working.
type Shutdown struct{ Blocking }

func (*Shutdown) Name() string                     { return "Shutdown" }
func (*Shutdown) Method() EventMethod              { return Update }
func (*Shutdown) TransactionType() TransactionType { return BestEffort }
func (*Shutdown) Direction() Direction             { return Forward }
func (*Shutdown) String() string                   { return "Shutdown" }

func tell(processed func(*EventRecord), r *EventRecord) {
	if processed != nil {
		processed(r)
	}
}

func done(result *Blocking, err error) {
	if result != nil {
		result.Done(err)
	}
}

// isBlocking reports whether the sender of the event waits for its result.
func isBlocking(event Event) bool {
	switch e := event.(type) {
	case interface{ blocking() }:
		return true
	case interface{ waits() bool }:
		return e.waits()
	}
	return false
}

func sortedKeys(config map[string]proto.Message) []string {
	keys := make([]string, 0, len(config))
	for key := range config {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func isNil(msg proto.Message) bool { return msg == nil || !msg.ProtoReflect().IsValid() }
