package feedback

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxStatus limits the JSON of a status, in bytes. etcd refuses requests over 1.5 MB.
const maxStatus = 256 << 10

// entry is the state of a value, or of a request for a resync, and of its status.
type entry struct {
	// revision in etcd; deleted: not in etcd
	revision int64
	deleted  bool
	// sources except etcd that have the value
	sources []string
	// err is the decoding error. kept: an earlier value, of revision good (0: unknown), stays in
	// force.
	err      error
	kept     bool
	warnings []string
	good     int64
	// awaits is the ticket of the event to be processed before the status is published; 0: none.
	awaits uint64
	txn    *uint64
	// failure is the error of the event, or "".
	failure string
	answer  *feedbackpb.ResyncStatus
	report  proto.Message

	// content is a hash of the status without its time; since is that time.
	content uint64
	since   time.Time
	// stored is a hash of the bytes in etcd; 0: none or unknown.
	stored uint64
}

func (e *entry) update(v dbwatcher.Value) {
	e.revision, e.deleted, e.err, e.kept, e.warnings = v.Revision, v.Deleted, v.Err, v.Kept, v.Warnings
	switch {
	case v.Deleted:
		e.good = 0
	case v.Err == nil:
		e.good = v.Revision
	}
}

func (e *entry) gone() bool { return e.deleted && len(e.sources) == 0 && e.report == nil }

// sawTxn records a transaction. Calls may be out of order.
func (e *entry) sawTxn(seq uint64) {
	if e.txn == nil || *e.txn < seq {
		e.txn = &seq
	}
}

// states is implemented by kvscheduler.Scheduler.
type states interface {
	ValueStatus(key string) *pb.BaseValueStatus
	Dependencies
}

func (e *entry) status(key string, s states) *feedbackpb.ValueStatus {
	status := &feedbackpb.ValueStatus{Sources: e.sources}
	if !e.deleted {
		status.Revision = e.revision
		status.Sources = append([]string{controller.DatabaseSource}, e.sources...)
	}
	switch {
	case e.err != nil:
		// etcd keys may hold any bytes, JSON may not.
		status.Value = &pb.ValueStatus{Key: strings.ToValidUTF8(key, "\uFFFD"), State: pb.ValueState_INVALID, Error: strings.ToValidUTF8(e.err.Error(), "\uFFFD")}
		if e.kept {
			status.InForce = e.good
			status.Value.Details = []string{e.keptText()}
		}
		return status
	case strings.HasPrefix(key, models.MergeDirectives.KeyPrefix()):
		// The controller applies them, not the scheduler.
		status.Value = &pb.ValueStatus{Key: key, State: pb.ValueState_CONFIGURED}
	default:
		base := s.ValueStatus(key)
		status.Value, status.DerivedValues, status.WaitsFor = base.Value, base.DerivedValues, WaitsFor(base, s)
		if base.Value.State == pb.ValueState_NONEXISTENT && base.Value.Error == "" {
			status.Value.Error = e.failure
		}
	}
	status.Transaction, status.Warnings = e.txn, e.warnings
	return status
}

// Dependencies returns the unmet dependencies of a value. The scheduler implements it.
type Dependencies interface {
	Unmet(key string) []kvscheduler.Need
}

// WaitsFor returns the unmet dependencies of a value and its derived values as texts for
// ValueStatus.waits_for.
func WaitsFor(base *pb.BaseValueStatus, s Dependencies) (texts []string) {
	for _, value := range append([]*pb.ValueStatus{base.Value}, base.DerivedValues...) {
		if value.State != pb.ValueState_PENDING {
			continue
		}
		for _, need := range s.Unmet(value.Key) {
			text := need.Label
			if !strings.Contains(text, need.Target) {
				text += ": " + need.Target
			}
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func (e *entry) keptText() string {
	if e.good == 0 {
		return "an earlier value stays in force"
	}
	return fmt.Sprintf("the value of revision %d stays in force", e.good)
}

func isRequest(key string) bool { return strings.HasPrefix(key, models.ResyncPrefix) }

// publishable reports whether the status is known.
func (e *entry) publishable(key string) bool {
	switch {
	case isRequest(key):
		return e.deleted || e.answer != nil // an earlier run may have answered
	case e.err != nil:
		return true
	}
	return e.awaits == 0
}

// encode returns the JSON to store for the key; nil deletes it.
func (e *entry) encode(key string, s states, now time.Time) ([]byte, error) {
	switch {
	case e.gone():
		return nil, nil
	case isRequest(key):
		return encode(e.answer)
	case e.report != nil:
		return encode(e.report)
	}
	status := e.status(key, s)
	content, err := hashOf(status)
	if err != nil {
		return nil, err
	}
	if content != e.content {
		e.content, e.since = content, now
	}
	status.Time = timestamppb.New(e.since)
	data, err := encode(status)
	if err == nil && len(data) > maxStatus {
		shorten(status)
		data, err = encode(status)
	}
	return data, err
}

func shorten(status *feedbackpb.ValueStatus) {
	const someLines, longText = 10, 4 << 10
	first := func(lines []string, what string) []string {
		if more := len(lines) - someLines; more > 0 {
			lines = append(slices.Clone(lines[:someLines]), fmt.Sprintf("and %d more %s", more, what))
		}
		for i, line := range lines {
			lines[i] = truncated(line, longText)
		}
		return lines
	}
	status.Value.Error = truncated(status.Value.Error, longText)
	status.Value.Details = first(slices.Clone(status.Value.Details), "details")
	status.Warnings = first(slices.Clone(status.Warnings), "warnings")
	status.WaitsFor = first(status.WaitsFor, "dependencies")
	if n := len(status.DerivedValues); n > 0 {
		status.DerivedValues = nil
		status.Warnings = append(status.Warnings, fmt.Sprintf("%d derived values are not listed here: see contivctl values", n))
	}
}

func truncated(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "…"
}

func encode(msg proto.Message) ([]byte, error) {
	data, err := models.Marshal(msg)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, data)
	return compact.Bytes(), err
}

var seed = maphash.MakeSeed()

func hashOf(msg proto.Message) (uint64, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	return hashBytes(data), err
}

func hashBytes(data []byte) uint64 { return max(maphash.Bytes(seed, data), 1) }
