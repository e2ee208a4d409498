package etcdserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server is a running etcd. Close it.
type Server struct {
	etcd      *embed.Etcd
	lock      *dirLock
	log       *slog.Logger
	endpoints []string
	urls      endpoints
	grpc      grpcServers
	member    bool // of several
	closing   atomic.Bool
	// stop ends the maintenance, background are its goroutines.
	stop       context.CancelFunc
	background sync.WaitGroup
	done       chan error
	closeOnce  sync.Once
}

// Start serves the data directory and returns when clients can read and write.
// When ctx ends before that, the member is stopped again.
func Start(ctx context.Context, opts Options) (*Server, error) {
	return startLocked(ctx, opts, func() error { return nil })
}

// startLocked is Start, and calls locked between locking the data directory and starting etcd.
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
	s := &Server{lock: lock, log: opts.Logger, urls: urls, done: make(chan error, 1), member: len(opts.Members) > 1, grpc: grpcServers{secure: opts.CertFile != ""}}
	maintenance, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.etcd, err = embed.StartEtcd(s.config(opts, urls, commonName))
	if err != nil {
		stop()
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
	if err := restrictSockets(urls.clients); err != nil {
		s.Close()
		return nil, err
	}
	if opts.Users {
		if err := s.askForUsers(ctx); err != nil {
			s.Close()
			return nil, fmt.Errorf("start etcd: %w", err)
		}
	}
	s.background.Go(func() { s.maintain(maintenance, opts.Quota, maintainPeriod) })
	if opts.SnapshotEvery > 0 {
		s.background.Go(func() { s.schedule(maintenance, opts) })
	}
	go s.supervise()
	return s, nil
}

// commonName is that of the certificate, which members have in common; "" without certificates.
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

// config translates our options into etcd's.
func (s *Server) config(opts Options, urls endpoints, commonName string) *embed.Config {
	c := embed.NewConfig()
	c.Name = opts.Name
	c.Dir = opts.DataDir
	c.ListenClientUrls = urls.clients
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
			// The authority signs for nodes as well. Addresses of members may be others' tomorrow.
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
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration // else it warns of every request

	c.ClientTLSInfo = transport.TLSInfo{
		CertFile: opts.CertFile, KeyFile: opts.KeyFile,
		TrustedCAFile: opts.ClientCAFile, ClientCertAuth: opts.ClientCAFile != "",
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZap(opts.Logger, &s.closing))
	c.ServiceRegister = s.grpc.add
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.refuseCalls), grpc.ChainStreamInterceptor(s.refuseStreams)}
	if opts.Users {
		c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions, grpc.ChainUnaryInterceptor(maintenanceIsRoots))
	}
	return c
}

// With TLS, gRPC is served by package http, where new calls come in on old connections while
// grpc.Server.Stop waits for all calls to end: one watch that begins after Stop has ended the others
// would keep it waiting forever. So a server that closes refuses calls.

var errClosing = status.Error(codes.Unavailable, "etcd is stopping")

func (s *Server) refuseCalls(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if s.closing.Load() {
		return nil, errClosing
	}
	return handle(ctx, request)
}

func (s *Server) refuseStreams(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if s.closing.Load() {
		return errClosing
	}
	return handle(service, stream)
}

// advertised are the client URLs that etcd tells its clients; unix sockets are
// not among what it can tell.
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

// startError turns etcd's errors into ones that say what to do.
func startError(err error, urls endpoints) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("start etcd: %w", err)
	}
	var op *net.OpError
	taken := urls.clients[0].String()
	if errors.As(err, &op) && op.Addr != nil {
		taken = op.Addr.String()
	}
	if len(urls.health) > 0 && taken == urls.health[0].Host {
		return fmt.Errorf("start etcd: health %w: %s: stop that process or give another health URL", ErrAddressTaken, taken)
	}
	if taken == urls.peer.Host {
		return fmt.Errorf("start etcd: peer %w: %s: give another peer URL, or port 0 for any", ErrAddressTaken, taken)
	}
	return fmt.Errorf("start etcd: client %w: %s: stop that process or give another client URL", ErrAddressTaken, taken)
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

// restrictSockets makes unix sockets accessible for the owner only.
func restrictSockets(urls []url.URL) error {
	for _, u := range urls {
		if u.Scheme != "unix" {
			continue
		}
		if err := os.Chmod(u.Path, 0o600); err != nil {
			return fmt.Errorf("restrict access to the client socket: %w", err)
		}
	}
	return nil
}

// supervise waits for the end of the member, wanted or not.
func (s *Server) supervise() {
	defer close(s.done)
	select {
	case err, ok := <-s.etcd.Err():
		if ok && err != nil {
			s.done <- fmt.Errorf("etcd failed: %w", err)
		}
	case <-s.etcd.Server.StopNotify():
	}
}

// Endpoint is the first client URL; port 0 is replaced by the port in use. It is for users with
// one of them: store/etcd/etcdtest, and tests.
func (s *Server) Endpoint() string { return s.endpoints[0] }

// Endpoints are all client URLs.
func (s *Server) Endpoints() []string { return append([]string(nil), s.endpoints...) }

// Done delivers the error that ended the server by itself, and is closed when
// the server has ended for any reason.
func (s *Server) Done() <-chan error { return s.done }

// closeGrace is what requests in progress get to finish; watches, which never
// finish, are cut off then.
const closeGrace = 500 * time.Millisecond

// Close ends requests, syncs the data and frees ports and data directory.
// Closing again does nothing.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.closing.Store(true)
		s.stop()
		s.background.Wait()
		s.grpc.stop(closeGrace)
		if s.member {
			s.stopWaiting()
		}
		s.etcd.Close()
		s.lock.release()
		s.log.Info("etcd stopped", "endpoints", strings.Join(s.endpoints, ","))
	})
}

// stopWaiting stops a member that waits for others. embed.Etcd.Close would wait for listeners that
// begin to serve when the member is ready, or give up when it is stopped, and stop it only after
// that. An etcd alone is ready soon; if it was stopped before, it would never be ready again.
func (s *Server) stopWaiting() {
	select {
	case <-s.etcd.Server.ReadyNotify():
	default:
		s.etcd.Server.Stop()
	}
}

// grpcServers are the gRPC servers of the client URLs. We stop them ourselves:
// etcd would wait seven seconds for watches.
type grpcServers struct {
	// secure: with TLS, gRPC is served by package http, which cannot drain connections.
	secure  bool
	mu      sync.Mutex
	servers []*grpc.Server
}

func (g *grpcServers) add(s *grpc.Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.servers = append(g.servers, s)
}

func (g *grpcServers) stop(grace time.Duration) {
	g.mu.Lock()
	servers := g.servers
	g.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if g.secure {
				s.Stop()
				return
			}
			timer := time.AfterFunc(grace, s.Stop)
			defer timer.Stop()
			s.GracefulStop()
		})
	}
	wg.Wait()
}
