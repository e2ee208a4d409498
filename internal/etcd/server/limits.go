package server

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// LimitsHeader is present if users have limits.
	LimitsHeader = "contiv-etcd-limits"
	// RefusedHeader names the users at a limit. It is absent if no user is.
	RefusedHeader = "contiv-etcd-refused"
)

var refusedRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "contiv_etcd_refused_requests_total",
	Help: "Requests refused because the user reached a limit (bytes, keys, leases, watches) or used the most when etcd was nearly full (full).",
}, []string{"user", "limit"})

type limiter struct {
	etcd   *embed.Etcd
	ledger *ledger
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newLimiter(etcd *embed.Etcd, opts Options) *limiter {
	ctx, stop := context.WithCancel(context.Background())
	l := &limiter{etcd: etcd, stop: stop, ledger: newLedger(opts.Limits, opts.Quota, opts.CompactAfter, opts.Owner, etcd.Server.Backend().Size)}
	stream := l.count()
	l.done.Go(func() {
		for l.follow(ctx, stream) {
			stream = l.count() // the watch missed revisions, for example after a snapshot from another member
		}
	})
	return l
}

func (l *limiter) close() {
	l.stop()
	l.done.Wait()
}

// count reads all revisions, the oldest first, and returns a stream of later ones. Revisions in
// both are recorded once.
func (l *limiter) count() mvcc.WatchStream {
	kv := l.etcd.Server.KV()
	stream := kv.NewWatchStream()
	if _, err := stream.Watch(0, []byte{0}, []byte{}, kv.Rev()+1); err != nil {
		panic(err) // impossible: the stream is open and the range is not empty
	}
	l.ledger.reset()
	tx := l.etcd.Server.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	tx.UnsafeForEach(schema.Key, func(k, v []byte) error {
		var kv mvccpb.KeyValue
		switch revision := mvcc.BytesToRev(k).Main; {
		case kv.Unmarshal(v) != nil: // etcd does not start with such data
		case mvcc.IsTombstone(k):
			l.ledger.deleted(string(kv.Key), revision)
		default:
			l.ledger.put("", string(kv.Key), sizeOf(kv.Key, kv.Value), revision)
		}
		return nil
	})
	return stream
}

// follow records events until ctx ends or events are missing. It reports the latter.
func (l *limiter) follow(ctx context.Context, stream mvcc.WatchStream) (missed bool) {
	defer stream.Close()
	for {
		select {
		case <-ctx.Done():
			return false
		case response, ok := <-stream.Chan():
			if !ok || response.CompactRevision != 0 {
				return ok
			}
			for _, e := range response.Events {
				if e.Type == mvccpb.DELETE {
					l.ledger.deleted(string(e.Kv.Key), e.Kv.ModRevision)
				} else {
					l.ledger.put("", string(e.Kv.Key), sizeOf(e.Kv.Key, e.Kv.Value), e.Kv.ModRevision)
				}
			}
		}
	}
}

// userOf returns the user of the certificate, or "" for Root and for connections without
// certificate.
func userOf(ctx context.Context) string {
	if user := commonNameIn(ctx); user != Root {
		return user
	}
	return ""
}

func refused(err error) error {
	return status.Error(codes.ResourceExhausted, "etcdserver: "+err.Error())
}

func (l *limiter) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if r, ok := request.(*pb.AlarmRequest); ok && r.Action == pb.AlarmRequest_GET {
		header := metadata.Pairs(LimitsHeader, "on")
		if text := l.ledger.report(); text != "" {
			header.Set(RefusedHeader, text)
		}
		grpc.SetHeader(ctx, header)
	}
	user := userOf(ctx)
	if user == "" {
		return handle(ctx, request)
	}
	switch r := request.(type) {
	case *pb.PutRequest:
		return l.write(ctx, user, request, []*pb.PutRequest{r}, handle)
	case *pb.TxnRequest:
		return l.write(ctx, user, request, putsOf(r, nil), handle)
	case *pb.LeaseGrantRequest:
		return l.grant(ctx, user, r, handle)
	case *pb.LeaseRevokeRequest:
		if !l.owns(ctx, user, r.ID) {
			return nil, rpctypes.ErrGRPCPermissionDenied
		}
	}
	return handle(ctx, request)
}

func putsOf(r *pb.TxnRequest, list []*pb.PutRequest) []*pb.PutRequest {
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if put := op.GetRequestPut(); put != nil {
				list = append(list, put)
			}
			if nested := op.GetRequestTxn(); nested != nil {
				list = putsOf(nested, list)
			}
		}
	}
	return list
}

func (l *limiter) write(ctx context.Context, user string, request any, puts []*pb.PutRequest, handle grpc.UnaryHandler) (any, error) {
	for _, put := range puts {
		if put.Lease != 0 && !l.owns(ctx, user, put.Lease) {
			return nil, rpctypes.ErrGRPCPermissionDenied
		}
	}
	admitted, err := l.ledger.admit(user, puts)
	if err != nil {
		return nil, refused(err)
	}
	defer admitted.done()
	response, err := handle(ctx, request)
	if err != nil {
		return response, err
	}
	switch r := response.(type) {
	case *pb.PutResponse:
		l.record(user, puts[0], r.Header.Revision)
	case *pb.TxnResponse:
		l.recordTxn(user, request.(*pb.TxnRequest), r, r.Header.Revision)
	}
	return response, nil
}

func (l *limiter) record(user string, put *pb.PutRequest, revision int64) {
	if put.IgnoreValue {
		return // the watch reports the size
	}
	l.ledger.put(user, string(put.Key), sizeOf(put.Key, put.Value), revision)
}

func (l *limiter) recordTxn(user string, request *pb.TxnRequest, response *pb.TxnResponse, revision int64) {
	branch := request.Failure
	if response.Succeeded {
		branch = request.Success
	}
	for i, op := range branch {
		if put := op.GetRequestPut(); put != nil {
			l.record(user, put, revision)
		}
		if nested := op.GetRequestTxn(); nested != nil && i < len(response.Responses) {
			if inner := response.Responses[i].GetResponseTxn(); inner != nil {
				l.recordTxn(user, nested, inner, revision)
			}
		}
	}
}

// The ID of a lease contains its user, so that it survives restarts and is known to all members: a
// mark of 15 bits, 32 bits of the user, 16 random bits.
const (
	leaseMark  = int64(0x43e7) << 48
	leaseMarks = int64(0x7fff) << 48
)

func leasesOf(user string) int64 {
	h := fnv.New32a()
	h.Write([]byte(user))
	return leaseMark | int64(h.Sum32())<<16
}

func isLeaseOf(user string, id int64) bool { return id&^0xffff == leasesOf(user) }

func (l *limiter) grant(ctx context.Context, user string, r *pb.LeaseGrantRequest, handle grpc.UnaryHandler) (any, error) {
	if r.ID != 0 && !isLeaseOf(user, r.ID) {
		return nil, status.Errorf(codes.InvalidArgument, "etcdserver: lease %x has an ID outside the range of %s: let etcd choose the ID (ID 0)", r.ID, user)
	}
	// A user may list leases only if it may read all of their keys.
	all, err := l.etcd.Server.LeaseLeases(l.etcd.Server.AuthStore().WithRoot(ctx), &pb.LeaseLeasesRequest{})
	if err != nil {
		return nil, err
	}
	taken := map[int64]bool{}
	for _, one := range all.Leases {
		if isLeaseOf(user, one.ID) {
			taken[one.ID] = true
		}
	}
	if err := l.ledger.lease(user, len(taken)); err != nil {
		return nil, refused(err)
	}
	defer l.ledger.leased(user)
	for r.ID == 0 || taken[r.ID] {
		r.ID = leasesOf(user) | rand.Int64N(1<<16)
	}
	return handle(ctx, r)
}

// owns reports whether a lease belongs to the user. A lease from before limits existed belongs to
// users who may write all of its keys.
func (l *limiter) owns(ctx context.Context, user string, id int64) bool {
	if id&leaseMarks == leaseMark {
		return isLeaseOf(user, id)
	}
	server := l.etcd.Server
	info, err := server.AuthInfoFromCtx(ctx)
	if err != nil || info == nil {
		return false
	}
	answer, err := server.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	if err != nil {
		return errors.Is(err, lease.ErrLeaseNotFound) // etcd returns this error itself
	}
	for _, key := range answer.Keys {
		if server.AuthStore().IsPutPermitted(info, key) != nil {
			return false
		}
	}
	return len(answer.Keys) > 0
}

func (l *limiter) stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	user := userOf(stream.Context())
	if user == "" {
		return handle(server, stream)
	}
	if err := l.ledger.watch(user); err != nil {
		return refused(err)
	}
	s := &limitedStream{ServerStream: stream, limiter: l, user: user}
	defer func() { l.ledger.unwatch(user, 1+s.close()) }()
	return handle(server, s)
}

type limitedStream struct {
	grpc.ServerStream
	limiter *limiter
	user    string

	mu      sync.Mutex
	watches int
	closed  bool
}

func (s *limitedStream) close() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.watches
}

// RecvMsg returns an error for refused requests, which ends the stream.
func (s *limitedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	switch r := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		if !s.limiter.owns(s.Context(), s.user, r.ID) {
			return rpctypes.ErrGRPCPermissionDenied
		}
	case *pb.WatchRequest:
		if r.GetCreateRequest() == nil {
			return nil
		}
		if err := s.limiter.ledger.watch(s.user); err != nil {
			return refused(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed { // too late to be counted with the stream
			s.limiter.ledger.unwatch(s.user, 1)
			return nil
		}
		s.watches++
	}
	return nil
}

// SendMsg counts ended watchers.
func (s *limitedStream) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchResponse); ok && r.Canceled {
		s.mu.Lock()
		if s.watches > 0 && !s.closed {
			s.watches--
			s.limiter.ledger.unwatch(s.user, 1)
		}
		s.mu.Unlock()
	}
	return s.ServerStream.SendMsg(m)
}
