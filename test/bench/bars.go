package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// bar is the limit of one metric of a benchmark. Less is better.
type bar struct {
	room      string // the package, "" for kvscheduler
	benchmark string // unique, without "Benchmark"
	title     string
	unit      string // as the benchmark reports it
	limits    []limit
	// growth bounds the last measured result divided by the first; 0 means no bound. A benchmark
	// with a unit of time per value is linear if its growth is small.
	growth float64
}

// limit is the limit of one sub-benchmark.
type limit struct {
	name string // e.g. "N=100", "" without sub-benchmarks
	most float64
	rule string // the source of the limit
}

// linear is the growth of the time per value due to caches and tree depths over three powers of
// ten. Quadratic work would grow by 1000.
const linear = 3

// Ligato's scheduler on two cores with a map as southbound, history and printing off: N interfaces
// and N dependent routes.
var (
	peerCreate = map[int]float64{100: 4.7, 1_000: 7.5, 10_000: 9.7, 100_000: 124} // µs per value
	peerResync = map[int]float64{100: 3.4, 1_000: 4.5, 10_000: 9.8, 100_000: 130} // µs per value, full resync without differences
	peerUpdate = map[int]float64{100: 9, 1_000: 6, 10_000: 7, 100_000: 10}        // µs, median of updates of one value
	peerHeap   = map[int]float64{1_000: 1670, 10_000: 930, 100_000: 880}          // bytes per value
)

// Multiples of the time of fixed work on the same values in the same run, on two idle cores. They
// vary less than microseconds, though single runs still differ by half: use -count 3.
var (
	ownCreate = map[int]float64{1_000: 9.4, 10_000: 9.1, 100_000: 14, 1_000_000: 8.7}
	ownResync = map[int]float64{1_000: 4.2, 10_000: 4.2, 100_000: 4.4, 1_000_000: 4.2}
	ownUpdate = map[int]float64{1_000: 17, 10_000: 15, 100_000: 12, 1_000_000: 8}
	ownHeap   = map[int]float64{1_000: 418, 10_000: 408, 100_000: 397, 1_000_000: 406} // bytes per value
)

var bars = []bar{
	{
		benchmark: "Create", title: "one transaction creates N interfaces and N routes", unit: "µs/value",
		limits: peers("N", peerCreate, 10), growth: 2,
	},
	{
		benchmark: "UpdateOne", title: "one of N values is updated", unit: "p50-µs",
		limits: peers("N", peerUpdate, 1), growth: 2,
	},
	{
		benchmark: "ResyncWithoutDifferences", title: "full resync without differences", unit: "µs/value",
		limits: peers("N", peerResync, 20), growth: linear,
	},
	{
		benchmark: "Create", title: "one transaction creates N interfaces and N routes, in multiples of fixed work", unit: "×reference",
		limits: kept("N", ownCreate),
	},
	{
		benchmark: "UpdateOne", title: "one of N values is updated, in multiples of fixed work", unit: "×reference",
		limits: kept("N", ownUpdate),
	},
	{
		benchmark: "ResyncWithoutDifferences", title: "full resync, in multiples of fixed work", unit: "×reference",
		limits: kept("N", ownResync),
	},
	{
		benchmark: "Flap", title: "a value with K dependents flaps", unit: "µs/value",
		limits: unlimited("K", 10, 100, 1_000, 10_000), growth: linear,
	},
	{
		benchmark: "PendingUnblocked", title: "the dependency of N values appears", unit: "µs/value",
		limits: unlimited("N", 100, 1_000, 10_000, 100_000), growth: linear,
	},
	{
		benchmark: "Failures", title: "1 % of creates fail once", unit: "reads/failure",
		limits: []limit{{"", 1, "keys read ≤ keys failed"}},
	},
	{
		benchmark: "Memory", title: "steady state, history off", unit: "heap-B/value",
		limits: peers("N", peerHeap, 1),
	},
	{
		benchmark: "Memory", title: "steady state, history off, compared with the baseline", unit: "heap-B/value",
		limits: kept("N", ownHeap),
	},
	{
		benchmark: "Memory", title: "endless churn, history of 8 MiB", unit: "heap/limit",
		limits: []limit{{"churn", 1, "its limit holds"}},
	},
	{
		benchmark: "ReadsDuringTransaction", title: "reads while southbound calls of 1 ms run", unit: "p99-µs",
		limits: []limit{{"", 100, "p99 under 100 µs"}},
	},
	{
		room: "internal/vswitch/linux", benchmark: "FirstSyncOfRedirects", title: "one transaction redirects node ports of N services", unit: "µs/value",
		limits: unlimited("N", 1_000, 10_000), growth: linear,
	},
	{
		room: "internal/vswitch/linux", benchmark: "ChangeOfRedirects", title: "node ports of one of N services are redirected otherwise", unit: "µs/change",
		limits: unlimited("N", 1_000, 10_000), growth: 2,
	},
}

func (b bar) of(pkg, benchmark string) bool {
	return pkg == module+cmp.Or(b.room, "kvscheduler") && benchmark == b.benchmark
}

// peers returns limits at the peer's numbers. At the largest size, the limit is the peer's number
// divided by factor.
func peers(letter string, numbers map[int]float64, factor float64) []limit {
	var limits []limit
	for n := 100; n <= 100_000; n *= 10 {
		most, ok := numbers[n]
		if !ok {
			continue
		}
		l := limit{fmt.Sprintf("%s=%d", letter, n), most, "peer"}
		if n == 100_000 && factor != 1 {
			l.most /= factor
			l.rule = fmt.Sprintf("peer (%s) / %g", number(most), factor)
		}
		limits = append(limits, l)
	}
	return limits
}

// kept returns limits of our numbers plus 10 %.
func kept(letter string, numbers map[int]float64) []limit {
	var limits []limit
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		limits = append(limits, limit{fmt.Sprintf("%s=%d", letter, n), 1.1 * numbers[n], fmt.Sprintf("%s and a tenth", number(numbers[n]))})
	}
	return limits
}

// unlimited returns measurements that only count for the growth.
func unlimited(letter string, sizes ...int) []limit {
	limits := make([]limit, len(sizes))
	for i, n := range sizes {
		limits[i].name = fmt.Sprintf("%s=%d", letter, n)
	}
	return limits
}
