package srv6

import (
	"fmt"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Notice detects deleted routes.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if r, ok := rtnl.ParseRouteEvent(m); ok && r.Deleted && r.Protocol == own.ProtoSegments {
		send(drift.Notice{Reason: fmt.Sprintf("route %s was deleted", r.Destination), Keys: v.srKeys(r.Destination)})
	}
}

// Check does nothing: events are conclusive.
func (v *Driver) Check(*drift.Batch) {}
