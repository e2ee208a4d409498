// Package nat translates addresses with nftables, in the tables "ip contiv" and "ip6 contiv". Sets
// and maps hold everything that grows with services. So the cost of a packet does not depend on the
// number of services, and a change of one service changes few elements.
//
// # A packet's walk
//
// Chains of type nat see only the first packet of a connection; conntrack translates the others. The
// other chains with a hook see all packets, so they exist only while they have rules.
// Names in this drawing are those of the chains. Chains marked "ip" exist for IPv4 only.
//
//	packet enters                                     process of the node sends
//	 │                                                 │
//	nat-established      remember the client?         nat-established-own     remember the client?
//	 │                    └─> nat-remember             │                       └─> nat-remember
//	nat-prerouting                                    nat-output
//	 │                                                 │ agent to etcd: accept
//	 │                                                 │ backends for the node ──> nat-pick-own
//	 │                                                 │ jump nat-inside, as below
//	 └───────────────────────┬─────────────────────────┘
//	                    nat-services
//	                         │ identity of a port: no translation
//	                         │ client outside the source ranges: drop
//	                         │ one backend: dnat
//	                         │ several backends ───────────────> nat-balance
//	                         │ client inside ──> nat-inside ───> nat-pick-inside
//	                         │ client outside ─────────────────> nat-pick-outside
//	                         │ no backends: drop, or ──────────> nat-refuse
//	                         │ identity of a protocol or an address: no translation   ip
//	                         │ a whole protocol or address: dnat                      ip
//	                         │ unused cluster IP ──────────────> nat-refuse
//	                      routing
//	                         │
//	nat-forward              │ new connection from outside, not translated: drop      ip
//	nat-unused, -unused-own  │ to a cluster IP ──> nat-leaving: translated, or leaves the node ──> nat-refuse
//	                         │
//	                   nat-postrouting
//	                         │ dnat ──> nat-twice
//	                         │           │ sent by the node, to another device: masquerade
//	                         │           │ twice-NAT, or the client is the backend: snat
//	                         │           │                        or ──> nat-twice-source: snat to a pool   ip
//	                         │           └ client outside: masquerade
//	                         │ to an output-feature interface ─────────────> nat-source   ip
//	                         │ to an outside interface ──> nat-in ── from inside ─┘       ip
//	                         │                                     nat-source: identity or sent by the
//	                         ▼                                      node: accept; else snat to a pool
//	nat66-postrouting, of IPv6 only: snat per output interface (nat66.go)
//
//	nat-balance, nat-pick-*   each class of services: dnat to a random backend, or with session
//	                          affinity jump nat-known*, then dnat to the backend of a hash
//	nat-known*                dnat to the backend that the kernel remembers for the client
//	nat-remember              update nat-clients ──> nat-remembered: clear the mark
//	nat-refuse                TCP reset, or ICMP port unreachable
//
// # Values
//
//	values ──render──> elements ──difference──> one transaction
//	                      ^
//	known (read once) ────┘ comments of elements and rules identify their value
//
// A starting agent reads the elements while it loads the services (ReadAhead). The tables contain
// the full state for a restarted agent: sets.go describes the sets, and rules.go has the rules. One
// code handles DNat44 and DNat66 values.
//
// Rules are text in the language of nft(8), and a saved ruleset can be loaded again, with one
// exception: the rules of session affinity (affinity.go, remember.go) pass the result of one map to
// another, which the language cannot express. They are in the tables only while a service has
// session affinity. nft can list them, but refuses to load what it lists.
//
// Agents of other versions find the tables by the names of base chains, sets and maps. A renamed
// base chain would translate twice after a downgrade, and the elements of a renamed set would be
// lost, so these names stay. Comments of rules contain a hash of their text: an agent that finds
// unexpected comments replaces all rules in one transaction and keeps the elements.
package nat
