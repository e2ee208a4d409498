package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// Server is a running etcd. The caller must close it.
type Server struct {
	etcd      *embed.Etcd
	lock      *dirLock
	log       *slog.Logger
	endpoints []string
	urls      endpoints
	clients   *clientListeners
	limits    *limiter // nil without limits
	member    bool     // one of several
	closing   atomic.Bool
	failed    chan error
	// stop ends the maintenance. background waits for its goroutines.
	stop       context.CancelFunc
	background sync.WaitGroup
	done       chan error
	closeOnce  sync.Once
}

// Start serves the data directory and returns when clients can read and write. If ctx ends before,
// it stops the member.
func Start(ctx context.Context, opts Options) (*Server, error) {
	return startLocked(ctx, opts, func() error { return nil })
}

// startLocked is Start with a callback after the data directory is locked and before etcd starts.
func startLocked(ctx context.Context, opts Options, locked func() error) (*Server, error) {
	opts = opts.withDefaults()
	registerMetrics()
	urls, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	commonName, err := opts.commonName()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(opts.DataDir)
	if err != nil {
		return nil, err
	}
	if err := locked(); err != nil {
		lock.release()
		return nil, err
	}
	s := &Server{lock: lock, log: opts.Logger, urls: urls, done: make(chan error, 1), failed: make(chan error, 1), member: len(opts.Members) > 1}
	if s.clients, err = listenClients(urls.clients); err != nil {
		lock.release()
		return nil, err
	}
	maintenance, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.etcd, err = embed.StartEtcd(s.config(opts, urls, commonName))
	if err != nil {
		stop()
		s.clients.stop()
		lock.release()
		return nil, startError(err, urls)
	}
	for _, u := range urls.clients {
		s.endpoints = append(s.endpoints, u.String())
	}
	if err := s.awaitReady(ctx, opts.ReadyTimeout); err != nil {
		s.Close()
		return nil, err
	}
	if opts.Users {
		if err := s.askForUsers(ctx); err != nil {
			s.Close()
			return nil, fmt.Errorf("start etcd: %w", err)
		}
	}
	if opts.Users {
		s.limits = newLimiter(s.etcd, opts)
	}
	if err := s.clients.serve(s.etcd, s.interceptors(), s.failed); err != nil {
		s.Close()
		return nil, err
	}
	s.background.Go(func() { s.maintain(maintenance, opts.Quota, maintainPeriod) })
	if opts.SnapshotEvery > 0 {
		s.background.Go(func() { s.schedule(maintenance, opts) })
	}
	go s.supervise()
	return s, nil
}

// commonName returns the common name of the certificate, which all members share, or "".
func (o Options) commonName() (string, error) {
	if !o.knowsClients() {
		if len(o.Members) == 0 {
			return "", nil
		}
		return "", errors.New("members know each other by their certificates: give certificate, key and the CA of the clients")
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return "", fmt.Errorf("start etcd: certificate of the server: %w", err)
	}
	return pair.Leaf.Subject.CommonName, nil
}

func initialCluster(members map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, name+"="+members[name])
	}
	return strings.Join(list, ",")
}

func (s *Server) config(opts Options, urls endpoints, commonName string) *embed.Config {
	c := embed.NewConfig()
	c.Name = opts.Name
	c.Dir = opts.DataDir
	c.ListenClientUrls = nil // see clientListeners
	c.AdvertiseClientUrls = advertised(urls)
	c.ListenPeerUrls = []url.URL{urls.peer}
	c.AdvertisePeerUrls = []url.URL{urls.peer}
	c.ListenMetricsUrls = urls.health
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	if len(opts.Members) > 0 {
		c.InitialCluster = initialCluster(opts.Members)
	}
	if urls.peer.Scheme == "https" {
		c.PeerTLSInfo = transport.TLSInfo{
			CertFile: opts.CertFile, KeyFile: opts.KeyFile, TrustedCAFile: opts.ClientCAFile, ClientCertAuth: true,
			// The authority also signs certificates of nodes. A member's address may later belong
			// to another host.
			AllowedCNs: []string{commonName}, ServerName: commonName, SkipClientSANVerify: true,
		}
	}
	c.InitialClusterToken = "contiv-etcd"
	c.EnableGRPCGateway = false

	c.QuotaBackendBytes = opts.Quota
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = opts.CompactAfter.String()
	c.BootstrapDefragThresholdMegabytes = 64
	c.UnsafeNoFsync = opts.UnsafeNoSync
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration // otherwise etcd warns of every request

	c.ClientTLSInfo = transport.TLSInfo{
		CertFile: opts.CertFile, KeyFile: opts.KeyFile,
		TrustedCAFile: opts.ClientCAFile, ClientCertAuth: opts.ClientCAFile != "",
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZap(opts.Logger, &s.closing))
	return c
}

// requestWorkers is the number of gRPC worker goroutines. Reusing goroutines avoids copying the
// stack as it grows, which offsets the cost of limits. If all are busy, gRPC starts further
// goroutines.
const requestWorkers = 16

func (s *Server) interceptors() []grpc.ServerOption {
	if s.limits == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(maintenanceIsRoots, s.limits.unary), grpc.ChainStreamInterceptor(s.limits.stream), grpc.NumStreamWorkers(requestWorkers)}
}

func advertised(urls endpoints) []url.URL {
	var out []url.URL
	for _, u := range urls.clients {
		if u.Scheme != "unix" {
			out = append(out, u)
		}
	}
	if out == nil {
		out = []url.URL{urls.peer}
	}
	return out
}

func startError(err error, urls endpoints) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("start etcd: %w", err)
	}
	var op *net.OpError
	taken := urls.peer.Host
	if errors.As(err, &op) && op.Addr != nil {
		taken = op.Addr.String()
	}
	if len(urls.health) > 0 && taken == urls.health[0].Host {
		return fmt.Errorf("start etcd: health %w: %s: stop that process or give another health URL", ErrAddressTaken, taken)
	}
	return fmt.Errorf("start etcd: peer %w: %s: give another peer URL, or port 0 for any", ErrAddressTaken, taken)
}

func (s *Server) awaitReady(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-s.etcd.Server.StopNotify():
		return errors.New("start etcd: the member stopped while it was starting: see the log")
	case err := <-s.etcd.Err():
		return fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("start etcd: %w", ctx.Err())
	case <-timer.C:
		return fmt.Errorf("start etcd: not ready after %v: is the disk of the data directory very slow, or are other members not to be reached?", timeout)
	}
}

func (s *Server) supervise() {
	defer close(s.done)
	select {
	case err, ok := <-s.etcd.Err():
		if ok && err != nil {
			s.done <- fmt.Errorf("etcd failed: %w", err)
		}
	case err := <-s.failed:
		s.done <- fmt.Errorf("etcd failed: %w", err)
	case <-s.etcd.Server.StopNotify():
	}
}

// Endpoint returns the first client URL with its actual port, for callers with one URL.
func (s *Server) Endpoint() string { return s.endpoints[0] }

// Endpoints returns all client URLs.
func (s *Server) Endpoints() []string { return append([]string(nil), s.endpoints...) }

// Done delivers the error that ended the server. It is closed when the server has ended for any
// reason.
func (s *Server) Done() <-chan error { return s.done }

// closeGrace is the time for requests in progress. Watches never finish and end with it.
const closeGrace = 500 * time.Millisecond

// Close ends requests, syncs the data and releases ports and data directory. It may be called
// again.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.closing.Store(true)
		s.stop()
		s.background.Wait()
		s.clients.stop()
		if s.limits != nil {
			s.limits.close()
		}
		if !s.member {
			s.awaitFirst()
		}
		s.etcd.Close()
		s.lock.release()
		s.log.Info("etcd stopped", "endpoints", strings.Join(s.endpoints, ","))
	})
}

// awaitFirst waits until a single etcd is ready. If it was stopped before its first transaction, it
// would never become ready again. One of several members may wait long for the others.
func (s *Server) awaitFirst() {
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-s.etcd.Server.StopNotify():
	case <-time.After(DefaultReadyTimeout):
	}
}
