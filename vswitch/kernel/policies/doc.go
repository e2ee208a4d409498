// Package policies makes the Linux kernel judge connections by the values of
// contiv.filter: a table of nftables of the family inet, at the hooks forward and output.
//
//	forward ── judged already: ct mark has the present generation ──> accept
//	   │      output ── an address of the node sends ──> accept
//	   ▼         ▼
//	judge ───────
//	   │ ct original saddr ──map out4, out6──> out/<hash> ── blocks, jump list/<egress list>, … ──> isolated-out
//	   ▼                                                          │ allowed
//	incoming <─────────────────────────────────────────────────────┘
//	   │ ct reply saddr ──map in4, in6──> in/<hash> ── blocks, jump list/<ingress list>, … ──> isolated-in
//	   ▼                                                          │ allowed
//	pass: ct mark gets the present generation <────────────────────┘
//
//	block ── @u4-<hash> peers, @p4-<hash> peers with ports: of all lists in a row that only allow; see union.go
//	list/<name> ── goto ──> rules/<name>/<hash> ── @a4-<set>, @a6-<set>, @e4-<set>, @e6-<set>: of others
//
// What a packet meets does not depend on how many lists a block has. Lists that subjects do not lead to are
// not in the table: they are there if the subjects are that have them.
//
// Rules and sets exist for the IP versions that subjects have or once had, since packets of other
// versions never reach a list. The first subject of another version adds them in a step of its own.
//
// Rules that deny lead to denied-in and denied-out; see denials.go.
//
// Rules match the original and reply addresses of conntrack. Both directions of a connection
// therefore get the same verdict, and it does not matter whether or where services and NAT
// translate it. The connection mark stores the generation of the values for which the connection
// was allowed. A change starts a new generation, so each connection is evaluated again at its next
// packet, in either direction. Marks outlive values and agents, so generations go on: without values, the table
// still has the last one. A mark is cleared where a rule denies. Generations have 16 bits and come again: before the
// first of each half of them, the marks of that half are cleared, which are from before the other half.
//
// At the hook output are the packets of IPVS: it takes those for its services at the hook input,
// and sends them to a server with the addresses of their clients. Without the conntrack of IPVS
// (net.ipv4.vs.conntrack), the client of an answer is unknown, so nothing passes from and to subjects.
//
// A change takes up to three transactions. The first creates rules that no packet reaches yet,
// because the kernel (6.18) fills interval sets a moment after the rules that use them become
// active. The second makes everything visible to packets. The third removes unreachable rules and
// sets.
//
// A restarted agent recognises objects by their names, and rules by comments that contain hashes of
// their text.
package policies
