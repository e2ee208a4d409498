package feedback

import (
	"maps"
	"net/http"
	"slices"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/lib/rest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// URL of the REST API. GET returns the Statuses of the external values sorted by key, or of the
// argument key. Unprocessed values are left out.
const URL = "/controller/feedback"

// Status is the state of a value. Its JSON is the one in etcd.
type Status struct{ *feedbackpb.ValueStatus }

// MarshalJSON writes protojson with the names of the proto fields.
func (s Status) MarshalJSON() ([]byte, error) { return encode(s.ValueStatus) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Status) UnmarshalJSON(b []byte) error {
	s.ValueStatus = &feedbackpb.ValueStatus{}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, s.ValueStatus)
}

// Handler serves the REST API.
func (p *Publisher) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		rest.JSON(w, p.Statuses(r.URL.Query().Get("key")))
	})
}

// Statuses returns the statuses of all values, sorted by key, or of the key if not "".
func (p *Publisher) Statuses(only string) []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := []string{only}
	if only == "" {
		keys = slices.Sorted(maps.Keys(p.entries))
	}
	statuses := []Status{}
	for _, key := range keys {
		e := p.entries[key]
		if e == nil || e.gone() || e.report != nil || isRequest(key) || !e.publishable(key) {
			continue
		}
		status := e.status(key, p.Scheduler)
		if e.since != (time.Time{}) {
			status.Time = timestamppb.New(e.since)
		}
		statuses = append(statuses, Status{status})
	}
	return statuses
}
