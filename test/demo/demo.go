package demo

import (
	"context"
	"io"

	"github.com/contiv/contiv/test/lab"
)

// Options of the demo.
type Options struct {
	Lab       lab.Options
	Keep      bool
	BatchPods int
}

func Run(ctx context.Context, w io.Writer, opts Options) error { return nil }
