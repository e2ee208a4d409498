package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/test/await"
)

func TestClientsKnowThatEtcdIsFull(t *testing.T) {
	p := startWith(t, filepath.Join(t.TempDir(), "data"), "--listen-client", "http://127.0.0.1:0", "--quota-mib", "8", "--unsafe-no-fsync")
	connect := func() *etcd.Store {
		s, err := etcd.New(etcd.Config{Endpoints: []string{p.endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	writer, reader := connect(), connect()
	if err := writer.Full(t.Context()); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 128<<10))
	for i := 0; writer.Put(t.Context(), fmt.Sprint("/k/", i), value) == nil; i++ {
	}
	for name, s := range map[string]*etcd.Store{"writer, which asked before": writer, "reader": reader} {
		if err := s.Full(t.Context()); err == nil || !strings.Contains(err.Error(), "--quota-mib") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := writer.DeletePrefix(t.Context(), "/k/"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "space is available again", func() error { return writer.Full(t.Context()) })
	if err := reader.Put(t.Context(), "/k", value); err != nil {
		t.Error(err)
	}
}
