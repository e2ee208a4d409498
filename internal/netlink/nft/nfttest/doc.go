// Package nfttest implements nftables without a kernel: it traces packets through the tables that
// subsystems write.
//
//	subsystem ─> nft.Conn ──netlink messages, as for the kernel──> Kernel: tables, chains, sets, rules
//	test ──Packet──> Host: prerouting ─> input │ forward ─> postrouting ──> Outcome: destination, translation, rule
//
// A [Kernel] accepts the same messages as Linux and returns the same dumps. It returns Linux'
// errors for missing sets, chains and elements, and for chains in use. A [Host] tracks connections,
// with their states, marks, and NAT in both directions.
//
// An unsupported expression, such as a limit, is an error of the packet, so that no test passes by
// accident. Elements expire when a test lets time pass ([Kernel.Pass]).
package nfttest
