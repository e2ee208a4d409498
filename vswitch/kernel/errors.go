package kernel

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var errReadOnly = unix.EROFS

// errNoDevice: what a value refers to has no device.
var errNoDevice = errors.New("no such device")

func noDevice(logical string) error {
	return fmt.Errorf("interface %q: %w in the network namespace of the vswitch", logical, errNoDevice)
}

// isGone tells if an error says that the object or its device does not exist.
func isGone(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.Is(err, errNoDevice) || errors.As(err, &notFound) ||
		errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// ignoreGone makes deleting what is not there a success.
func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

func exists(err error) bool { return errors.Is(err, unix.EEXIST) }
