// Package netalloc knows the addresses that were allocated to interfaces, and
// puts them in the place of references to them.
//
//	config/netalloc/v1/ip/network/<net>/interface/<if>   {address, gw}
//	  │ derives                         ▲ need
//	  │                                 │
//	  ├─> netalloc/neigh-gw/…  ◄────────┤
//	  │                                 │
//	interfaces, routes, ARP entries with "alloc:<net>[/<if>][/GW]" in the place of an address
//
// An allocation does nothing by itself. Descriptors that take references declare
// the dependency (Dependency) and hand plain addresses to their drivers
// (Resolver). As an allocation is never updated but made anew, all that refers to
// it goes with the old address and comes back with the new one.
package netalloc
