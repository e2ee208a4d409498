package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/contiv/contiv/"

// results holds the best metrics of benchmarks with bars, by benchmark name ("Create/N=100") and
// unit.
type results map[string]map[string]float64

// reader parses the output of go test line by line.
type reader struct {
	results results
	pkg     string
}

var processors = regexp.MustCompile(`-\d+$`)

// line reports whether the line should be printed: it is informative and not in the table.
func (r *reader) line(text string) bool {
	if pkg, ok := strings.CutPrefix(text, "pkg: "); ok {
		r.pkg = pkg
		return !slices.ContainsFunc(bars, func(b bar) bool { return b.of(pkg, b.benchmark) })
	}
	fields := strings.Fields(text)
	switch {
	case len(fields) == 0 || fields[0] == "?" || fields[0] == "PASS" || fields[0] == "ok":
		return false
	case fields[0] == "goos:" || fields[0] == "goarch:" || fields[0] == "cpu:":
		return false
	case strings.HasSuffix(text, "[no test files]"):
		return false
	}
	name, ok := strings.CutPrefix(fields[0], "Benchmark")
	name = processors.ReplaceAllString(name, "")
	if first, _, _ := strings.Cut(name, "/"); !ok || !slices.ContainsFunc(bars, func(b bar) bool { return b.of(r.pkg, first) }) {
		return true
	}
	for i := 2; i+1 < len(fields); i += 2 { // name, iterations, and pairs of number and unit
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			r.results.add(name, fields[i+1], v)
		}
	}
	return false
}

func (r results) add(name, unit string, v float64) {
	if r[name] == nil {
		r[name] = map[string]float64{}
	}
	if old, ok := r[name][unit]; !ok || v < old {
		r[name][unit] = v
	}
}

// of returns the metric of the bar's benchmark at a limit.
func (r results) of(b bar, l limit) (v float64, ok bool) {
	name := b.benchmark
	if l.name != "" {
		name += "/" + l.name
	}
	v, ok = r[name][b.unit]
	return v, ok
}
