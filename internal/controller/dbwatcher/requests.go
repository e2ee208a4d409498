package dbwatcher

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	fullResync       = "full"
	upstreamResync   = "upstream"
	downstreamResync = "downstream"
)

// request is a request for a resync, put under models.ResyncPrefix. Each is carried out once. The
// resync after a snapshot carries out all requests in the snapshot without an answer for their
// revision, whatever their type: it is the most thorough kind.
type request struct {
	name     string
	revision int64
	kind     string
	err      error
}

func newRequest(name string, kv store.KV) request {
	r := request{name: name, revision: kv.Revision, kind: fullResync}
	var msg feedbackpb.ResyncRequest
	if len(bytes.TrimSpace(kv.Value)) > 0 {
		if err := protojson.Unmarshal(kv.Value, &msg); err != nil {
			r.kind, r.err = "", errors.New(`request is not valid JSON: put {"type": "full"}, or "upstream", or "downstream"`)
			return r
		}
	}
	switch kind := strings.ToLower(msg.GetType()); kind {
	case "":
	case fullResync, upstreamResync, downstreamResync:
		r.kind = kind
	default:
		r.kind, r.err = msg.GetType(), fmt.Errorf("unknown resync type %q: use %q, %q or %q", msg.GetType(), fullResync, upstreamResync, downstreamResync)
	}
	return r
}

// outcome returns the answer to a request. record is the event that carried it out; nil if refused.
func (r request) outcome(record *controller.EventRecord) *feedbackpb.ResyncStatus {
	status := &feedbackpb.ResyncStatus{Type: r.kind, Revision: r.revision, Time: timestamppb.New(time.Now())}
	switch {
	case r.err != nil:
		status.Error = r.err.Error()
	case record != nil:
		status.Error = record.ErrorStr
		if record.Txn != nil {
			status.Transaction = &record.Txn.SeqNum
		}
	}
	return status
}

// requests are the requests in a snapshot.
type requests struct {
	names []string
	open  []request
}

func (w *Watcher) requestsIn(snapshot []store.KV) requests {
	prefix := w.known.nodePrefix + models.ResyncPrefix
	answers := w.known.nodePrefix + models.StatusPrefix + models.ResyncPrefix
	answered := make(map[string]int64)
	for _, kv := range snapshot {
		if name, ok := strings.CutPrefix(kv.Key, answers); ok {
			var answer feedbackpb.ResyncStatus
			if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kv.Value, &answer) == nil {
				answered[name] = answer.GetRevision()
			}
		}
	}
	var all requests
	for _, kv := range snapshot {
		if name, ok := strings.CutPrefix(kv.Key, prefix); ok {
			all.names = append(all.names, name)
			if answered[name] != kv.Revision && w.answered[name] != kv.Revision {
				all.open = append(all.open, newRequest(name, kv))
			}
		}
	}
	return all
}

// taken records that the requests are being carried out, and deletes records of requests that no
// longer exist.
func (r requests) taken(w *Watcher) {
	maps.DeleteFunc(w.answered, func(name string, _ int64) bool { return !slices.Contains(r.names, name) })
	for _, request := range r.open {
		w.answered[request.name] = request.revision
	}
}

func (r requests) answer(f Feedback, record *controller.EventRecord) {
	for _, request := range r.open {
		f.Answer(request.name, request.outcome(record))
	}
}

// follow handles the requests among changes. A full resync is made after the preceding changes have
// been received; others are queued for pushRequested.
func (s *session) follow(changes []store.Change) {
	prefix := s.known.nodePrefix + models.ResyncPrefix
	for _, change := range changes {
		name, ok := strings.CutPrefix(change.Key, prefix)
		if !ok {
			continue
		}
		s.Feedback.Requested(name, change.Deleted)
		if change.Deleted {
			delete(s.answered, name)
			continue
		}
		r := newRequest(name, change.KV)
		switch {
		case r.err != nil:
			s.log.Warn("Resync request refused", "key", change.Key, "error", r.err)
			s.answered[name] = r.revision
			s.Feedback.Answer(name, r.outcome(nil))
		case r.kind == fullResync || s.behind:
			s.resyncDue.Reset(0) // the resync answers it
		default:
			s.requested = append(s.requested, r)
		}
	}
}

// pushRequested sends the queued resyncs.
func (s *session) pushRequested() error {
	noted := s.requested
	s.requested = nil
	for _, r := range noted {
		event := &controller.RequestedResync{
			Type:      controller.DownstreamResync,
			By:        s.known.nodePrefix + models.ResyncPrefix + r.name,
			Processed: func(record *controller.EventRecord) { s.Feedback.Answer(r.name, r.outcome(record)) },
		}
		if r.kind == upstreamResync {
			event.Type = controller.UpstreamResync
		}
		if err := s.Loop.PushEvent(s.ctx, event); err != nil {
			return s.refused(err)
		}
		s.answered[r.name] = r.revision
	}
	return nil
}
