// Package drift turns events of the kernel into reports about values that are not, or
// may not be, as they were configured.
//
//	rtnetlink ─┐ Notice: which values does the event concern?
//	           ├────────> Collector ──quiet for a moment──> Check ──> report(reason, keys)
//	nftables ──┘
//
// Each subsystem of the driver implements [Subsystem]. An event that may also be an
// echo of what the driver did itself is only a suspicion: the subsystem asks the
// kernel when things are quiet, and reports what is wrong then. When events are lost,
// everything is reported.
//
// Nothing in here, and no implementation of Subsystem, changes the kernel or what is
// known of it: a repair is a transaction that the report leads to.
package drift
