package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/await"
)

type secretVolume struct {
	t   *testing.T
	dir string
	n   int
}

func (v *secretVolume) write(files map[string][]byte) {
	v.t.Helper()
	v.n++
	version := fmt.Sprintf("version-%d", v.n)
	if err := os.Mkdir(filepath.Join(v.dir, version), 0o700); err != nil {
		v.t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(v.dir, version, name), data, 0o600); err != nil {
			v.t.Fatal(err)
		}
	}
	link := filepath.Join(v.dir, "next")
	if err := os.Symlink(version, link); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(v.dir, "data")); err != nil {
		v.t.Fatal(err)
	}
}

func (v *secretVolume) file(name string) string { return filepath.Join(v.dir, "data", name) }

// Certificates of both sides expire after seconds and are renewed. Writes over old and new
// connections never fail. A client with an expired certificate is rejected.
func TestCertificatesAreRenewedUnderTraffic(t *testing.T) {
	const life, renewals = 16 * time.Second, 6
	authority, err := pki.NewAuthority("contiv-etcd-ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, client := &secretVolume{t: t, dir: t.TempDir()}, &secretVolume{t: t, dir: t.TempDir()}
	renew := func() {
		t.Helper()
		now := time.Now()
		pair, err := authority.IssueServer([]string{"contiv-etcd"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now, life)
		if err != nil {
			t.Fatal(err)
		}
		server.write(map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": authority.Pair().Cert})
		if pair, err = authority.IssueClient("node:node1", now, life); err != nil {
			t.Fatal(err)
		}
		client.write(map[string][]byte{"client.pem": append(pair.Cert, pair.Key...), "ca.pem": authority.Pair().Cert})
	}
	renew()
	p := startWith(t, filepath.Join(t.TempDir(), "data"), "--listen-client", "https://127.0.0.1:0", "--unsafe-no-fsync",
		"--cert-file", server.file("tls.crt"), "--key-file", server.file("tls.key"), "--client-ca-file", server.file("ca.crt"))
	first, err := os.ReadFile(client.file("client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	connect := func(cert string) *etcd.Store {
		t.Helper()
		s, err := etcd.New(etcd.Config{
			Endpoints: []string{p.endpoint}, ServerName: "contiv-etcd", CAFile: client.file("ca.pem"), CertFile: cert, KeyFile: cert,
			OperationTimeout: config.Duration(20 * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	ctx, stop := context.WithCancel(t.Context())
	var writes, connections atomic.Int64
	failed := make(chan error, 2)
	keep := connect(client.file("client.pem"))
	defer keep.Close()
	write := func(s *etcd.Store) error { return s.Put(t.Context(), "/k", []byte(fmt.Sprint(writes.Add(1)))) }
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = write(keep)
		}
		failed <- err
	}()
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			s := connect(client.file("client.pem"))
			err = write(s)
			s.Close()
			connections.Add(1)
		}
		failed <- err
	}()
	for range renewals {
		before := connections.Load()
		renew()
		time.Sleep(life / 4) // certificates expire by time
		await.That(t, "new connections with the new certificates", func() error {
			if n := connections.Load(); n < before+2 {
				return fmt.Errorf("%d since", n-before)
			}
			return nil
		})
	}
	stop()
	for range 2 {
		if err := <-failed; err != nil {
			t.Errorf("a write failed while certificates were renewed: %v", err)
		}
	}
	t.Logf("%d writes, %d connections", writes.Load(), connections.Load())

	old := filepath.Join(t.TempDir(), "old.pem")
	if err := os.WriteFile(old, first, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := etcd.New(etcd.Config{
		Endpoints: []string{p.endpoint}, ServerName: "contiv-etcd", CAFile: client.file("ca.pem"), CertFile: old, KeyFile: old, OperationTimeout: config.Duration(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "/k", nil); err == nil {
		t.Error("an expired certificate opens etcd")
	}
}
