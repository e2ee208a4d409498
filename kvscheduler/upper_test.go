package kvscheduler

import (
	"io"
	"net/http"
	"time"

	"github.com/contiv/contiv/kvscheduler/record"
)

// Above is what packages above this one offer, for tests that need it: they cannot be
// imported here (see above_external_test.go).
var Upper struct {
	Handler func(*Scheduler) http.Handler
	// Explain returns the summary of an explanation.
	Explain func(s *Scheduler, key string) string
	Diff    func(s *Scheduler, from, to time.Time) ([]record.Diff, error)
	Draw    func(w io.Writer, t *RecordedTxn) error
}

// graphAt returns all values as they were.
func (s *Scheduler) graphAt(t time.Time) ([]*ValueSnapshot, error) {
	seen, err := s.SnapshotAt(t)
	if err != nil {
		return nil, err
	}
	return seen.Values(), nil
}
