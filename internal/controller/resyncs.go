package controller

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

// HealingType is the cause of a HealingResync.
type HealingType int

const (
	// Periodic healing compares the southbound with the last computed configuration.
	Periodic HealingType = iota
	// AfterError follows an error after a delay.
	AfterError
)

// HealingResync repairs failures of earlier events.
type HealingResync struct {
	NonBlocking
	Type HealingType
	// Error is the cause; nil for Periodic.
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

// VerificationResync follows other events if enableVerification is set. It must change nothing.
type VerificationResync struct{ NonBlocking }

func (*VerificationResync) Name() string        { return "Verification Resync" }
func (*VerificationResync) Method() EventMethod { return UpstreamResync }
func (*VerificationResync) String() string      { return "Verification Resync" }

// RequestedResync is a resync requested by a user.
type RequestedResync struct {
	// Type is UpstreamResync or DownstreamResync.
	Type EventMethod
	// By identifies the requester, e.g. the key of the request.
	By string
	// Processed, if not nil, is called with the record of the event after processing. It must not
	// block.
	Processed func(*EventRecord)
}

func (*RequestedResync) Name() string          { return "Requested Resync" }
func (e *RequestedResync) Method() EventMethod { return e.Type }
func (e *RequestedResync) Done(o Outcome)      { tell(e.Processed, o) }
func (e *RequestedResync) String() string {
	return fmt.Sprintf("Requested Resync (%v) by %s", e.Type, e.By)
}

// Shutdown is the last event. Handlers may remove configuration that must not outlive the agent;
// the rest keeps working.
type Shutdown struct{ Blocking }

func (*Shutdown) Name() string                     { return "Shutdown" }
func (*Shutdown) Method() EventMethod              { return Update }
func (*Shutdown) TransactionType() TransactionType { return BestEffort }
func (*Shutdown) Direction() Direction             { return Forward }
func (*Shutdown) String() string                   { return "Shutdown" }

func tell(processed func(*EventRecord), o Outcome) {
	if processed != nil && o.Record != nil {
		processed(o.Record)
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
