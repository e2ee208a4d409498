package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/prometheus/client_golang/prometheus"
	etcdcredentials "go.etcd.io/etcd/client/v3/credentials"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

var (
	pendingConnections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "contiv_etcd_pending_connections", Help: "Connections of clients that have not shown a certificate yet.",
	})
	establishedConnections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "contiv_etcd_connections", Help: "Client connections with a completed handshake.",
	})
	refusedConnections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "contiv_etcd_refused_connections_total",
		Help: "Connections that were closed because too many of their address (address) or of all addresses (total) had shown no certificate, " +
			"because the handshake failed or took too long (handshake), or because the client has too many (client).",
	}, []string{"reason"})
)

// clientListeners serve the client URLs. Package embed is not used for them because its listeners
// have no limits and timeouts.
type clientListeners struct {
	urls      []url.URL
	listeners []net.Listener
	servers   []*grpc.Server
	serving   sync.WaitGroup
}

func listenClients(urls []url.URL) (*clientListeners, error) {
	c := &clientListeners{urls: urls}
	for _, u := range urls {
		l, err := listenClient(u)
		if err != nil {
			c.stop()
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, fmt.Errorf("start etcd: client %w: %s: stop that process or give another client URL", ErrAddressTaken, u.Host)
			}
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		c.listeners = append(c.listeners, l)
	}
	return c, nil
}

func listenClient(u url.URL) (net.Listener, error) {
	if u.Scheme == "unix" {
		return listener.Unix(u.Path)
	}
	return net.Listen("tcp", u.Host)
}

// serve handles clients. It sends errors that end a listener to failed, which has a buffer of one.
func (c *clientListeners) serve(etcd *embed.Etcd, options []grpc.ServerOption, failed chan<- error) error {
	config := etcd.Config()
	options = append([]grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: config.GRPCKeepAliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: config.GRPCKeepAliveInterval, Timeout: config.GRPCKeepAliveTimeout}),
	}, options...)
	gate := newGate()
	for i, u := range c.urls {
		options, l := options, &gateListener{Listener: c.listeners[i], gate: gate}
		if u.Scheme == "https" {
			tls, err := config.ClientTLSInfo.ServerConfig()
			if err != nil {
				return fmt.Errorf("start etcd: certificate of the server: %w", err)
			}
			l.certificates = config.ClientTLSInfo.ClientCertAuth
			options = append(options, grpc.Creds(gateCredentials{etcdcredentials.NewTransportCredential(tls)}))
		}
		server := v3rpc.Server(etcd.Server, nil, nil, options...)
		c.servers = append(c.servers, server)
		c.serving.Go(func() {
			if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				select {
				case failed <- fmt.Errorf("serve clients at %s: %w", u.String(), err):
				default:
				}
			}
		})
	}
	return nil
}

// stop closes the listeners and, after a grace period for requests in progress, the connections.
// Watches never finish and end with the grace period.
func (c *clientListeners) stop() {
	var stopping sync.WaitGroup
	for _, s := range c.servers {
		stopping.Go(func() {
			timer := time.AfterFunc(closeGrace, s.Stop)
			defer timer.Stop()
			s.GracefulStop()
		})
	}
	stopping.Wait()
	c.serving.Wait()
	for _, l := range c.listeners {
		l.Close()
	}
}
