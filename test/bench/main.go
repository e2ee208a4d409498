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
	verbose := flag.Bool("v", false, "also print the lines of the KVScheduler's benchmarks")
	raw := flag.String("raw", "bin/bench.txt", "file for all lines of go test, e.g. for benchstat")
	bench := flag.String("bench", ".", "benchmarks to run, as for go test")
	count := flag.Int("count", 1, "times to run each; the best result counts")
	million := flag.Bool("million", false, "measure the KVScheduler at a million values of each kind, too; no other package")
	base := flag.String("base", "", "a commit: measure its KVScheduler and this one by turns, -count each, and print ratios; no other package")
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
	if *base != "" {
		c := comparison{commit: *base, turns: *count, benchArgs: []string{"-test.run", "^$", "-test.bench", *bench}}
		if *million {
			c.benchArgs = append(c.benchArgs, "-million")
		}
		if err := withFile(*raw, func(file io.Writer) error { return c.run(ctx, file, os.Stdout) }); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	args := append([]string{"test", "-run", "^$", "-bench", *bench, "-count", strconv.Itoa(*count), "-benchmem", "-timeout", "60m"}, packages...)
	if err := withFile(*raw, func(file io.Writer) error { return run(ctx, args, file, *raw, *verbose, os.Stdout) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func withFile(name string, write func(file io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// run runs go with the arguments and prints its output, followed by the table. All lines go to
// file; raw is its name.
func run(ctx context.Context, args []string, file io.Writer, raw string, verbose bool, w io.Writer) error {
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
		_, _ = io.Copy(io.Discard, stdout) // otherwise go would block
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
