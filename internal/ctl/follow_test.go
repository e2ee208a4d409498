package ctl

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/spf13/cobra"
)

// With -w, a command prints its output when it changes; a usage error ends it at once.
func TestWatchedCommands(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var asked atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
		report := ipnet.PodsReport{Node: "n"}
		if asked.Add(1) > 3 {
			report.Pods = []ipnet.PodReport{{Namespace: "shop", Name: "web", IPs: []string{"10.1.1.2/32"}}}
		}
		rest.JSON(w, report)
	})
	serve(t, socket, mux)
	out, outW := io.Pipe()
	c := &cli{now: time.Now, name: "contivctl", out: outW, errOut: io.Discard, format: asTable, poll: time.Millisecond,
		targets: target.Options{Agents: []string{"n=unix://" + socket}, Timeout: 10 * time.Second}}
	watch := func(ctx context.Context, cmd *cobra.Command, args ...string) error {
		c.watchable(cmd)
		cmd.SetArgs(append(args, "-w"))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		return cmd.ExecuteContext(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- watch(ctx, c.podsCommand()) }()
	var shown []string
	for lines := bufio.NewScanner(out); len(shown) < 2 && lines.Scan(); {
		if line := lines.Text(); line == "(none)" || strings.HasPrefix(line, "n ") {
			shown = append(shown, strings.Join(strings.Fields(line)[:min(3, len(strings.Fields(line)))], " "))
		}
	}
	if want := []string{"(none)", "n shop web"}; !slices.Equal(shown, want) {
		t.Errorf("shown: %q", shown)
	}
	cancel()
	go io.Copy(io.Discard, out)
	if err := <-done; err != nil {
		t.Error(err)
	}
	outW.Close()
	c.out = io.Discard
	if err := watch(t.Context(), c.podsCommand(), "no-such-node"); err == nil || !strings.Contains(err.Error(), "no-such-node") {
		t.Errorf("a node that is none: %v", err)
	}
}
