// Package nfttest is nftables without a kernel: it traces packets through the tables that
// subsystems write.
//
//	subsystem ─> nft.Conn ──messages of netlink, as for the kernel──> Kernel: tables, chains, sets, rules
//	test ──Packet──> Host: prerouting ─> input │ forward ─> postrouting ──> Outcome: where it ends, as what, by which rule
//
// A [Kernel] accepts the messages that are sent to Linux, and returns the same dumps. It returns
// the errors that Linux returns for missing sets, chains and elements, and for chains in use. A
// [Host] tracks connections, with their states, marks, and NAT in both directions.
//
// An expression that it does not implement, such as a limit, is an error of the packet, so that no
// test passes by accident. Timeouts of elements end when a test lets time pass ([Kernel.Pass]).
package nfttest
