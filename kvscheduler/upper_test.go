package kvscheduler

import (
	"io"
	"net/http"
	"time"

	"github.com/contiv/contiv/kvscheduler/record"
)

// Upper holds functions of the packages above this one. Tests of this package cannot import these packages
// (see upper_external_test.go).
var Upper struct {
	Handler func(*Scheduler) http.Handler
	// Explain returns the summary of an explanation.
	Explain func(s *Scheduler, key string) string
	Diff    func(s *Scheduler, from, to time.Time) ([]record.Diff, error)
	Draw    func(w io.Writer, t *RecordedTxn) error
}

func (s *Scheduler) graphAt(t time.Time) ([]*ValueSnapshot, error) {
	seen, err := s.SnapshotAt(t)
	if err != nil {
		return nil, err
	}
	return seen.Values(), nil
}
