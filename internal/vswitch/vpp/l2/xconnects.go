package l2

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/l2"
)

// xconnects are ours if they receive from our interface.
type xconnects struct{ *L2 }

func (v *L2) XConnects() vswitch.Values[*vpp_l2.XConnectPair] { return xconnects{v} }

func (v xconnects) Create(ctx context.Context, x *vpp_l2.XConnectPair) error {
	rx, err := v.ifs.Index(ctx, x.GetReceiveInterface())
	if err == nil {
		var tx ownership.Index
		if tx, err = v.ifs.Index(ctx, x.GetTransmitInterface()); err == nil {
			err = v.vpp.Call(ctx, module, &l2.SwInterfaceSetL2Xconnect{RxSwIfIndex: rx, TxSwIfIndex: tx, Enable: true}, &l2.SwInterfaceSetL2XconnectReply{})
		}
		if err == nil {
			err = v.guards.Bridged(ctx, rx)
		}
	}
	if err != nil {
		return fmt.Errorf("cross-connecting interface %q to %q: %w", x.GetReceiveInterface(), x.GetTransmitInterface(), err)
	}
	return nil
}

// Delete skips interfaces with another mode by now.
func (v xconnects) Delete(ctx context.Context, x *vpp_l2.XConnectPair) error {
	rx, err := v.ifs.Resolve(ctx, x.GetReceiveInterface())
	var none *ownership.NoInterfaceError
	if errors.As(err, &none) {
		return nil
	}
	var all []*l2.L2XconnectDetails
	if err == nil {
		all, err = session.Dump[l2.L2XconnectDetails](ctx, v.vpp, module, &l2.L2XconnectDump{})
	}
	for _, d := range all {
		if d.RxSwIfIndex != rx {
			continue
		}
		var guarded bool
		if guarded, err = v.guards.Unbridge(ctx, rx); !guarded && err == nil {
			err = v.vpp.Call(ctx, module, &l2.SwInterfaceSetL2Xconnect{RxSwIfIndex: rx}, &l2.SwInterfaceSetL2XconnectReply{})
		}
	}
	if err != nil && !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return fmt.Errorf("ending the cross-connect of interface %q: %w", x.GetReceiveInterface(), err)
	}
	return nil
}

func (v xconnects) List(ctx context.Context, _ []*vpp_l2.XConnectPair) ([]*vpp_l2.XConnectPair, error) {
	pending := v.ifs.Start(ctx)
	all, err := session.Dump[l2.L2XconnectDetails](ctx, v.vpp, module, &l2.L2XconnectDump{})
	names, namesErr := ownership.WaitNames(ctx, pending)
	if err := errors.Join(err, namesErr); err != nil {
		return nil, fmt.Errorf("reading cross-connects: %w", err)
	}
	var list []*vpp_l2.XConnectPair
	for _, d := range all {
		rx, ours := names.Of(d.RxSwIfIndex)
		if !ours || names[d.RxSwIfIndex] == "" {
			continue // VPP resets the mode of a recreated interface
		}
		tx, ours := names.Of(d.TxSwIfIndex)
		if !ours {
			tx = ownership.GoneName(d.TxSwIfIndex)
		}
		list = append(list, &vpp_l2.XConnectPair{ReceiveInterface: rx, TransmitInterface: tx})
	}
	return list, nil
}
