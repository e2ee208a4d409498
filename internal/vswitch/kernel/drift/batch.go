package drift

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// Subsystem is a part of the driver that handles kernel events.
type Subsystem interface {
	// Notice is called with each rtnetlink message, by one goroutine. It sends notices for the
	// values of the subsystem that the message affects, if any.
	Notice(m syscall.NetlinkMessage, send func(Notice))
	// Check verifies the suspicions of the batch with the kernel and reports the differences.
	Check(b *Batch)
}

// Notice is the result of an event. Either field may be unset.
type Notice struct {
	// Reason, for people, why the values with the Keys are wrong.
	Reason string
	Keys   []string
	// Suspect is an object to check once events have stopped. It is comparable, and its type
	// identifies the subsystem that it belongs to.
	Suspect any
}

// Batch collects notices until they are reported.
type Batch struct {
	reasons  []string
	keys     map[string]struct{}
	suspects map[any]struct{}
}

func newBatch() *Batch {
	return &Batch{keys: map[string]struct{}{}, suspects: map[any]struct{}{}}
}

func (b *Batch) add(n Notice) {
	if len(n.Keys) > 0 {
		b.Report(n.Reason, n.Keys...)
	}
	if n.Suspect != nil {
		b.suspects[n.Suspect] = struct{}{}
	}
}

// Report adds wrong values.
func (b *Batch) Report(reason string, keys ...string) {
	if len(keys) == 0 {
		return
	}
	if !slices.Contains(b.reasons, reason) {
		b.reasons = append(b.reasons, reason)
	}
	for _, key := range keys {
		b.keys[key] = struct{}{}
	}
}

// Suspect adds a suspicion for a later subsystem.
func (b *Batch) Suspect(s any) { b.suspects[s] = struct{}{} }

// Suspects returns the suspicions of one type.
func Suspects[T comparable](b *Batch) (list []T) {
	for s := range b.suspects {
		if s, ok := s.(T); ok {
			list = append(list, s)
		}
	}
	return list
}

// Keys returns the sorted keys of the reported values.
func (b *Batch) Keys() []string { return slices.Sorted(maps.Keys(b.keys)) }

func (b *Batch) text() string {
	const most = 3
	if len(b.reasons) <= most {
		return strings.Join(b.reasons, "; ")
	}
	return fmt.Sprintf("%s; and %d more changes", strings.Join(b.reasons[:most], "; "), len(b.reasons)-most)
}
