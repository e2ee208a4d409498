// Package nat translates addresses with nftables, in the tables "ip contiv" and "ip6 contiv". Sets
// and maps hold everything that grows with services. So the cost of a packet does not depend on the
// number of services, and a change of one service changes few elements.
//
//	values ──render──> elements ──difference──> one transaction
//	                      ^
//	known (read once) ────┘ comments of elements and rules identify their value
//
// A starting agent reads the elements while it loads the services (ReadAhead).
//
// rules.go and sets.go describe the tables. They contain the full state for a restarted agent.
package nat
