// Package srv6 is VPP's segment routing over IPv6: the port vswitch.SRv6.
//
//	localsid.go  what VPP does with packets for its own segments
//	nexthops.go  has VPP ask for the neighbours that local SIDs lead to, until they answer
//	policy.go    lists of segments, weighted
//	steering.go  which traffic goes into a policy
//	global.go    the source of encapsulated packets
package srv6
