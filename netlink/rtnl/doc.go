// Package rtnl speaks rtnetlink with the kernel of one network namespace.
//
// Contract:
//
//   - A change is one request, answered with nil or with an error that wraps the
//     kernel's errno. [IsGone] reports whether that says that the object, or its device,
//     does not exist; [IgnoreGone] makes deleting it a success; [Exists] reports whether
//     it was there already.
//   - Zero fields of a change leave things as they are. Zero fields of a filter match
//     everything.
//   - A dump that changes disturbed is repeated until it is consistent ([Dump]).
//   - The kernel does not use the index of a device twice: a stale one gives ENODEV.
//
// Events come by package events; the Parse functions decode them.
//
// Tests break any request by [Conn.InjectFaults].
//
// A Conn may be used by several goroutines at the same time.
package rtnl
