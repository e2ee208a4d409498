package interfaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

var rxModule = session.NewModule("", "RX queues of interfaces",
	&interfaces_api.SwInterfaceSetRxMode{}, &interfaces_api.SwInterfaceSetRxModeReply{},
	&interfaces_api.SwInterfaceSetRxPlacement{}, &interfaces_api.SwInterfaceSetRxPlacementReply{},
	&interfaces_api.SwInterfaceRxPlacementDump{}, &interfaces_api.SwInterfaceRxPlacementDetails{},
)

// rxQueue is the present placement of a queue.
type rxQueue = interfaces_api.SwInterfaceRxPlacementDetails

type rxQueues struct{ *Interfaces }

// RxQueues returns the port for interfaces with queues.
func (v *Interfaces) RxQueues() vswitch.RxQueues { return rxQueues{v} }

// SetModes sets the default first, which applies to all queues.
func (v rxQueues) SetModes(ctx context.Context, iface string, modes []*vpp_interfaces.Interface_RxMode) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.setModes(ctx, i, modes)
	}
	if err != nil {
		return fmt.Errorf("setting RX modes of interface %q: %w", iface, err)
	}
	return nil
}

func (v rxQueues) setModes(ctx context.Context, i ownership.Index, modes []*vpp_interfaces.Interface_RxMode) error {
	l, err := v.vpp.Use(rxModule)
	if err != nil {
		return err
	}
	byDefault, err := v.defaultMode(ctx, i)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	set := func(m *vpp_interfaces.Interface_RxMode) {
		mode := interface_types.RxMode(m.GetMode())
		if m.GetMode() == vpp_interfaces.Interface_RxMode_DEFAULT {
			mode = byDefault
		}
		b.Add(ctx, fmt.Sprintf("%v for queue %d", m.GetMode(), m.GetQueue()), &interfaces_api.SwInterfaceSetRxMode{
			SwIfIndex: i, Mode: mode, QueueIDValid: !m.GetDefaultMode(), QueueID: m.GetQueue(),
		}, &interfaces_api.SwInterfaceSetRxModeReply{})
	}
	for _, wantDefault := range []bool{true, false} {
		for _, m := range modes {
			if m.GetDefaultMode() == wantDefault {
				set(m)
			}
		}
	}
	return refusedRx(b.Wait(ctx))
}

// setInterrupts enables interrupts on a new device, which VPP would poll.
func (v *Interfaces) setInterrupts(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, rxModule, &interfaces_api.SwInterfaceSetRxMode{SwIfIndex: i, Mode: interface_types.RX_MODE_API_INTERRUPT}, &interfaces_api.SwInterfaceSetRxModeReply{})
}

// defaultMode returns a device's mode without request. VPP would poll all devices, but a device
// with its other end in the kernel can signal packets, so VPP may sleep.
func (v rxQueues) defaultMode(ctx context.Context, i ownership.Index) (interface_types.RxMode, error) {
	d, err := v.ifs.Details(ctx, i)
	if d != nil && (d.InterfaceDevType == classTap || d.InterfaceDevType == classAFPacket) {
		return interface_types.RX_MODE_API_INTERRUPT, err
	}
	return interface_types.RX_MODE_API_DEFAULT, err
}

// refusedRx explains VPP's unspecific error code.
func refusedRx(err error) error {
	if vppapi.Refused(err, api.UNIMPLEMENTED, api.INVALID_VALUE) {
		return vswitch.Unsupported("%s: the interface has no such queue or mode, or VPP no such worker", errors.Unwrap(err))
	}
	return err
}

// UnsetModes restores the device's default modes.
func (v rxQueues) UnsetModes(ctx context.Context, iface string) error {
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error {
		return v.setModes(ctx, i, []*vpp_interfaces.Interface_RxMode{{Mode: vpp_interfaces.Interface_RxMode_DEFAULT, DefaultMode: true}})
	})
	if err != nil {
		return fmt.Errorf("resetting RX modes of interface %q: %w", iface, err)
	}
	return nil
}

// Place makes a thread poll a queue. VPP does not record its earlier placement, so it cannot be
// undone.
func (v rxQueues) Place(ctx context.Context, iface string, p *vpp_interfaces.Interface_RxPlacement) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = refusedRx(v.vpp.Call(ctx, rxModule, &interfaces_api.SwInterfaceSetRxPlacement{
			SwIfIndex: i, QueueID: p.GetQueue(), WorkerID: p.GetWorker(), IsMain: p.GetMainThread(),
		}, &interfaces_api.SwInterfaceSetRxPlacementReply{}))
	}
	if err != nil {
		return fmt.Errorf("placing queue %d of interface %q: %w", p.GetQueue(), iface, err)
	}
	return nil
}

// startReadingRxQueues starts reading the queues of all interfaces.
func startReadingRxQueues(ctx context.Context, s *session.Session) *session.Pending[rxQueue, *rxQueue] {
	return session.StartDump[rxQueue](ctx, s, rxModule, &interfaces_api.SwInterfaceRxPlacementDump{SwIfIndex: ownership.NoIndex})
}

// rxModesOf returns the expected modes if the queues have them, and otherwise the queues' modes.
// VPP does not report the device's default, so none expected is none found.
func rxModesOf(queues []*rxQueue, expected []*vpp_interfaces.Interface_RxMode) (modes []*vpp_interfaces.Interface_RxMode) {
	if len(expected) == 0 {
		return nil
	}
	wanted, all := map[uint32]vpp_interfaces.Interface_RxMode_Type{}, vpp_interfaces.Interface_RxMode_DEFAULT
	for _, m := range expected {
		if m.GetDefaultMode() {
			all = m.GetMode()
		} else {
			wanted[m.GetQueue()] = m.GetMode()
		}
	}
	asWanted := len(queues) > 0
	for _, q := range queues {
		has := vpp_interfaces.Interface_RxMode_Type(q.Mode)
		modes = append(modes, &vpp_interfaces.Interface_RxMode{Queue: q.QueueID, Mode: has})
		mode, ok := wanted[q.QueueID]
		if delete(wanted, q.QueueID); !ok {
			mode = all
		}
		asWanted = asWanted && (mode == has || mode == vpp_interfaces.Interface_RxMode_DEFAULT)
	}
	if asWanted && len(wanted) == 0 {
		return expected
	}
	return modes
}

// rxPlacementsOf returns the placements of the expected queues.
func rxPlacementsOf(queues []*rxQueue, expected []*vpp_interfaces.Interface_RxPlacement) (places []*vpp_interfaces.Interface_RxPlacement) {
	for _, p := range expected {
		for _, q := range queues {
			switch thread := q.WorkerID; { // 0 is the main thread
			case q.QueueID != p.GetQueue():
			case p.GetMainThread() && thread == 0, !p.GetMainThread() && thread == p.GetWorker()+1:
				places = append(places, p)
			case thread == 0:
				places = append(places, &vpp_interfaces.Interface_RxPlacement{Queue: q.QueueID, MainThread: true})
			default:
				places = append(places, &vpp_interfaces.Interface_RxPlacement{Queue: q.QueueID, Worker: thread - 1})
			}
		}
	}
	return places
}
