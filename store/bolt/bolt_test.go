package bolt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/store/bolt"
	"github.com/contiv/contiv/store/storetest"
)

func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.TestBroker(t, func(t *testing.T) store.Broker { return open(t, filepath.Join(t.TempDir(), "bolt.db")) })
}

func TestContentSurvivesReopening(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "dir", "bolt.db"), context.Background()
	s := open(t, path)
	if err := s.Put(ctx, "/a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	kv, ok, err := open(t, path).Get(ctx, "/a")
	if err != nil || !ok || string(kv.Value) != "1" {
		t.Errorf("got %v %v %v", kv, ok, err)
	}
}

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt.db")
	open(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v", info.Mode(), err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt.db")
	open(t, path)
	_, err := bolt.Open(path, 10*time.Millisecond)
	if !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestDamagedFileIsRecognised(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path, 0); !errors.Is(err, bolt.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// A batch with a change that cannot be made changes nothing.
func TestBatchIsAtomic(t *testing.T) {
	s, ctx := open(t, filepath.Join(t.TempDir(), "bolt.db")), context.Background()
	err := s.Batch(ctx, []store.Change{
		{KV: store.KV{Key: "/a", Value: []byte("1")}},
		{KV: store.KV{Key: "", Value: []byte("1")}}, // bbolt has no empty keys
	})
	if err == nil {
		t.Fatal("the batch succeeded")
	}
	if _, ok, _ := s.Get(ctx, "/a"); ok {
		t.Error("the first change was made")
	}
}
