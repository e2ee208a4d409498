package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// RxQueues controls how interfaces receive packets from their queues.
type RxQueues interface {
	// SetModes sets polling or interrupts for queues. The mode of a single queue overrides a mode
	// for all queues.
	SetModes(ctx context.Context, iface string, modes []*vpp_interfaces.Interface_RxMode) error
	// UnsetModes restores the device's default modes.
	UnsetModes(ctx context.Context, iface string) error
	// Place assigns a queue to a thread, until the next placement.
	Place(ctx context.Context, iface string, p *vpp_interfaces.Interface_RxPlacement) error
}
