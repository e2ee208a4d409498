package rtnl

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNoDevice: the interface of a value has no device.
var ErrNoDevice = errors.New("no such device")

// IsGone reports whether an error means that the object or its device does not exist.
func IsGone(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.Is(err, ErrNoDevice) || errors.As(err, &notFound) ||
		errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// IgnoreGone returns nil if the object did not exist, so that its deletion succeeds.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

func Exists(err error) bool { return errors.Is(err, unix.EEXIST) }

// IsUnsupported reports whether the kernel does not support the request.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}
