// Package routes calculates the routes of hosts from Calico's blocks. It is pure.
//
//	blocks, affinities ──Owners──> owners of prefixes ────┐
//	peers ──────────────────────────────────────────Peers──┴─ For(host) ──> routes of the host
//
// The rules:
//
//  1. A block belongs to the host that the block itself names. If there is no such block (yet), it
//     belongs to the only host with a confirmed affinity. A block that names no host belongs
//     to none.
//  2. An address that is allocated to another host than its block belongs to that host, as
//     a /32 or /128.
//  3. A prefix of another host is routed through that host's address of the family. Without one,
//     there is no route: a borrowed address then follows its block.
//  4. The host's own blocks are dropped: only pods, whose routes are more specific, and
//     nobody's default route answer for them. Its borrowed addresses need no route.
//  5. Nothing may lead away what the uplink's own subnets have.
package routes
