// Package etcdtest runs a real etcd in a test, at a loopback address. It can be stopped, started,
// wiped and compacted.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/loopback"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Server is a single-member etcd.
type Server struct {
	t      testing.TB
	dir    string
	client string
	peer   string
	etcd   *embed.Etcd
}

// Start runs an etcd until the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: filepath.Join(t.TempDir(), "etcd"), client: loopback.Address(), peer: loopback.Address()}
	s.Start()
	t.Cleanup(func() {
		if s.etcd != nil {
			s.Stop()
		}
	})
	return s
}

// Endpoint returns "http://127.x.y.z:<port>".
func (s *Server) Endpoint() string { return "http://" + s.client }

// Start starts a stopped server with its address and data.
func (s *Server) Start() {
	s.t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = s.dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(s.client), urls(s.client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(s.peer), urls(s.peer)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		s.t.Fatalf("start etcd: %v", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		server.Close()
		s.t.Fatal("etcd is not ready after 30 s")
	}
	s.etcd = server
}

// Stop stops the server at once; connections break.
func (s *Server) Stop() {
	s.t.Helper()
	s.etcd.Close()
	<-s.etcd.Server.StopNotify()
	s.etcd = nil
}

// Wipe removes the data of a stopped server.
func (s *Server) Wipe() {
	s.t.Helper()
	if s.etcd != nil {
		s.t.Fatal("stop etcd before wiping it")
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

// Compact removes all old revisions.
func (s *Server) Compact(store *etcd.Store) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, revision, err := store.List(ctx, "/nothing/")
	if err == nil {
		_, err = store.Client().Compact(ctx, revision)
	}
	if err != nil {
		s.t.Fatalf("compact etcd: %v", err)
	}
}

// Store returns a store connected to the server, with short timeouts, until the end of the test.
func (s *Server) Store() *etcd.Store {
	s.t.Helper()
	store, err := etcd.New(etcd.Config{
		Endpoints:        []string{s.Endpoint()},
		OperationTimeout: config.Duration(2 * time.Second),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { store.Close() })
	return store
}

// Distant returns an address that delays traffic to and from the server.
func (s *Server) Distant(delay time.Duration) (endpoint string) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", s.client)
				if err != nil {
					return
				}
				conns.Go(func() { pass(client, server, delay) })
				pass(server, client, delay)
			})
		}
	})
	s.t.Cleanup(func() {
		l.Close()
		conns.Wait() // the clients have closed their connections
	})
	return "http://" + l.Addr().String()
}

// pass forwards data in one direction. When one side ends, it closes the other.
func pass(from, to net.Conn, delay time.Duration) {
	defer to.Close()
	type chunk struct {
		data []byte
		due  time.Time
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			chunks <- chunk{data[:n], time.Now().Add(delay)}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		_, _ = to.Write(c.data) // the other direction ends it
	}
}

func urls(address string) []url.URL {
	u, err := url.Parse(fmt.Sprintf("http://%s", address))
	if err != nil {
		panic(err) // valid by construction
	}
	return []url.URL{*u}
}
