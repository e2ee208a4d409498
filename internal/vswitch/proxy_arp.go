package vswitch

import (
	"context"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// ProxyARP answers ARP requests for other hosts. Only one value exists. Create sets its ranges, and
// AddInterface its interfaces.
type ProxyARP interface {
	Values[*vpp_l3.ProxyARP]
	// AddInterface answers for the ranges on an existing interface.
	AddInterface(ctx context.Context, iface string) error
	RemoveInterface(ctx context.Context, iface string) error
}
