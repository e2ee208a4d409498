package kvscheduler_test

import (
	"io"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
)

func init() {
	kvscheduler.Upper.Handler = inspect.Handler
	kvscheduler.Upper.Diff = inspect.Diff
	kvscheduler.Upper.Explain = func(s *kvscheduler.Scheduler, key string) string { return inspect.Explain(s, key).Summary }
	kvscheduler.Upper.Draw = func(w io.Writer, t *record.Txn) error { return diagram.SequenceOf(t).WriteMermaid(w) }
}
