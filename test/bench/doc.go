// Command bench runs the benchmarks and compares those of the KVScheduler, and a few others, with
// what they must reach: the numbers of Ligato's scheduler, their own earlier ones in multiples of fixed work, or a
// rule such as "time per value stays flat".
//
//	go test -bench ──> lines ──┬── with bars ───────> table: measured, bar, ok or missed
//	                           ├── of others ───────> printed as they are
//	                           └── all ─────────────> a file (-raw), and printed with -v
//
// With -base COMMIT it measures the KVScheduler of that commit and that of this tree by turns
// instead, and prints ratios.
//
// A bar that is missed is no failure: machines are noisy. A benchmark that fails
// or does not build is one. With -count N the best of N results counts.
package main
