// Package drift turns events of the kernel into reports about values that differ, or may differ,
// from their configuration.
//
//	rtnetlink ─┐ Notice: which values does the event concern?
//	           ├────────> Collector ──quiet for a moment──> Check ──> report(reason, keys)
//	nftables ──┘
//
// Each subsystem of the driver implements [Subsystem]. An event that may be an echo of the driver's
// own change is only a suspicion: the subsystem asks the kernel once events have stopped, and
// reports the differences that remain. When events are lost, everything is reported.
//
// Neither this package nor an implementation of Subsystem changes the kernel or the driver's
// records of it. A report triggers a transaction, which repairs the values.
package drift
