package linux

import (
	"errors"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
)

var (
	// ErrNameTaken reports that another device has the requested name.
	ErrNameTaken = errors.New("device name is taken")
	// ErrForeignRoute reports that a foreign route has the same destination and metric.
	ErrForeignRoute = errors.New("another route is in its place")
	// ErrLoopbackTaken reports that two interfaces of type LOOPBACK share a network namespace.
	ErrLoopbackTaken = errors.New("loopback is configured by another interface")
)

// retriable reports whether a retry may succeed. A namespace that is gone does not come back, and
// one of two LOOPBACK interfaces must be removed first.
func retriable(err error) bool {
	return !errors.Is(err, namespaces.ErrGone) && !errors.Is(err, ErrLoopbackTaken) && !errors.Is(err, kvscheduler.ErrUnsupported)
}

// isGone reports whether the object to delete did not exist.
func isGone(err error) bool {
	return errors.Is(err, namespaces.ErrGone) || rtnl.IsGone(err)
}
