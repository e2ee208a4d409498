// Package nat translates addresses with nftables, in tables "ip contiv" and
// "ip6 contiv". Everything that grows with services is in sets and maps, so a packet
// costs the same however many services there are, and a change of one service is a
// change of few elements.
//
//	values ──render──> elements ──difference──> one transaction
//	                      ^
//	known (read once) ────┘ elements and rules carry what they stand for as a comment
//
// An agent that starts reads the elements while it still reads what services there are (ReadAhead).
//
// rules.go and sets.go describe the tables. They contain everything that a restarted agent needs.
package nat
