package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/storetest"
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

func TestStoreWithoutSync(t *testing.T) {
	storetest.TestBroker(t, func(t *testing.T) store.Broker {
		s := open(t, filepath.Join(t.TempDir(), "bolt.db"))
		s.SkipSync()
		return s
	})
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

// So that it can be opened on a full disk.
func TestOpeningDoesNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt.db")
	open(t, path).Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open(t, path).Close()
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the file was changed")
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

func TestDamagedFileIsReplaced(t *testing.T) {
	ctx := context.Background()
	for name, damage := range map[string]func(data []byte) []byte{
		"no database":  func([]byte) []byte { return []byte(strings.Repeat("garbage ", 4096)) },
		"damaged meta": func(data []byte) []byte { return append(make([]byte, 8192), data[8192:]...) },
		"damaged data": func(data []byte) []byte {
			for i := 3 * 4096; i < len(data); i++ {
				data[i] = 0xa5
			}
			return data
		},
		"cut off": func(data []byte) []byte { return data[:8192] },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bolt.db")
			s := open(t, path)
			for i := range 200 {
				if err := s.Put(ctx, fmt.Sprint("/key/", i), make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, damage(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bolt.Open(path, 0); !errors.Is(err, bolt.ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("Open: %v", err)
			}
			s, moved, err := bolt.OpenOrReplace(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := os.Stat(moved); err != nil {
				t.Errorf("the damaged file is gone: %v", err)
			}
			if err := s.Put(ctx, "/a", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenOrReplaceKeepsAGoodFile(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "bolt.db"), context.Background()
	s := open(t, path)
	if err := s.Put(ctx, "/a", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.OpenOrReplace(path, 10*time.Millisecond); !errors.Is(err, bolt.ErrLocked) {
		t.Errorf("locked file: %v", err)
	}
	s.Close()
	s, moved, err := bolt.OpenOrReplace(path, 0)
	if err != nil || moved != "" {
		t.Fatalf("moved %q, %v", moved, err)
	}
	defer s.Close()
	if _, ok, _ := s.Get(ctx, "/a"); !ok {
		t.Error("content is lost")
	}
}

// A batch with an invalid change changes nothing.
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
