package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// comparison measures an earlier commit of the KVScheduler and this tree in turns, with the
// benchmarks of this tree:
//
//	commit ──> worktree ── go test -c, with our bench_test.go ──> binary ──┐
//	this tree ──────────── go test -c ──────────────────────────> binary ──┴──> then, now, then, now … ──> ratios
//
// The speed of a machine changes over time, ratios of neighbouring turns less.
type comparison struct {
	commit    string
	turns     int
	benchArgs []string // of the binaries
}

// run writes the table to w and all output lines of the benchmarks to raw.
func (c comparison) run(ctx context.Context, raw, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := command(ctx, here, os.Stderr, "git", "worktree", "add", "--quiet", "--detach", tree, c.commit); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), here, os.Stderr, "git", "worktree", "remove", "--force", tree))
	}()
	const benchmarks = "kvscheduler/bench_test.go"
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(tree, benchmarks): filepath.Join(here, benchmarks),
	}})
	if err != nil {
		return err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return err
	}
	then, now := filepath.Join(dir, "then.test"), filepath.Join(dir, "now.test")
	if err := command(ctx, tree, os.Stderr, "go", "test", "-c", "-overlay", overlayFile, "-o", then, "./kvscheduler"); err != nil {
		return fmt.Errorf("the benchmarks do not build with %s: %w", c.commit, err)
	}
	if err := command(ctx, here, os.Stderr, "go", "test", "-c", "-o", now, "./kvscheduler"); err != nil {
		return err
	}
	var before, after []results
	for range c.turns {
		for _, side := range []struct {
			binary string
			all    *[]results
		}{{then, &before}, {now, &after}} {
			var out bytes.Buffer
			fmt.Fprintf(raw, "# %s\n", filepath.Base(side.binary))
			if err := command(ctx, here, io.MultiWriter(&out, raw), side.binary, c.benchArgs...); err != nil {
				return err
			}
			r := reader{results: results{}, pkg: module + "kvscheduler"}
			for lines := bufio.NewScanner(&out); lines.Scan(); {
				r.line(lines.Text())
			}
			*side.all = append(*side.all, r.results)
		}
	}
	return writeComparison(w, before, after)
}

func command(ctx context.Context, dir string, stdout io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err)
	}
	return nil
}

// writeComparison writes the medians of all turns, and the median, least and greatest ratio of a
// turn.
func writeComparison(w io.Writer, then, now []results) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "benchmark\tunit\tthen\tnow\tnow / then\tof single turns")
	names := slices.SortedFunc(maps.Keys(now[0]), func(a, b string) int {
		one, _, _ := strings.Cut(a, "/")
		other, _, _ := strings.Cut(b, "/")
		return cmp.Or(cmp.Compare(one, other), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		for _, unit := range slices.Sorted(maps.Keys(now[0][name])) {
			if !slices.ContainsFunc(bars, func(b bar) bool { return b.unit == unit && unit != "×reference" }) {
				continue
			}
			var before, after, ratios []float64
			for i := range then {
				a, ok := then[i][name][unit]
				b, also := now[i][name][unit]
				if ok && also {
					before, after, ratios = append(before, a), append(after, b), append(ratios, b/a)
				}
			}
			if len(ratios) == 0 {
				continue
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.2f\t%.2f to %.2f\n", name, unit,
				number(median(before)), number(median(after)), median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
	}
	return out.Flush()
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
