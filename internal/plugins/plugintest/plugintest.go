// Package plugintest helps to test event handlers without an event loop: a recording transaction, a
// collecting event loop, a comparison of the northbound configuration with a golden file, and
// reading of metrics.
//
//	handler.Resync(…, txn) ──> Txn{key: value} ──Golden──> testdata/<name>.golden
//
// Run the tests with -update to rewrite the golden files.
package plugintest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write golden files")

// Logger discards everything.
func Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Txn records puts and deletes; a nil value is a delete.
type Txn map[string]proto.Message

var _ controller.UpdateOperations = Txn{}

func (t Txn) Put(key string, value proto.Message) {
	if value == nil {
		panic("put of nil for " + key)
	}
	t[key] = value
}
func (t Txn) Get(key string) proto.Message { return t[key] }
func (t Txn) Delete(key string)            { t[key] = nil }

// Apply returns the configuration after the transaction.
func (t Txn) Apply(to Txn) Txn {
	result := maps.Clone(to)
	for key, value := range t {
		if value == nil {
			delete(result, key)
		} else {
			result[key] = value
		}
	}
	return result
}

// Diff describes the differences of two configurations; "" if equal.
func Diff(want, got Txn) string { return cmp.Diff(Render(want), Render(got)) }

// Render formats the transaction: one key per line, sorted, with its value as JSON; "-" before
// deleted keys.
func Render(t Txn) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if t[key] == nil {
			fmt.Fprintf(&b, "- %s\n", key)
			continue
		}
		data, err := models.Marshal(t[key])
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%s\n    %s\n", key, canonical(data))
	}
	return b.String()
}

// canonical sorts the fields, because protojson has no stable form.
func canonical(data []byte) string {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		panic(err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Golden compares the transaction with testdata/<name>.golden, and checks that each value belongs
// to its key.
func Golden(t testing.TB, name string, txn Txn) {
	t.Helper()
	for key, value := range txn {
		if value != nil && models.Key(value) != key {
			t.Errorf("value under %s belongs to %s", key, models.Key(value))
		}
	}
	path := filepath.Join("testdata", name+".golden")
	got := Render(txn)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Loop is an event loop that only collects pushed events.
type Loop struct {
	mu     sync.Mutex
	events []controller.Event
}

// PushEvent remembers the event.
func (l *Loop) PushEvent(_ context.Context, event controller.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
	return nil
}

// Take returns the events pushed since the last call.
func (l *Loop) Take() []controller.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	return events
}

func differing(a, b Txn) []string {
	var keys []string
	for key := range a {
		if b[key] == nil || !proto.Equal(a[key], b[key]) {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if a[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Metrics reads a collector by metric name and label values: the value of a counter or gauge, or a
// histogram's count.
func Metrics(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}
