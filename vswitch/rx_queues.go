package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// RxQueues are how interfaces get packets from their queues.
type RxQueues interface {
	// SetModes makes queues polled, or not. A mode for all queues may be among them;
	// that of a queue counts more.
	SetModes(ctx context.Context, iface string, modes []*vpp_interfaces.Interface_RxMode) error
	// UnsetModes makes all modes those that the device has by default.
	UnsetModes(ctx context.Context, iface string) error
	// Place gives a queue to a thread; it stays there until it is placed elsewhere.
	Place(ctx context.Context, iface string, p *vpp_interfaces.Interface_RxPlacement) error
}
