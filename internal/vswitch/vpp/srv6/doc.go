// Package srv6 implements vswitch.SRv6 with VPP's segment routing over IPv6.
//
//	localsid.go  actions on packets for VPP's own segments
//	nexthops.go  resolves the neighbours of local SIDs until they answer
//	policy.go    lists of segments, weighted
//	steering.go  which traffic goes into a policy
//	global.go    the source of encapsulated packets
package srv6
