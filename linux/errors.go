package linux

import (
	"errors"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/netlink/rtnl"
)

var (
	// ErrNameTaken says that another device has the name that an interface is
	// to get.
	ErrNameTaken = errors.New("device name is taken")
	// ErrForeignRoute says that a foreign route occupies the place of ours.
	ErrForeignRoute = errors.New("another route is in its place")
	// ErrLoopbackTaken says that two interfaces of type LOOPBACK share a
	// network namespace.
	ErrLoopbackTaken = errors.New("loopback is configured by another interface")
)

// retriable reports whether repeating an operation may help. A namespace that is gone
// does not come back, and of two LOOPBACK interfaces one must be removed.
func retriable(err error) bool {
	return !errors.Is(err, namespaces.ErrGone) && !errors.Is(err, ErrLoopbackTaken) && !errors.Is(err, kvscheduler.ErrUnsupported)
}

// isGone reports whether an object was not there to be deleted.
func isGone(err error) bool {
	return errors.Is(err, namespaces.ErrGone) || rtnl.IsGone(err)
}
