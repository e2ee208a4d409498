package rtnl

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNoDevice: the interface that a value refers to has no device.
var ErrNoDevice = errors.New("no such device")

// IsGone reports whether an error says that the object or its device does not exist.
func IsGone(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.Is(err, ErrNoDevice) || errors.As(err, &notFound) ||
		errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// IgnoreGone makes the deletion of a missing object succeed.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

func Exists(err error) bool { return errors.Is(err, unix.EEXIST) }

// IsUnsupported reports whether the kernel lacks what it was asked for.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}
