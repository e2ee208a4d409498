// Package policies makes the Linux kernel judge connections by the values of
// contiv.filter: a table of nftables of the family inet, at the hook forward.
//
//	forward ── judged already: ct mark has the present generation ──> accept
//	   │ ct original saddr ──map out4, out6──> out/<hash> ── jump list/<egress list>, … ──> isolated-out
//	   ▼                                                          │ allowed
//	incoming <─────────────────────────────────────────────────────┘
//	   │ ct reply saddr ──map in4, in6──> in/<hash> ── jump list/<ingress list>, … ──> isolated-in
//	   ▼                                                          │ allowed
//	pass: ct mark gets the present generation <────────────────────┘
//
//	list/<name> ── goto ──> rules/<name>/<hash> ── @a4-<set>, @a6-<set>, @e4-<set>, @e6-<set>
//
// There are rules and sets for the IP versions that subjects have, or once had: others never
// meet a list. The first subject of another version brings them, in its own step.
//
// Rules that deny lead to denied-in and denied-out; see denials.go.
//
// Rules ask conntrack who opened a connection, and who answers: so both directions
// are judged alike, and services and NAT do not matter, nor where they are done. What was
// judged is remembered in the mark of the connection, as the generation of the values
// at that time: a change is a new generation, and each connection is judged once more
// when its next packet comes, in whichever direction.
//
// Changes come in up to three transactions. The first makes rules that nothing leads
// to yet, because the kernel (6.18) fills sets of ranges a moment after the rules that
// use them count. The second is all that packets notice. The third removes what
// nothing leads to any more.
//
// A restarted agent recognises objects by their names, rules by the comments that
// hold hashes of their text.
package policies
