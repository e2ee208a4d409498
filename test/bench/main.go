package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
)

func main() {
	verbose := flag.Bool("v", false, "print the lines of the KVScheduler's benchmarks as well")
	raw := flag.String("raw", "bin/bench.txt", "file for all lines of go test, e.g. for benchstat")
	bench := flag.String("bench", ".", "benchmarks to run, as for go test")
	count := flag.Int("count", 1, "times to run each; the best result counts")
	million := flag.Bool("million", false, "measure the KVScheduler at a million values of each kind, too; no other package")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] [packages]   (default: ./...)")
		flag.PrintDefaults()
	}
	flag.Parse()
	packages := flag.Args()
	if *million {
		packages = []string{"./kvscheduler", "-million"}
	} else if len(packages) == 0 {
		packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	args := append([]string{"test", "-run", "^$", "-bench", *bench, "-count", strconv.Itoa(*count), "-benchmem", "-timeout", "60m"}, packages...)
	if err := run(ctx, args, *raw, *verbose, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs go with the arguments and prints what it tells, then the table.
func run(ctx context.Context, args []string, raw string, verbose bool, w io.Writer) (err error) {
	if err := os.MkdirAll(filepath.Dir(raw), 0o755); err != nil {
		return err
	}
	file, err := os.Create(raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := reader{results: results{}}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(file, lines.Text())
		if r.line(lines.Text()) || verbose {
			fmt.Fprintln(w, lines.Text())
		}
	}
	readErr := lines.Err()
	if readErr != nil {
		_, _ = io.Copy(io.Discard, stdout) // or go would never end
	}
	failed := cmd.Wait()
	if len(r.results) > 0 {
		fmt.Fprintln(w)
		if err := writeTable(w, r.results); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "all lines: %s\n", raw)
	if failed != nil {
		failed = fmt.Errorf("benchmarks failed, see above: go test: %w", failed)
	}
	return errors.Join(readErr, failed)
}
