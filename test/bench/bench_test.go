package main

import (
	"slices"
	"strings"
	"testing"
)

const output = `goos: linux
pkg: github.com/contiv/contiv/kvscheduler
cpu: fast
BenchmarkCreate/N=100-2         	       3	    815607 ns/op	         6.000 µs/value	  138752 B/op	     707 allocs/op
BenchmarkCreate/N=100-2         	       3	    815607 ns/op	         4.000 µs/value	  138752 B/op	     707 allocs/op
BenchmarkCreate/N=100000-2      	       3	2408700972 ns/op	        12.40 µs/value	        15.60 ×reference	161704928 B/op	  680525 allocs/op
BenchmarkFlap/K=10              	       3	    815607 ns/op	         4.000 µs/value
BenchmarkFlap/K=1000            	       3	    815607 ns/op	        11.00 µs/value
BenchmarkReadsDuringTransaction-2	 1000000	      1041 ns/op	       101.5 p99-µs
BenchmarkRevert/N=100-2         	       3	    815607 ns/op
PASS
ok  	github.com/contiv/contiv/kvscheduler	28.718s
?   	github.com/contiv/contiv/models	[no test files]
pkg: github.com/contiv/contiv/internal/vswitch/linux
BenchmarkFirstSyncOfRedirects/N=1000-2         	       3	    815607 ns/op	        10.00 µs/value
BenchmarkFirstSyncOfRedirects/N=10000-2        	       3	    815607 ns/op	        13.00 µs/value
BenchmarkRetrieve100Namespaces-2               	       3	    815607 ns/op
pkg: github.com/contiv/contiv/test/cnibench
BenchmarkCreate-2               	       3	    815607 ns/op
--- FAIL: BenchmarkDelete
`

func TestTable(t *testing.T) {
	r := reader{results: results{}}
	var printed, table strings.Builder
	for line := range strings.Lines(output) {
		if r.line(strings.TrimSuffix(line, "\n")) {
			printed.WriteString(line)
		}
	}
	if err := writeTable(&table, r.results); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(table.String()), " ") // the column widths do not matter
	for _, want := range []string{
		"N=100 4 ≤ 4.7 peer ok",                    // the best of two
		"N=100000 12.4 ≤ 12.4 peer (124) / 10 ok",  // ten times as fast
		"growth 3.1 × < 2 × last / first missed",   // of create
		"K=1000 11 growth 2.75 × < 3 × last / fir", // only the growth of the measured sizes matters
		"N=100000 15.6 ≤ 15.4 14 and a tenth missed",
		"[p99-µs] 102 ≤ 100 p99 under 100 µs missed",
		"one of N values is updated [p50-µs] not measured",
		"redirects node ports of N services [µs/value] N=1000 10 N=10000 13 growth 1.3 × < 3 × last / first ok",
		"4 bars met, 3 missed",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	want := []string{"BenchmarkRevert", "BenchmarkRetrieve100Namespaces", "pkg: github.com/contiv/contiv/test/cnibench", "BenchmarkCreate-2", "--- FAIL: BenchmarkDelete"}
	lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("printed:\n%s", printed.String())
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("printed %q, want %q", line, want[i])
		}
	}
}

func TestComparison(t *testing.T) {
	at := func(update, heap float64) results {
		return results{
			"UpdateOne/N=1000":    {"p50-µs": 1, "ns/op": 1, "×reference": 1},
			"UpdateOne/N=1000000": {"p50-µs": update, "ns/op": 1},
			"Memory/N=1000":       {"heap-B/value": heap},
		}
	}
	var table strings.Builder
	err := writeComparison(&table,
		[]results{at(8, 500), at(16, 500), at(10, 500)},
		[]results{at(6, 400), at(8, 400), at(7, 400)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(table.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"benchmark unit then now now / then of single turns",
		"Memory/N=1000 heap-B/value 500 400 0.80 0.80 to 0.80",
		"UpdateOne/N=1000 p50-µs 1 1 1.00 1.00 to 1.00",
		"UpdateOne/N=1000000 p50-µs 10 7 0.70 0.50 to 0.75",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
