package kvscheduler_test

import (
	"io"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
)

func init() {
	kvscheduler.Above.Handler = inspect.Handler
	kvscheduler.Above.Diff = inspect.Diff
	kvscheduler.Above.Explain = func(s *kvscheduler.Scheduler, key string) string { return inspect.Explain(s, key).Summary }
	kvscheduler.Above.Draw = func(w io.Writer, t *record.Txn) error { return diagram.SequenceOf(t).WriteMermaid(w) }
}
