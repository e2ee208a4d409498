package vpptest

import (
	"go.fd.io/govpp/api"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
)

func handleRxModes() {
	onInterface(func(r *interfaces.SwInterfaceSetRxMode) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetRxMode, _ *interfaces.SwInterfaceSetRxModeReply) api.VPPApiError {
			switch {
			case i.Type != interface_types.IF_API_TYPE_HARDWARE:
				return api.INVALID_VALUE
			case req.QueueIDValid && req.QueueID >= i.queues():
				return api.UNIMPLEMENTED
			case i.isPolled() && (req.Mode == interface_types.RX_MODE_API_INTERRUPT || req.Mode == interface_types.RX_MODE_API_ADAPTIVE):
				return api.UNIMPLEMENTED
			}
			for q := range i.queues() {
				if !req.QueueIDValid || q == req.QueueID {
					i.setRxMode(q, req.Mode)
				}
			}
			return 0
		})
	onDump(func(c *call, req *interfaces.SwInterfaceRxPlacementDump, send func(*interfaces.SwInterfaceRxPlacementDetails)) {
		c.ifs.all(func(i *swInterface) {
			for q := range i.queues() {
				if req.SwIfIndex == noIndex || req.SwIfIndex == i.SwIfIndex {
					send(&interfaces.SwInterfaceRxPlacementDetails{SwIfIndex: i.SwIfIndex, QueueID: q, Mode: i.rxMode(q)})
				}
			}
		})
	})
	onInterface(func(r *interfaces.SwInterfaceSetRxPlacement) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetRxPlacement, _ *interfaces.SwInterfaceSetRxPlacementReply) api.VPPApiError {
			switch {
			case i.Type != interface_types.IF_API_TYPE_HARDWARE:
				return api.INVALID_VALUE
			case !req.IsMain, req.QueueID >= i.queues(): // no workers
				return api.UNIMPLEMENTED
			}
			return 0
		})
}

// queues is the number of the RX queues of an interface.
func (i *swInterface) queues() uint32 {
	switch i.kind.(type) {
	case afPacket, tap, dpdkNIC:
		return 1
	}
	return 0
}

// rxMode returns the mode of a queue, by default the driver's.
func (i *swInterface) rxMode(queue uint32) interface_types.RxMode {
	mode, ok := i.rxModes[queue]
	if _, tap := i.kind.(tap); !ok && (tap || i.isPolled()) {
		return interface_types.RX_MODE_API_POLLING
	} else if !ok {
		return interface_types.RX_MODE_API_INTERRUPT
	}
	return mode
}

// isPolled reports whether the device lacks interrupts.
func (i *swInterface) isPolled() bool { _, is := i.kind.(dpdkNIC); return is }

func (i *swInterface) setRxMode(queue uint32, mode interface_types.RxMode) {
	if i.rxModes == nil {
		i.rxModes = map[uint32]interface_types.RxMode{}
	}
	if i.rxModes[queue] = mode; mode == interface_types.RX_MODE_API_DEFAULT {
		i.rxModes[queue] = interface_types.RX_MODE_API_POLLING
	}
}
