package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// DefaultPrefix is the prefix of the candidates' keys.
const DefaultPrefix = "/contiv-ksr/election"

// Options of an Elector.
type Options struct {
	// Store for the election and the leader's writes. The caller owns it. Required.
	Store *etcd.Store
	// Name of this instance for display. It is the value of its key.
	Name string
	// Prefix of the election. Default: DefaultPrefix.
	Prefix string
	// TTL is how long a vanished leader blocks others, in whole seconds, at least 2. Default 10 s.
	TTL time.Duration
	// CallTimeout bounds each call of etcd. Default 5 s.
	CallTimeout time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Elector is a ksr.Elector in etcd.
type Elector struct {
	opts Options
	log  *slog.Logger
	own  atomic.Pointer[string]
}

var _ ksr.Elector = (*Elector)(nil)

// New returns an error if the TTL is invalid.
func New(opts Options) (*Elector, error) {
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	if opts.TTL == 0 {
		opts.TTL = 10 * time.Second
	}
	if opts.CallTimeout == 0 {
		opts.CallTimeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.TTL < 2*time.Second || opts.TTL%time.Second != 0 {
		return nil, fmt.Errorf("time to live of the leadership is %s: use whole seconds, at least 2s", opts.TTL)
	}
	return &Elector{opts: opts, log: opts.Logger.With("election", opts.Prefix, "name", opts.Name)}, nil
}

// Lead implements ksr.Elector.
func (e *Elector) Lead(ctx context.Context, waiting func(), work func(context.Context, store.Broker) error) error {
	session, err := e.openSession(ctx)
	if err != nil {
		return fmt.Errorf("get a lease for the election: %w", err)
	}
	defer e.closeSession(session)
	term, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := context.AfterFunc(session.Ctx(), func() { end(fmt.Errorf("the lease ended: %w", ksr.ErrNotLeader)) })
	defer stop()

	c := &candidate{Elector: e, lease: session.Lease(), key: fmt.Sprintf("%s/%x", e.opts.Prefix, session.Lease())}
	e.own.Store(&c.key)
	if err := c.campaign(term, waiting); err != nil {
		return reason(ctx, term, err)
	}
	e.log.Info("this instance is the leader")
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := c.awaitLoss(term); err != nil {
			end(err)
		}
	}()
	err = work(term, &Store{
		Store: e.opts.Store,
		guard: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(c.key), "=", c.revision)},
	})
	err = reason(ctx, term, err)
	end(nil)
	<-watched
	return err
}

// Others implements ksr.Elector.
func (e *Elector) Others(ctx context.Context) (bool, error) {
	response, err := e.opts.Store.Client().Get(ctx, e.opts.Prefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return false, fmt.Errorf("list candidates: %w", err)
	}
	own := e.own.Load()
	for _, kv := range response.Kvs {
		if own == nil || string(kv.Key) != *own {
			return true, nil
		}
	}
	return false, nil
}

// reason returns the reason for the term's end, or nil if ctx ended.
func reason(ctx, term context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case term.Err() != nil:
		return context.Cause(term)
	case err == nil:
		return errors.New("the leader resigned")
	}
	return err
}

func (e *Elector) openSession(ctx context.Context) (*concurrency.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	client := e.opts.Store.Client()
	lease, err := client.Grant(ctx, int64(e.opts.TTL/time.Second))
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(lease.TTL)))
}

func (e *Elector) closeSession(session *concurrency.Session) {
	session.Orphan()
	ctx, cancel := context.WithTimeout(context.Background(), min(e.opts.CallTimeout, e.opts.TTL))
	defer cancel()
	if _, err := e.opts.Store.Client().Revoke(ctx, session.Lease()); err != nil {
		e.log.Debug("revoking the lease failed; it expires", "error", err)
	}
}
