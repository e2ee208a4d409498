package vswitch

import (
	"context"
	"net/netip"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
)

// ABFs forward packets that an access list permits along separate paths, by index. The attachments
// of an interface are evaluated by priority.
type ABFs interface {
	// Create sets the access list and the paths, with existing interfaces. Attach binds input
	// interfaces. For an existing ABF, Create replaces only the paths, atomically.
	Values[*vpp_abf.ABF]
	// Attach applies an existing ABF to packets that enter on an existing interface.
	Attach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
	Detach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
}

// ABFPath is the canonical form of an ABF's path.
type ABFPath struct {
	NextHop            netip.Addr
	Interface          string
	Weight, Preference uint32
	DVR                bool
}

// ABFPathOf returns the path; weights 0 and 1 are equal.
func ABFPathOf(p *vpp_abf.ABF_ForwardingPath) ABFPath {
	addr, _ := netip.ParseAddr(p.GetNextHopIp())
	return ABFPath{addr, p.GetInterfaceName(), max(p.GetWeight(), 1), p.GetPreference(), p.GetDvr()}
}
