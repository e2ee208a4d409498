package l3xc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/l3xc"
)

var module = session.NewModule("l3xc_plugin.so", "L3 cross-connects",
	&l3xc.L3xcUpdate{}, &l3xc.L3xcUpdateReply{}, &l3xc.L3xcDel{}, &l3xc.L3xcDelReply{}, &l3xc.L3xcDump{}, &l3xc.L3xcDetails{},
)

// CrossConnects are ours on our interfaces.
type CrossConnects struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *CrossConnects {
	return &CrossConnects{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

func (v *CrossConnects) Create(ctx context.Context, x *vpp_l3.L3XConnect) error {
	i, err := v.ifs.Index(ctx, x.GetInterface())
	if err == nil {
		err = v.set(ctx, i, x)
	}
	if err != nil {
		return fmt.Errorf("cross-connecting the packets of interface %q: %w", x.GetInterface(), err)
	}
	return nil
}

// set deletes an existing cross-connect first, because VPP would keep using its old paths.
func (v *CrossConnects) set(ctx context.Context, i ownership.Index, x *vpp_l3.L3XConnect) error {
	ipv6 := x.GetProtocol() == vpp_l3.L3XConnect_IPV6
	var paths []fibpath.Path
	for _, p := range x.GetPaths() {
		out, err := v.ifs.Index(ctx, p.GetOutgoingInterface())
		if err != nil {
			return err
		}
		way, err := fibpath.New(p.GetNextHopAddr(), out, p.GetWeight(), p.GetPreference())
		if err != nil {
			return err
		}
		paths = append(paths, way)
	}
	all, err := session.Dump[l3xc.L3xcDetails](ctx, v.vpp, module, &l3xc.L3xcDump{SwIfIndex: i})
	if err != nil {
		return err
	}
	for _, d := range all {
		switch have := fibpath.DecodeAll(d.L3xc.Paths); {
		case crossesIPv6(d) != ipv6:
		case len(have) == len(paths) && !slices.ContainsFunc(have, func(p fibpath.Path) bool { return !slices.Contains(paths, p) }):
			return nil
		default:
			if err := v.vpp.Call(ctx, module, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: ipv6}, &l3xc.L3xcDelReply{}); err != nil {
				return err
			}
		}
	}
	req := &l3xc.L3xcUpdate{L3xc: l3xc.L3xc{SwIfIndex: i, IsIP6: ipv6}}
	for _, p := range paths {
		req.L3xc.Paths = append(req.L3xc.Paths, p.Encode(ipv6))
	}
	return v.vpp.Call(ctx, module, req, &l3xc.L3xcUpdateReply{})
}

// crossesIPv6 derives the IP version from the paths, because VPP does not report it.
func crossesIPv6(d *l3xc.L3xcDetails) bool {
	return slices.ContainsFunc(d.L3xc.Paths, func(p fib_types.FibPath) bool { return p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6 })
}

func (v *CrossConnects) Delete(ctx context.Context, x *vpp_l3.L3XConnect) error {
	i, err := v.ifs.Resolve(ctx, x.GetInterface())
	if err == nil {
		err = v.vpp.Call(ctx, module, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: x.GetProtocol() == vpp_l3.L3XConnect_IPV6}, &l3xc.L3xcDelReply{})
	}
	var none *ownership.NoInterfaceError
	if errors.As(err, &none) || vppapi.Refused(err, api.INVALID_VALUE) || vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending the cross-connect of interface %q: %w", x.GetInterface(), err)
	}
	return nil
}

func (v *CrossConnects) List(ctx context.Context, expected []*vpp_l3.L3XConnect) ([]*vpp_l3.L3XConnect, error) {
	pending := v.ifs.Start(ctx)
	all, err := session.Dump[l3xc.L3xcDetails](ctx, v.vpp, module, &l3xc.L3xcDump{SwIfIndex: ownership.NoIndex})
	names, namesErr := ownership.WaitNames(ctx, pending)
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
		name, ours := names.Of(d.L3xc.SwIfIndex)
		if !ours {
			continue
		}
		x := &vpp_l3.L3XConnect{Interface: name}
		if crossesIPv6(d) {
			x.Protocol = vpp_l3.L3XConnect_IPV6
		}
		for _, p := range fibpath.DecodeAll(d.L3xc.Paths) {
			out, ours := names.Of(p.Out)
			if !ours {
				out = ownership.GoneName(p.Out)
			}
			hop := &vpp_l3.L3XConnect_Path{OutgoingInterface: out, Weight: uint32(p.Weight), Preference: uint32(p.Preference)}
			if p.Gateway.IsValid() {
				hop.NextHopAddr = p.Gateway.String()
			}
			x.Paths = append(x.Paths, hop)
		}
		list = append(list, x)
	}
	return list, nil
}

// InterfaceLeaving deletes the cross-connects of an interface before it is deleted, because VPP
// would keep them for the next interface with the index.
func (v *CrossConnects) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	var errs []error
	for _, ipv6 := range []bool{false, true} {
		err := v.vpp.Call(ctx, module, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: ipv6}, &l3xc.L3xcDelReply{})
		if !errors.Is(err, kvscheduler.ErrUnsupported) && !vppapi.Refused(err, api.INVALID_VALUE) {
			errs = append(errs, err)
		}
	}
	return session.FirstError(errs)
}
