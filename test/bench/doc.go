// Command bench runs the benchmarks and compares the results of the KVScheduler and of a few other
// packages with limits: the numbers of Ligato's scheduler, earlier results in multiples of fixed
// work, or a rule such as "time per value stays flat".
//
//	go test -bench ──> lines ──┬── with bars ───────> table: measured, bar, ok or missed
//	                           ├── of others ───────> printed unchanged
//	                           └── all ─────────────> a file (-raw), and printed with -v
//
// With -base COMMIT it compares the KVScheduler of that commit with this tree in turns and prints
// ratios.
//
// A missed bar is no failure, because machines are noisy. A benchmark that fails or does not build
// is one. With -count N the best of N results counts.
package main
