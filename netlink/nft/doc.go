// Package nft speaks nftables with the kernel of one network namespace, over netlink.
//
//	Batch ──Commit──> kernel: all of it or nothing, a new generation of the ruleset
//	Gen.Elements, Gen.Rules <── dumps, repeated while they are inconsistent
//	Events <── what changed, by whom: Foreign
//
// Contract:
//
//   - A [Batch] is one transaction on one table. It costs what its changes cost, however
//     large the tables are.
//   - Elements that are added may exist; those that are deleted must.
//   - A rule is known by its comment: what it does is not read back.
//   - Whoever changes one of our tables holds the lock of the [Conn] from reading to
//     writing, so that a change and its generation belong together: that is how our own
//     changes are told from those of others.
//   - After an error the connections are made anew.
package nft
