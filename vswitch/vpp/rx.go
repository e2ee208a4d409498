package vpp

import (
	"context"
	"errors"
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

var rxModule = newModule("", "RX queues of interfaces",
	&interfaces_api.SwInterfaceSetRxMode{}, &interfaces_api.SwInterfaceSetRxModeReply{},
	&interfaces_api.SwInterfaceSetRxPlacement{}, &interfaces_api.SwInterfaceSetRxPlacementReply{},
)

type rxQueues struct{ *VSwitch }

// RxQueues are those of interfaces with hardware, or something like it.
func (v *VSwitch) RxQueues() vswitch.RxQueues { return rxQueues{v} }

// SetModes sets the default first, which is the mode of all queues.
func (v rxQueues) SetModes(ctx context.Context, iface string, modes []*vpp_interfaces.Interface_RxMode) error {
	i, err := v.ifs.index(ctx, iface)
	if err == nil {
		err = v.setModes(ctx, i, modes)
	}
	if err != nil {
		return fmt.Errorf("setting RX modes of interface %q: %w", iface, err)
	}
	return nil
}

func (v rxQueues) setModes(ctx context.Context, i index, modes []*vpp_interfaces.Interface_RxMode) error {
	l, err := v.use(rxModule)
	if err != nil {
		return err
	}
	b := batch{l: l}
	set := func(m *vpp_interfaces.Interface_RxMode) {
		b.add(ctx, fmt.Sprintf("%v for queue %d", m.GetMode(), m.GetQueue()), &interfaces_api.SwInterfaceSetRxMode{
			SwIfIndex: i, Mode: interface_types.RxMode(m.GetMode()), QueueIDValid: !m.GetDefaultMode(), QueueID: m.GetQueue(),
		}, &interfaces_api.SwInterfaceSetRxModeReply{})
	}
	for _, wantDefault := range []bool{true, false} {
		for _, m := range modes {
			if m.GetDefaultMode() == wantDefault {
				set(m)
			}
		}
	}
	return refusedRx(b.wait(ctx))
}

// refusedRx explains what VPP says with a code that means anything.
func refusedRx(err error) error {
	if vppapi.Refused(err, api.UNIMPLEMENTED, api.INVALID_VALUE) {
		return vswitch.Unsupported("%s: the interface has no such queue or mode, or VPP no such worker", errors.Unwrap(err))
	}
	return err
}

// UnsetModes makes them those of the device's driver again.
func (v rxQueues) UnsetModes(ctx context.Context, iface string) error {
	err := interfaces(v).onExisting(ctx, iface, func(i index) error {
		return v.setModes(ctx, i, []*vpp_interfaces.Interface_RxMode{{Mode: vpp_interfaces.Interface_RxMode_DEFAULT, DefaultMode: true}})
	})
	if err != nil {
		return fmt.Errorf("resetting RX modes of interface %q: %w", iface, err)
	}
	return nil
}

// Place makes a thread poll a queue. There is no way back: where VPP had put it, VPP does
// not remember.
func (v rxQueues) Place(ctx context.Context, iface string, p *vpp_interfaces.Interface_RxPlacement) error {
	i, err := v.ifs.index(ctx, iface)
	if err == nil {
		err = refusedRx(v.call(ctx, rxModule, &interfaces_api.SwInterfaceSetRxPlacement{
			SwIfIndex: i, QueueID: p.GetQueue(), WorkerID: p.GetWorker(), IsMain: p.GetMainThread(),
		}, &interfaces_api.SwInterfaceSetRxPlacementReply{}))
	}
	if err != nil {
		return fmt.Errorf("placing queue %d of interface %q: %w", p.GetQueue(), iface, err)
	}
	return nil
}
