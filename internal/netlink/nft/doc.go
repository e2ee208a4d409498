// Package nft is the transport to nftables in one network namespace, over netlink. It is the only
// one of the kernel driver, which never executes the program nft.
//
//	Batch, Batch ──Commit──> kernel: all or nothing, a new generation of the ruleset
//	ReadTable, Has <── contents; interrupted dumps are repeated
//	Unchanged <── whether earlier contents are current, without reading them
//	Events <── changes; Foreign reports those by other processes
//
// Contract:
//
//   - A [Batch] holds changes of one table; [Conn.Commit] applies one or more of them in
//     one transaction. The cost depends on the changes, not on the size of the tables.
//   - Added elements may exist; deleted elements must exist.
//   - Rules are expressions of the library, or text in the language of nft(8):
//     [Batch.AddText]. Text that cannot be parsed fails the whole transaction.
//   - A rule is identified by its comment. Expressions are not read back.
//   - A writer of our tables holds the lock of the [Conn] from its read to its write.
//     So each generation belongs to one change, and our own changes are known by their
//     generation. They are recorded with their tables: a subsystem need not read its
//     table again after a change of another one.
//   - After an error the connection is replaced.
//   - Package nfttest is a [Kernel] in memory, through which tests send packets.
//   - [Conn.InjectFaults] makes requests fail, or succeed without an answer, in tests.
package nft
