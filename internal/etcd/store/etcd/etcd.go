package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// listPage is the number of pairs per request of List.
const listPage = 5000

// Store implements store.Watchable. Errors of calls that cannot reach etcd wrap
// store.ErrUnavailable; such a write may have been made.
type Store struct {
	client  *clientv3.Client
	timeout time.Duration
	// endpoints and tls (nil: none) of the client, for probes.
	endpoints []string
	tls       *tls.Config
	dialer    dialer

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	space space

	// cluster is the ID of the cluster that answered last; 0: none yet.
	cluster atomic.Uint64

	mu sync.Mutex
	// lost is closed, and replaced, when the connection is lost.
	lost chan struct{}
}

var (
	_ store.Watchable  = (*Store)(nil)
	_ store.Identified = (*Store)(nil)
	_ store.Dated      = (*Store)(nil)
)

// New returns a store that connects in the background, and reconnects. The error is about the
// configuration.
func New(cfg Config) (*Store, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New(`etcd: no endpoints given: set "endpoints", for example to ["127.0.0.1:12379"]`)
	}
	if err := cfg.expand(); err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	locate, err := cfg.locator(tlsConfig != nil)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
		MinConnectTimeout: cfg.DialTimeout.Std(),
	})}
	s := &Store{dialer: dialer{endpoints: cfg.Endpoints, locate: locate, mark: cfg.Mark}}
	if locate != nil || cfg.Mark != 0 {
		options = append(options, grpc.WithContextDialer(s.dialer.dial))
	}
	ctx, cancel := context.WithCancel(context.Background())
	client, err := clientv3.New(clientv3.Config{
		Context:              ctx,
		Endpoints:            cfg.Endpoints,
		DialTimeout:          cfg.DialTimeout.Std(),
		DialKeepAliveTime:    cfg.KeepAliveTime.Std(),
		DialKeepAliveTimeout: cfg.KeepAliveTimeout.Std(),
		TLS:                  tlsConfig,
		Username:             cfg.Username,
		Password:             cfg.Password,
		Logger:               zap.NewNop(), // errors are returned to the caller
		DialOptions:          options,
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("etcd: %w", err)
	}
	s.client, s.timeout, s.endpoints, s.tls = client, cfg.OperationTimeout.Std(), cfg.Endpoints, tlsConfig
	s.ctx, s.cancel, s.lost = ctx, cancel, make(chan struct{})
	s.wg.Go(s.followConnection)
	return s, nil
}

// Client returns the etcd client of the store, for operations that store.Broker lacks.
func (s *Store) Client() *clientv3.Client { return s.client }

// Endpoints returns the configured endpoints with environment variables replaced.
func (s *Store) Endpoints() []string { return s.endpoints }

// Addresses returns where etcd is: the endpoints, the members that Locate knows, and the addresses that have answered. With names
// as endpoints, it does so once a member has answered.
func (s *Store) Addresses() []netip.AddrPort { return s.dialer.addresses(s.ctx) }

// Close ends all watches and calls.
func (s *Store) Close() error {
	s.cancel()
	err := s.client.Close()
	s.wg.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// followConnection signals the loss of the connection, since the client reconnects silently.
func (s *Store) followConnection() {
	conn := s.client.ActiveConnection()
	for {
		state := conn.GetState()
		if !conn.WaitForStateChange(s.ctx, state) {
			return
		}
		if state == connectivity.Ready {
			s.mu.Lock()
			close(s.lost)
			s.lost = make(chan struct{})
			s.mu.Unlock()
		}
	}
}

func (s *Store) connectionLost() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// callContext limits a call by the operation timeout and the lifetime of the store.
func (s *Store) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *Store) Get(ctx context.Context, key string) (store.KV, bool, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	response, err := s.client.Get(ctx, key)
	if err != nil {
		return store.KV{}, false, wrap("get "+key, err)
	}
	if len(response.Kvs) == 0 {
		return store.KV{}, false, nil
	}
	kv := response.Kvs[0]
	return store.KV{Key: key, Value: kv.Value, Revision: kv.ModRevision}, true, nil
}

// List implements store.Broker. The operation timeout applies to each page.
func (s *Store) List(ctx context.Context, prefix string) ([]store.KV, int64, error) {
	var (
		kvs      []store.KV
		revision int64
	)
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		from, end = "\x00", "\x00"
	}
	for {
		page, err := s.page(ctx, from, end, revision)
		if err != nil {
			return nil, 0, wrap("list "+prefix, err)
		}
		for _, kv := range page.Kvs {
			kvs = append(kvs, store.KV{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision})
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		if !page.More {
			return kvs, revision, nil
		}
		from = kvs[len(kvs)-1].Key + "\x00"
	}
}

func (s *Store) page(ctx context.Context, from, end string, revision int64) (*clientv3.GetResponse, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	page, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithRev(revision))
	if err == nil {
		s.cluster.Store(page.Header.ClusterId)
	}
	return page, err
}

// Identity implements store.Identified with the cluster ID of the etcd that answered the last List,
// in hexadecimal. A new cluster with the same name and addresses has the same ID.
func (s *Store) Identity() string {
	if id := s.cluster.Load(); id != 0 {
		return strconv.FormatUint(id, 16)
	}
	return ""
}

// Revision implements store.Dated with an empty transaction, which needs no permission.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	response, err := s.client.Txn(ctx).Commit()
	if err != nil {
		return 0, wrap("ask for the revision", err)
	}
	return response.Header.Revision, nil
}

func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	_, err := s.client.Put(ctx, key, string(value))
	s.space.wrote(err)
	return wrap("put "+key, err)
}

func (s *Store) Delete(ctx context.Context, key string) error {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	_, err := s.client.Delete(ctx, key)
	return wrap("delete "+key, err)
}

// DeletePrefix implements store.Broker in one transaction.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	_, err := s.client.Delete(ctx, prefix, clientv3.WithPrefix())
	return wrap("delete all of "+prefix, err)
}

func (s *Store) PutIfNotExists(ctx context.Context, key string, value []byte) (bool, error) {
	return s.doIf(ctx, key, clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.OpPut(key, string(value)))
}

func (s *Store) CompareAndSwap(ctx context.Context, key string, old, new []byte) (bool, error) {
	return s.doIf(ctx, key, clientv3.Compare(clientv3.Value(key), "=", string(old)), clientv3.OpPut(key, string(new)))
}

func (s *Store) CompareAndDelete(ctx context.Context, key string, old []byte) (bool, error) {
	return s.doIf(ctx, key, clientv3.Compare(clientv3.Value(key), "=", string(old)), clientv3.OpDelete(key))
}

func (s *Store) doIf(ctx context.Context, key string, condition clientv3.Cmp, op clientv3.Op) (bool, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	response, err := s.client.Txn(ctx).If(condition).Then(op).Commit()
	if op.IsPut() && (err != nil || response.Succeeded) {
		s.space.wrote(err)
	}
	if err != nil {
		return false, wrap("change "+key, err)
	}
	return response.Succeeded, nil
}

// wrap adds the failed operation, and the kind of failure as an error of package store.
func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("etcd: %s: %w", what, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("etcd: %s: %w", what, store.ErrCompacted)
	case isDenied(err):
		return fmt.Errorf("etcd: %s: %w", what, deniedError{err})
	case isUnavailable(err):
		return fmt.Errorf("etcd: %s: %w: %w", what, store.ErrUnavailable, err)
	}
	return fmt.Errorf("etcd: %s: %w", what, err)
}

// deniedError is an etcd error that also is store.ErrDenied.
type deniedError struct{ error }

func (e deniedError) Unwrap() error        { return e.error }
func (e deniedError) Is(target error) bool { return target == store.ErrDenied }

// isDenied also recognises the error of a watch, which has only a text.
func isDenied(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || err.Error() == rpctypes.ErrGRPCPermissionDenied.Error()
}

func isUnavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code := status.Code(err)
	var etcdError rpctypes.EtcdError
	if errors.As(err, &etcdError) {
		code = etcdError.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}
