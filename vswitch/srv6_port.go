package vswitch

import (
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
)

// EncapSource returns the source of encapsulated packets; the address :: leaves it
// to the vswitch.
func EncapSource(g *vpp_srv6.SRv6Global) netip.Addr {
	addr, err := netip.ParseAddr(g.GetEncapSourceAddress())
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return addr
}

// SRv6 is segment routing over IPv6. To create what exists changes it at once: no
// packet meets a part of it.
type SRv6 interface {
	// LocalSIDs are the segments that end at this node, by address.
	LocalSIDs() Values[*vpp_srv6.LocalSID]
	// Policies are ways through segments, by binding SID. With a policy goes the
	// steering into it.
	Policies() Values[*vpp_srv6.Policy]
	// Steerings direct traffic into policies that exist, by name.
	Steerings() Values[*vpp_srv6.Steering]
	// Globals has one value at most: the source of encapsulated packets.
	Globals() Values[*vpp_srv6.SRv6Global]
}
