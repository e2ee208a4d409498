// Package redirects has the host's kernel send connections to a vswitch with a network stack of its own, by nftables
// tables "ip contiv-host" and "ip6 contiv-host" in the agent's network namespace:
//
//	client ──> address of the host . protocol . port ──(prerouting, output) map redirect-to──> address of the vswitch
//	client <── seen as <──(postrouting) map redirect-from── the same key
//	           processes of the host: as the host's address there
//
// A value is elements of these two maps; their comments name it. So one changed value is few changed elements, a packet
// costs the same however many there are, and a restarted agent reads back everything. The tables exist while they have elements.
package redirects
