// Package policies enforces the values of contiv.filter on connections, with an nftables table of
// family inet at the hooks forward and output.
//
//	forward ── ct mark has the current generation ──> accept
//	   │      output ── source is an address of the node ──> accept
//	   ▼         ▼
//	judge ───────
//	   │ ct original saddr ──map out4, out6──> out/<hash> ── blocks, jump list/<egress list>, … ──> isolated-out
//	   ▼                                                          │ allowed
//	incoming <─────────────────────────────────────────────────────┘
//	   │ ct reply saddr ──map in4, in6──> in/<hash> ── blocks, jump list/<ingress list>, … ──> isolated-in
//	   ▼                                                          │ allowed
//	pass: ct mark gets the current generation <────────────────────┘
//
//	block ── @u4-<hash> peers, @p4-<hash> peers with ports: of adjacent lists that only allow; see union.go
//	list/<name> ── goto ──> rules/<name>/<hash> ── @a4-<set>, @a6-<set>, @e4-<set>, @e6-<set>: other lists
//
// The number of rules that a packet traverses does not depend on the number of lists in a block. A
// list is in the table only while a subject jumps to it.
//
// Rules and sets exist for the IP versions that subjects have or once had, because packets of other
// versions never reach a list. The first subject of another version adds them in a separate step.
//
// Denying rules jump to denied-in and denied-out; see denials.go.
//
// Rules match the original and reply addresses of conntrack. So both directions of a connection get
// the same verdict, whether or not services and NAT translate it. The connection mark stores the
// generation of the values for which the connection was allowed. A change starts a new generation,
// so each connection is evaluated again at its next packet, in either direction. Marks outlive
// values and agents, so the table keeps the last generation even without values. A denial clears
// the mark. Generations have 16 bits and recur: before the first one of each half, all marks of
// that half are cleared.
//
// Hook output handles IPVS, which takes the packets of its services at hook input and sends them to
// a server with their clients' addresses. Without net.ipv4.vs.conntrack, the client of a reply is
// unknown, so such traffic from and to subjects is dropped.
//
// A change takes up to three transactions. The first creates unreachable rules, because the kernel
// (6.18) fills interval sets shortly after the rules that use them become active. The second
// activates them. The third removes unreachable rules and sets.
//
// A restarted agent recognises objects by their names, and rules by comments that contain hashes of
// their text.
package policies
