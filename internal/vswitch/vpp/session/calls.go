package session

import (
	"context"
	"errors"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/api"
)

// CallAll pipelines requests of a module and returns the result of each. VPP handles them in order,
// even after failed ones.
func CallAll[P any, Rep interface {
	*P
	api.Message
}](ctx context.Context, s *Session, m *Module, reqs []api.Message) ([]Rep, []error) {
	replies, errs := make([]Rep, len(reqs)), make([]error, len(reqs))
	l, err := s.Use(m)
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

// StartDump starts reading all objects of a kind; see vppapi.StartDump.
func StartDump[D any, M interface {
	*D
	api.Message
}](ctx context.Context, s *Session, m *Module, req api.Message) *Pending[D, M] {
	l, err := s.Use(m)
	if err != nil {
		return &Pending[D, M]{err: err}
	}
	return &Pending[D, M]{dump: vppapi.StartDump[D, M](ctx, l.Conn, req)}
}

type Pending[D any, M interface {
	*D
	api.Message
}] struct {
	dump *vppapi.Dump[D, M]
	err  error
}

func (d *Pending[D, M]) Wait(ctx context.Context) ([]M, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.dump.Wait(ctx)
}

// ByKey waits for a dump and returns the details by key: none if the plugin is not loaded.
func ByKey[K comparable, D any, M interface {
	*D
	api.Message
}](ctx context.Context, d *Pending[D, M], key func(M) K) (map[K]M, error) {
	all, err := d.Wait(ctx)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil, nil
	}
	m := make(map[K]M, len(all))
	for _, d := range all {
		m[key(d)] = d
	}
	return m, err
}
