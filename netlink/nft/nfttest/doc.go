// Package nfttest is nftables without a kernel: what subsystems write to it, packets can be
// walked through.
//
//	subsystem ─> nft.Conn ──messages of netlink, as for the kernel──> Kernel: tables, chains, sets, rules
//	test ──Packet──> Host: prerouting ─> input │ forward ─> postrouting ──> Outcome: where it ends, as what, by which rule
//
// A [Kernel] takes the very messages that are sent to Linux, and gives the dumps that Linux gives;
// it refuses what Linux refuses: sets, chains and elements that do not exist, chains that
// are in use. A [Host] tracks connections, with their states, marks, and NAT in both directions.
//
// What it does not know, such as limits, is an error of the packet, so that nothing passes
// for tested which is not. Timeouts of elements never end.
package nfttest
