// Package rtnl speaks rtnetlink with the kernel of one network namespace.
//
// Contract:
//
//   - A change is one request. It returns nil or an error that wraps the kernel's errno.
//     [IsGone] reports whether the object, or its device, does not exist; [IgnoreGone]
//     makes deleting it a success; [Exists] reports whether it already existed.
//   - Zero fields of a change mean no change. Zero fields of a filter match everything.
//   - A dump that was interrupted by changes is repeated ([Dump]).
//   - The kernel does not reuse the index of a device: a stale one gives ENODEV.
//
// Package events receives events; the Parse functions decode them.
//
// [Conn.InjectFaults] makes requests fail in tests.
//
// A Conn is safe for concurrent use.
package rtnl
