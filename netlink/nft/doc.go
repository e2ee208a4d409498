// Package nft is the transport to nftables in one network namespace, over netlink. The kernel
// driver has no other way to write nftables, and never executes the program nft.
//
//	Batch, Batch ──Commit──> kernel: all of it or nothing, a new generation of the ruleset
//	ReadTable, Has <── contents, read again while dumps are interrupted
//	Unchanged <── whether contents read earlier are current, without reading them
//	Events <── changes, and whether they are ours: Foreign
//
// Contract:
//
//   - A [Batch] is changes of one table; [Conn.Commit] makes one or more of them happen in
//     one transaction, with one answer of the kernel. It costs what its changes cost, however large
//     the tables are.
//   - Elements that are added may exist; those that are deleted must.
//   - Rules are words, as the library has them, or text in the language of nft(8):
//     [Batch.AddText]. Text that this package cannot read is an error of the whole transaction.
//   - A rule is recognised by its comment: its expressions are not read back.
//   - Whoever changes one of our tables holds the lock of the [Conn] from reading to
//     writing, so that a change and its generation belong together: that is how our own
//     changes are told from those of others. Each of them is remembered with the tables that it
//     changed, so that what one subsystem knows of its table outlives changes that others make to theirs.
//   - After an error the connection is replaced.
//   - Package nfttest is a [Kernel] in memory, through which tests send packets.
//   - Tests make any request fail, or succeed without an answer: [Conn.InjectFaults].
package nft
