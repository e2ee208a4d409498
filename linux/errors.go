package linux

import (
	"errors"
	"syscall"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/netlink/rtnl"
	"golang.org/x/sys/unix"
)

var (
	// ErrNamespaceGone says that a network namespace does not exist. Its contents are gone, too:
	// Delete succeeds and Retrieve finds nothing.
	ErrNamespaceGone = errors.New("network namespace does not exist")
	// ErrNameTaken says that another device has the name that an interface is
	// to get.
	ErrNameTaken = errors.New("device name is taken")
	// ErrNoDevice says that the device of an interface does not exist.
	ErrNoDevice = errors.New("device does not exist")
	// ErrForeignRoute says that a foreign route occupies the place of ours.
	ErrForeignRoute = errors.New("another route is in its place")
	// ErrForeignChain says that a chain of iptables has the name of ours, but not
	// our mark.
	ErrForeignChain = errors.New("another chain has this name")
	// ErrPolicyTaken says that two rule chains want different default policies
	// for one built-in chain.
	ErrPolicyTaken = errors.New("default policies contradict each other")
	// ErrLoopbackTaken says that two interfaces of type LOOPBACK share a
	// network namespace.
	ErrLoopbackTaken = errors.New("loopback is configured by another interface")
)

// retriable reports whether repeating an operation may help. A namespace that is gone
// does not come back, and of two LOOPBACK interfaces one must be removed.
func retriable(err error) bool {
	return !errors.Is(err, ErrNamespaceGone) && !errors.Is(err, ErrLoopbackTaken) && !errors.Is(err, kvscheduler.ErrUnsupported)
}

// isGone reports whether an object was not there to be deleted.
func isGone(err error) bool {
	return errors.Is(err, ErrNamespaceGone) || errors.Is(err, ErrNoDevice) || rtnl.IsGone(err)
}

// unsupportedByKernel reports whether the kernel lacks what it was asked for.
func unsupportedByKernel(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && (errno == unix.EOPNOTSUPP || errno == unix.EAFNOSUPPORT || errno == unix.EPROTONOSUPPORT)
}
