package vswitch

import (
	"context"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// ProxyARP answers ARP requests for addresses of others. There is one value, of which
// Create sets the ranges: interfaces are added by calls of their own.
type ProxyARP interface {
	Values[*vpp_l3.ProxyARP]
	// AddInterface answers for the addresses of the ranges on an existing interface.
	AddInterface(ctx context.Context, iface string) error
	RemoveInterface(ctx context.Context, iface string) error
}
