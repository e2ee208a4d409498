package vpp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/l3xc"
)

var l3xcModule = newModule("l3xc_plugin.so", "L3 cross-connects",
	&l3xc.L3xcUpdate{}, &l3xc.L3xcUpdateReply{}, &l3xc.L3xcDel{}, &l3xc.L3xcDelReply{}, &l3xc.L3xcDump{}, &l3xc.L3xcDetails{},
)

// l3xconnects are ours on our interfaces.
type l3xconnects struct{ *VSwitch }

func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] { return l3xconnects{v} }

func (v l3xconnects) Create(ctx context.Context, x *vpp_l3.L3XConnect) error {
	i, err := v.ifs.index(ctx, x.GetInterface())
	if err == nil {
		err = v.set(ctx, i, x)
	}
	if err != nil {
		return fmt.Errorf("cross-connecting the packets of interface %q: %w", x.GetInterface(), err)
	}
	return nil
}

// set: VPP goes on to use the paths that a cross-connect had when it gets other ones, so
// that it is deleted first.
func (v l3xconnects) set(ctx context.Context, i index, x *vpp_l3.L3XConnect) error {
	ipv6 := x.GetProtocol() == vpp_l3.L3XConnect_IPV6
	var paths []path
	for _, p := range x.GetPaths() {
		out, err := v.ifs.index(ctx, p.GetOutgoingInterface())
		if err != nil {
			return err
		}
		way, err := newPath(p.GetNextHopAddr(), out, p.GetWeight(), p.GetPreference())
		if err != nil {
			return err
		}
		paths = append(paths, way)
	}
	all, err := dump[l3xc.L3xcDetails](ctx, v.VSwitch, l3xcModule, &l3xc.L3xcDump{SwIfIndex: i})
	if err != nil {
		return err
	}
	for _, d := range all {
		switch have := pathsOf(d.L3xc.Paths); {
		case crossesIPv6(d) != ipv6:
		case len(have) == len(paths) && !slices.ContainsFunc(have, func(p path) bool { return !slices.Contains(paths, p) }):
			return nil
		default:
			if err := v.call(ctx, l3xcModule, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: ipv6}, &l3xc.L3xcDelReply{}); err != nil {
				return err
			}
		}
	}
	req := &l3xc.L3xcUpdate{L3xc: l3xc.L3xc{SwIfIndex: i, IsIP6: ipv6}}
	for _, p := range paths {
		req.L3xc.Paths = append(req.L3xc.Paths, p.encode(ipv6))
	}
	return v.call(ctx, l3xcModule, req, &l3xc.L3xcUpdateReply{})
}

// crossesIPv6: VPP does not say what a cross-connect is for, but its paths do.
func crossesIPv6(d *l3xc.L3xcDetails) bool {
	return slices.ContainsFunc(d.L3xc.Paths, func(p fib_types.FibPath) bool { return p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 })
}

func (v l3xconnects) Delete(ctx context.Context, x *vpp_l3.L3XConnect) error {
	i, err := v.indexOf(ctx, x.GetInterface())
	if err == nil {
		err = v.call(ctx, l3xcModule, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: x.GetProtocol() == vpp_l3.L3XConnect_IPV6}, &l3xc.L3xcDelReply{})
	}
	var none *noInterfaceError
	if errors.As(err, &none) || vppapi.Refused(err, api.INVALID_VALUE) || vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending the cross-connect of interface %q: %w", x.GetInterface(), err)
	}
	return nil
}

func (v l3xconnects) List(ctx context.Context, expected []*vpp_l3.L3XConnect) ([]*vpp_l3.L3XConnect, error) {
	pending := v.startInterfaces(ctx)
	all, err := dump[l3xc.L3xcDetails](ctx, v.VSwitch, l3xcModule, &l3xc.L3xcDump{SwIfIndex: noIndex})
	names, namesErr := waitNames(ctx, pending)
	if namesErr != nil {
		return nil, namesErr
	}
	if errors.Is(err, kvscheduler.ErrUnsupported) && len(expected) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading L3 cross-connects: %w", err)
	}
	var list []*vpp_l3.L3XConnect
	for _, d := range all {
		name, ours := names.of(d.L3xc.SwIfIndex)
		if !ours {
			continue
		}
		x := &vpp_l3.L3XConnect{Interface: name}
		if crossesIPv6(d) {
			x.Protocol = vpp_l3.L3XConnect_IPV6
		}
		for _, p := range pathsOf(d.L3xc.Paths) {
			out, ours := names.of(p.out)
			if !ours {
				out = goneName(p.out)
			}
			hop := &vpp_l3.L3XConnect_Path{OutgoingInterface: out, Weight: uint32(p.weight), Preference: uint32(p.preference)}
			if p.gw.IsValid() {
				hop.NextHopAddr = p.gw.String()
			}
			x.Paths = append(x.Paths, hop)
		}
		list = append(list, x)
	}
	return list, nil
}
