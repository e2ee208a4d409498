package ctl

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
)

// Records missing in the history come from the agent's memory.
func TestHistoryThatLacksRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	if err := os.Symlink("nowhere", dir); err != nil { // where a directory is needed
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	past := history.Open(history.Options{Dir: dir, Bytes: 1 << 20, Age: time.Hour, Node: "n", Version: "v1", Log: log})
	t.Cleanup(past.Close)
	s := kvscheduler.New(kvscheduler.Options{Logger: log, Recorder: past.Transaction})
	t.Cleanup(func() { s.Close() })
	accept[*vpp_interfaces.Interface](t, s, "vpp-interface", models.VPPInterface.KeyPrefix())
	events := &eventAgent{now: time.Now()}
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(s))
	mux.Handle(history.URL, past.Handler())
	mux.Handle(eventHistory, events)
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)

	txn := s.NewTransaction()
	txn.Put(models.VPPInterfaceKey("tap1"), &vpp_interfaces.Interface{Name: "tap1"})
	if _, err := txn.Commit(t.Context(), kvscheduler.WithDescription("one interface")); err != nil {
		t.Fatal(err)
	}
	events.happen(0, 1)
	past.Event(&controller.EventRecord{Name: "event 0"})
	if err := past.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"events": "event 0", "txns": "one interface", "timeline tap1": "CREATE  name=tap1",
	} {
		out, errOut, err := run(t, append([]string{"--agent", "n=unix://" + socket}, strings.Fields(line)...)...)
		if err != nil || strings.Count(out, want) != 1 {
			t.Errorf("%s: %v %s: %q is not once in\n%s", line, err, errOut, want, out)
		}
	}
}
