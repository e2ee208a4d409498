package vpp

import (
	"context"

	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
)

// callAll sends requests of a module without waiting for their replies one by one, and
// returns how each went. VPP handles them in their order, whatever became of those
// before.
func callAll[P any, Rep interface {
	*P
	api.Message
}](ctx context.Context, v *VSwitch, m *module, reqs []api.Message) ([]Rep, []error) {
	replies, errs := make([]Rep, len(reqs)), make([]error, len(reqs))
	l, err := v.use(m)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return replies, errs
	}
	pending := make([]*vppapi.Pending, len(reqs))
	for i, req := range reqs {
		pending[i] = l.Start(ctx, req)
	}
	for i, p := range pending {
		replies[i] = new(P)
		errs[i] = p.Wait(ctx, replies[i])
	}
	return replies, errs
}

// startDump begins to read all objects of a kind, see vppapi.StartDump.
func startDump[D any, M interface {
	*D
	api.Message
}](ctx context.Context, v *VSwitch, m *module, req api.Message) *pendingDump[D, M] {
	l, err := v.use(m)
	if err != nil {
		return &pendingDump[D, M]{err: err}
	}
	return &pendingDump[D, M]{dump: vppapi.StartDump[D, M](ctx, l.Conn, req)}
}

type pendingDump[D any, M interface {
	*D
	api.Message
}] struct {
	dump *vppapi.Dump[D, M]
	err  error
}

func (d *pendingDump[D, M]) wait(ctx context.Context) ([]M, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.dump.Wait(ctx)
}
