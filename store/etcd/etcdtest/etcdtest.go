// Package etcdtest runs a real etcd inside a test, on a loopback port, that can
// be stopped, started, wiped and compacted.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/store/etcd"
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
	s := &Server{t: t, dir: filepath.Join(t.TempDir(), "etcd"), client: freePort(t), peer: freePort(t)}
	s.Start()
	t.Cleanup(func() {
		if s.etcd != nil {
			s.Stop()
		}
	})
	return s
}

// Endpoint is the address of the server: "http://127.0.0.1:<port>".
func (s *Server) Endpoint() string { return "http://" + s.client }

// Start starts a stopped server on its old port, with its old data.
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

// Stop ends the server at once; connections break.
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

// Compact forgets all old revisions.
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

// Store returns a store that is connected to the server, with short timeouts;
// closed at the end of the test.
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

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func urls(address string) []url.URL {
	u, err := url.Parse(fmt.Sprintf("http://%s", address))
	if err != nil {
		panic(err) // an address of the net package
	}
	return []url.URL{*u}
}
