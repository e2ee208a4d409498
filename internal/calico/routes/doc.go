// Package routes calculates the routes of hosts from Calico's blocks. It has no side effects.
//
//	blocks, affinities ──Owners──> owners of prefixes ────┐
//	peers ──────────────────────────────────────────Peers──┴─ For(host) ──> routes of the host
//
// Rules:
//
//  1. A block belongs to the host that it names. If the block does not exist (yet), it belongs to the only host with a
//     confirmed affinity. A block without a host belongs to none.
//  2. An address allocated to another host than its block belongs to that host, as a /32 or /128.
//  3. A prefix of another host is routed through that host's address of the family. Without an address, it has no route,
//     and a borrowed address then follows its block.
//  4. Packets to the host's own blocks are dropped, unless a pod has the address: its route is more specific. So packets
//     to unused addresses do not follow the default route. Borrowed addresses of the host need no route.
//  5. No route may overlap the uplink's own subnets.
package routes
