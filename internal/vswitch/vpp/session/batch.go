package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
)

// Batch holds pending requests whose replies contain only a return code.
type Batch struct {
	l       *Link
	pending []pendingCall
}

type pendingCall struct {
	doing string
	p     *vppapi.Pending
	reply api.Message
	fine  []api.VPPApiError // codes that count as success
}

func NewBatch(l *Link) *Batch { return &Batch{l: l} }

// Add starts a request; doing describes it in errors.
func (b *Batch) Add(ctx context.Context, doing string, req, reply api.Message, fine ...api.VPPApiError) {
	b.pending = append(b.pending, pendingCall{doing, b.l.Start(ctx, req), reply, fine})
}

// Wait waits for all replies.
func (b *Batch) Wait(ctx context.Context) error {
	var errs []error
	for _, c := range b.pending {
		if err := c.p.Wait(ctx, c.reply); err != nil && !vppapi.Refused(err, c.fine...) {
			errs = append(errs, fmt.Errorf("%s: %w", c.doing, err))
		}
	}
	b.pending = nil
	return errors.Join(errs...)
}
