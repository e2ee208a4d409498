package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/loopback"
)

type members struct {
	t         *testing.T
	authority *pki.Authority
	options   []etcdserver.Options
	servers   []*etcdserver.Server
}

func newMembers(t *testing.T, n int) *members {
	t.Helper()
	m := &members{t: t}
	var err error
	if m.authority, err = pki.NewAuthority("contiv-etcd-ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	peers, clients, addrs := map[string]string{}, make([]string, n), []netip.Addr(nil)
	url := func() string {
		address := netip.MustParseAddrPort(loopback.Address())
		addrs = append(addrs, address.Addr())
		return "https://" + address.String()
	}
	for i := range n {
		peers[fmt.Sprintf("m%d", i)], clients[i] = url(), url()
	}
	server, err := m.authority.IssueServer([]string{"contiv-etcd"}, addrs, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m.options = append(m.options, etcdserver.Options{
			Name: fmt.Sprintf("m%d", i), Members: peers, DataDir: filepath.Join(t.TempDir(), "data"), ClientURLs: clients[i : i+1],
			CertFile: m.write(server.Cert), KeyFile: m.write(server.Key), ClientCAFile: m.write(m.authority.Pair().Cert),
			Users: true, UnsafeNoSync: true, Logger: slog.New(slog.DiscardHandler),
		})
	}
	m.servers = make([]*etcdserver.Server, n)
	t.Cleanup(m.stop)
	return m
}

func (m *members) write(data []byte) (path string) {
	m.t.Helper()
	path = filepath.Join(m.t.TempDir(), "pem")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// The members start together because the first waits for the others.
func (m *members) start() {
	m.t.Helper()
	errs := make([]error, len(m.options))
	var group sync.WaitGroup
	for i, o := range m.options {
		group.Go(func() { m.servers[i], errs[i] = etcdserver.Start(m.t.Context(), o) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			m.t.Fatalf("member %d: %v", i, err)
		}
	}
}

func (m *members) stop() {
	for i, s := range m.servers {
		if s != nil {
			s.Close()
			m.servers[i] = nil
		}
	}
}

func (m *members) root() *etcd.Store {
	m.t.Helper()
	pair, err := m.authority.IssueClient(etcdserver.Root, time.Now(), time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	cert := m.write(append(pair.Cert, pair.Key...))
	var endpoints []string
	for _, o := range m.options {
		endpoints = append(endpoints, o.ClientURLs...)
	}
	s, err := etcd.New(etcd.Config{
		Endpoints: endpoints, ServerName: "contiv-etcd", CAFile: m.options[0].ClientCAFile, CertFile: cert, KeyFile: cert, OperationTimeout: config.Duration(20 * time.Second),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.Close() })
	return s
}

func TestThreeMembers(t *testing.T) {
	m := newMembers(t, 3)
	m.start()
	root := m.root()
	put := func(value string) {
		t.Helper()
		await.That(t, "write "+value, func() error { return root.Put(t.Context(), "/k", []byte(value)) })
	}
	put("first")
	file := filepath.Join(t.TempDir(), "backup.db")
	if err := etcdserver.WriteSnapshotFile(file, m.servers[2].Snapshot); err != nil {
		t.Fatal(err)
	}
	m.servers[0].Close()
	put("without one")
	var err error
	if m.servers[0], err = etcdserver.Start(t.Context(), m.options[0]); err != nil {
		t.Fatal(err)
	}
	m.servers[1].Close()
	put("without another")
	m.stop()

	for _, o := range m.options {
		if err := etcdserver.Restore(file, o); err != nil {
			t.Fatal(err)
		}
	}
	m.start()
	await.That(t, "the backup is restored", func() error {
		kv, _, err := root.Get(t.Context(), "/k")
		if err == nil && string(kv.Value) != "first" {
			err = fmt.Errorf("/k is %q", kv.Value)
		}
		return err
	})
	put("after the restoration")
}

// The snapshot of any member contains all acknowledged writes.
func TestSnapshotsOfAllMembersHaveAllData(t *testing.T) {
	m := newMembers(t, 3)
	m.start()
	root := m.root()
	await.That(t, "write", func() error { return root.Put(t.Context(), "/k", []byte("first")) })
	for i := range 30 {
		value := fmt.Appendf(nil, "value number %d", i)
		if err := root.Put(t.Context(), "/k", value); err != nil {
			t.Fatal(err)
		}
		for j, s := range m.servers {
			var snapshot bytes.Buffer
			if err := s.Snapshot(&snapshot); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(snapshot.Bytes(), value) {
				t.Fatalf("the snapshot of member %d lacks %q", j, value)
			}
		}
	}
}

func TestSnapshotOfAMemberLeftAlone(t *testing.T) {
	m := newMembers(t, 3)
	m.start()
	await.That(t, "write", func() error { return m.root().Put(t.Context(), "/k", []byte("the value")) })
	if err := m.servers[2].Snapshot(io.Discard); err != nil {
		t.Fatal(err)
	}
	m.servers[0].Close()
	m.servers[1].Close()
	var snapshot bytes.Buffer
	if err := m.servers[2].Snapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(snapshot.Bytes(), []byte("the value")) {
		t.Error("the snapshot lacks the written keys")
	}
}

// Certificates of nodes, though signed by the same authority, do not admit peers, and neither does
// a missing certificate. This also holds for a single member, because peers can write.
func TestNodesAreNoMembers(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone: %v", alone), func(t *testing.T) {
			m := newMembers(t, 1)
			address := m.options[0].Members["m0"][len("https://"):]
			if alone {
				m.options[0].Name, m.options[0].Members, m.options[0].PeerURL = "", nil, "http://"+address
			}
			m.start()
			for user, accepted := range map[string]bool{"contiv-etcd": true, "node:node1": false, "root": false, "": false} {
				var certs []tls.Certificate
				if user != "" {
					pair, err := m.authority.IssueClient(user, time.Now(), time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
					if err != nil {
						t.Fatal(err)
					}
					certs = append(certs, cert)
				}
				conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: certs})
				if err == nil {
					err = askForMembers(conn)
				}
				if (err == nil) != accepted {
					t.Errorf("%q asks as a member: %v", user, err)
				}
			}
			conn, err := net.Dial("tcp", address)
			if err == nil {
				err = askForMembers(conn)
			}
			if err == nil {
				t.Error("a member answers without TLS")
			}
		})
	}
}

func askForMembers(conn net.Conn) error {
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /members HTTP/1.1\r\nHost: etcd\r\n\r\n"); err != nil {
		return err
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != "HTTP/1.1 200" {
		return fmt.Errorf("%s", answer)
	}
	return nil
}

func TestMembersThatCannotBe(t *testing.T) {
	for reason, o := range map[string]etcdserver.Options{
		"is not among":    {Name: "a", Members: map[string]string{"b": "https://192.0.2.1:1"}},
		"certificate":     {Name: "a", Members: map[string]string{"a": "https://192.0.2.1:1"}},
		"https://IP:PORT": {Name: "a", Members: map[string]string{"a": "http://192.0.2.1:1"}, CertFile: "x", KeyFile: "x", ClientCAFile: "x"},
	} {
		o.DataDir = t.TempDir()
		if s, err := etcdserver.Start(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("%s: started", reason)
		} else if !strings.Contains(err.Error(), reason) {
			t.Errorf("%v, want %q", err, reason)
		}
	}
}
