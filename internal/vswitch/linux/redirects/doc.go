// Package redirects makes the host's kernel redirect connections to a vswitch with its own network
// stack. It uses the nftables tables "ip contiv-host" and "ip6 contiv-host" in the agent's network
// namespace:
//
//	client ──> address of the host . protocol . port ──(prerouting, output) map redirect-to──> address of the vswitch
//	client <── seen as <──(postrouting) map redirect-from── the same key
//	           processes of the host: as the host's address there
//
// A value is a set of elements in these two maps; their comments hold its label. A change of one
// value changes few elements, the cost of a packet does not depend on their number, and a restarted
// agent reads everything back. The tables exist while they have elements.
package redirects
