// Package netalloc resolves references to the addresses that were allocated to interfaces.
//
//	config/netalloc/v1/ip/network/<net>/interface/<if>   {address, gw}
//	  │ derives                         ▲ need
//	  │                                 │
//	  ├─> netalloc/neigh-gw/…  ◄────────┤
//	  │                                 │
//	interfaces, routes, ARP entries with "alloc:<net>[/<if>][/GW]" instead of an address
//
// An allocation has no effect itself. Descriptors that accept references declare the dependency
// (Dependency) and pass resolved addresses to their drivers (Resolver). An allocation is recreated
// rather than updated, so dependent values are removed with the old address and recreated with the
// new one.
package netalloc
