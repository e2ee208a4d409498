package vswitch

import (
	"context"
	"net/netip"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
)

// ABFs forward packets that an access list permits along paths of their own, by index.
// Packets of an interface meet those attached to it in the order of their priorities.
type ABFs interface {
	// Create sets the access list, which exists, and the paths, by interfaces that
	// exist; interfaces that packets enter by are attached by calls of their own. Of one
	// that exists only the paths change, at once.
	Values[*vpp_abf.ABF]
	// Attach makes an existing one count for packets that enter by an existing interface.
	Attach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
	Detach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
}

// ABFPath is a path of an ABF in the one way to write it.
type ABFPath struct {
	NextHop            netip.Addr
	Interface          string
	Weight, Preference uint32
	DVR                bool
}

// ABFPathOf returns the path; weights 0 and 1 are the same.
func ABFPathOf(p *vpp_abf.ABF_ForwardingPath) ABFPath {
	addr, _ := netip.ParseAddr(p.GetNextHopIp())
	return ABFPath{addr, p.GetInterfaceName(), max(p.GetWeight(), 1), p.GetPreference(), p.GetDvr()}
}
