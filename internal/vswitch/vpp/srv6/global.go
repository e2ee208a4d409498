package srv6

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/sr"
)

// srGlobals is the source of encapsulated packets. VPP copies it into segment lists when they are
// created, so a change replaces the lists of existing policies.
type srGlobals struct{ *SRv6 }

func (v srGlobals) Create(ctx context.Context, g *vpp_srv6.SRv6Global) error {
	if err := v.set(ctx, vswitch.EncapSource(g)); err != nil {
		return fmt.Errorf("setting the source of encapsulated packets to %s: %w", vswitch.EncapSource(g), err)
	}
	return nil
}

func (v srGlobals) Delete(ctx context.Context, _ *vpp_srv6.SRv6Global) error {
	if err := v.set(ctx, netip.IPv6Unspecified()); err != nil {
		return fmt.Errorf("resetting the source of encapsulated packets: %w", err)
	}
	return nil
}

func (v srGlobals) set(ctx context.Context, source netip.Addr) error {
	v.sr.Lock()
	defer v.sr.Unlock()
	err := v.vpp.Call(ctx, module, &sr.SrSetEncapSource{EncapsSource: source.As16()}, &sr.SrSetEncapSourceReply{})
	if err != nil {
		return err
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, p := range state.policies {
		want := make([]way, 0, len(p.lists))
		for _, list := range p.lists {
			want = append(want, wayOfDetails(list))
		}
		failed = errors.Join(failed, srPolicies(v).setWays(ctx, p, want, source))
	}
	return failed
}

// List: VPP reports :: without a source.
func (v srGlobals) List(ctx context.Context, expected []*vpp_srv6.SRv6Global) ([]*vpp_srv6.SRv6Global, error) {
	source, err := v.encapSource(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the source of encapsulated packets: %w", err)
	}
	if source.IsUnspecified() && len(expected) == 0 {
		return nil, nil
	}
	return []*vpp_srv6.SRv6Global{{EncapSourceAddress: source.String()}}, nil
}
