package vswitch

import (
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
)

// EncapSource returns the source of encapsulated packets; :: means the vswitch's choice.
func EncapSource(g *vpp_srv6.SRv6Global) netip.Addr {
	addr, err := netip.ParseAddr(g.GetEncapSourceAddress())
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return addr
}

// SRv6 is segment routing over IPv6. Create of an existing value replaces it atomically.
type SRv6 interface {
	// LocalSIDs are the segments that end at this node, by address.
	LocalSIDs() Values[*vpp_srv6.LocalSID]
	// Policies are paths through segments, by binding SID. Deleting a policy also removes its
	// steering.
	Policies() Values[*vpp_srv6.Policy]
	// Steerings direct traffic into existing policies, by name.
	Steerings() Values[*vpp_srv6.Steering]
	// Globals sets the source of encapsulated packets: at most one value.
	Globals() Values[*vpp_srv6.SRv6Global]
}
