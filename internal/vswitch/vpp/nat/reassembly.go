package nat

import (
	"context"
	"fmt"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"go.fd.io/govpp/binapi/ip"
	"google.golang.org/protobuf/proto"
)

// Defaults of VPP's shallow virtual reassembly, from which NAT learns the ports of fragments.
const (
	reassemblyTimeout  = 100 // ms
	reassemblyMax      = 1024
	reassemblyMaxParts = 3
	reassemblyWalk     = 10000 // ms
	msPerSecond        = 1000
)

// wantedReassembly returns VPP's state for the requested parameters; zeros mean VPP's defaults. VPP
// cannot drop all fragments.
func wantedReassembly(r *vpp_nat.VirtualReassembly) ip.IPReassemblySet {
	set := ip.IPReassemblySet{
		TimeoutMs: reassemblyTimeout, MaxReassemblies: reassemblyMax, MaxReassemblyLength: reassemblyMaxParts, ExpireWalkIntervalMs: reassemblyWalk,
		Type: ip.IP_REASS_TYPE_SHALLOW_VIRTUAL,
	}
	if r.GetTimeout() > 0 {
		set.TimeoutMs = r.GetTimeout() * msPerSecond
	}
	if r.GetMaxReassemblies() > 0 {
		set.MaxReassemblies = r.GetMaxReassemblies()
	}
	if r.GetMaxFragments() > 0 {
		set.MaxReassemblyLength = r.GetMaxFragments()
	}
	return set
}

func (v *NAT) currentReassembly(ctx context.Context) (ip.IPReassemblySet, error) {
	var now ip.IPReassemblyGetReply
	if err := v.vpp.Call(ctx, reassemblyModule, &ip.IPReassemblyGet{Type: ip.IP_REASS_TYPE_SHALLOW_VIRTUAL}, &now); err != nil {
		return ip.IPReassemblySet{}, fmt.Errorf("reading the parameters of virtual reassembly: %w", err)
	}
	return ip.IPReassemblySet{
		TimeoutMs: now.TimeoutMs, MaxReassemblies: now.MaxReassemblies, MaxReassemblyLength: now.MaxReassemblyLength,
		ExpireWalkIntervalMs: now.ExpireWalkIntervalMs, Type: ip.IP_REASS_TYPE_SHALLOW_VIRTUAL,
	}, nil
}

func (v *NAT) setReassembly(ctx context.Context, r *vpp_nat.VirtualReassembly) error {
	wanted := wantedReassembly(r)
	now, err := v.currentReassembly(ctx)
	if err != nil || now == wanted {
		return err
	}
	if err := v.vpp.Call(ctx, reassemblyModule, &wanted, &ip.IPReassemblySetReply{}); err != nil {
		return fmt.Errorf("setting the parameters of virtual reassembly: %w", err)
	}
	return nil
}

// reassembly returns the expected parameters if VPP has them.
func (v *NAT) reassembly(ctx context.Context, expected *vpp_nat.VirtualReassembly) (*vpp_nat.VirtualReassembly, error) {
	now, err := v.currentReassembly(ctx)
	switch {
	case err != nil:
		return nil, err
	case now == wantedReassembly(expected):
		return proto.CloneOf(expected), nil
	case now == wantedReassembly(nil):
		return nil, nil
	}
	return &vpp_nat.VirtualReassembly{
		Timeout: now.TimeoutMs / msPerSecond, MaxReassemblies: now.MaxReassemblies, MaxFragments: now.MaxReassemblyLength,
	}, nil
}
