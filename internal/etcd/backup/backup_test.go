package backup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/backup"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

func open(t *testing.T, first, second store.Batcher) *backup.Store {
	t.Helper()
	s, _, err := backup.New(t.Context(), first, second, "/local/", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.TestBroker(t, func(t *testing.T) store.Broker { return open(t, memory.New(), memory.New()) })
}

// content returns all pairs as sorted "key=value" lines.
func content(t *testing.T, s store.Broker) string {
	t.Helper()
	kvs, _, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, kv := range kvs {
		texts = append(texts, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(texts, " ")
}

// write makes one change of each kind.
func write(t *testing.T, s store.Batcher) {
	t.Helper()
	ctx := t.Context()
	var errs []error
	for _, prefix := range []string{"/local/", "/mirror/"} {
		_, swapped := s.PutIfNotExists(ctx, prefix+"swapped", []byte("1"))
		_, swap := s.CompareAndSwap(ctx, prefix+"swapped", []byte("1"), []byte("2"))
		_, compared := s.PutIfNotExists(ctx, prefix+"deleted", []byte("1"))
		_, deleted := s.CompareAndDelete(ctx, prefix+"deleted", []byte("1"))
		errs = append(errs, swapped, swap, compared, deleted,
			s.Put(ctx, prefix+"put", []byte("1")), s.Put(ctx, prefix+"gone", []byte("1")), s.Delete(ctx, prefix+"gone"),
			s.Put(ctx, prefix+"tree/1", []byte("1")), s.DeletePrefix(ctx, prefix+"tree/"),
			s.Batch(ctx, []store.Change{{KV: store.KV{Key: prefix + "batch", Value: []byte("1")}}}))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

const local = "/local/batch=1 /local/put=1 /local/swapped=2"

func TestSecondStoreHasACopyOfThePrefix(t *testing.T) {
	second := memory.New()
	write(t, open(t, memory.New(), second))
	if got := content(t, second); got != local {
		t.Errorf("the second store has %s", got)
	}
}

func TestStoreThatLostThePrefixIsRestored(t *testing.T) {
	second := memory.New()
	write(t, open(t, memory.New(), second))
	s, restored, err := backup.New(t.Context(), memory.New(), second, "/local/", slog.New(slog.DiscardHandler))
	if err != nil || restored != 3 {
		t.Fatalf("restored %d, %v", restored, err)
	}
	if got := content(t, s); got != local {
		t.Errorf("the new store has %s", got)
	}
}

func TestStoreThatHasThePrefixDecides(t *testing.T) {
	first, second := memory.New(), memory.New()
	if err := second.Put(t.Context(), "/local/old", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := first.Put(t.Context(), "/local/new", []byte("1")); err != nil {
		t.Fatal(err)
	}
	open(t, first, second)
	if got := content(t, second); got != "/local/new=1" {
		t.Errorf("the second store has %s", got)
	}
	if got := content(t, first); got != "/local/new=1" {
		t.Errorf("the first store has %s", got)
	}
}

func TestWriteThatTheFirstStoreRefusesIsNotMade(t *testing.T) {
	first, second := memory.New(), memory.New()
	s := open(t, first, second)
	first.SetAvailable(false)
	if err := s.Put(t.Context(), "/local/a", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if got := content(t, second); got != "" {
		t.Errorf("the second store has %s", got)
	}
}

func TestWriteThatTheSecondStoreRefusesIsMadeAndReported(t *testing.T) {
	first, second := memory.New(), memory.New()
	var log bytes.Buffer
	s, _, err := backup.New(context.Background(), first, second, "/local/", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	second.SetAvailable(false)
	if err := s.Put(t.Context(), "/local/a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, s); got != "/local/a=1" {
		t.Errorf("the store has %s", got)
	}
	if !strings.Contains(log.String(), "copy of the local store") {
		t.Errorf("the log says %s", &log)
	}
	second.SetAvailable(true)
	open(t, first, second)
	if got := content(t, second); got != "/local/a=1" {
		t.Errorf("after the next start, the second store has %s", got)
	}
}
