package rtnl

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// HasVRFDevices reports whether the kernel supports VRF devices. It requests one without a table: a
// kernel that knows the kind refuses it for that. It creates nothing, not even the policy rule of
// the first VRF device. The kernel loads the module if available.
func (r *Conn) HasVRFDevices() (bool, error) {
	err := r.AddLink(NewLink{Name: "contiv-probe", Kind: "vrf"})
	switch {
	case errors.Is(err, unix.EINVAL):
		return true, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, nil
	case err == nil:
		err = errors.New("it made one without a table")
	}
	return false, fmt.Errorf("trying whether the kernel has VRF devices: %w", err)
}

// StoresAddressProtocol reports whether the kernel stores the protocol of addresses (IFA_PROTO,
// Linux 5.18 or backported). It tries once per process, in a temporary network namespace.
var StoresAddressProtocol = sync.OnceValues(func() (stores bool, err error) {
	err = Try(func(c *Conn) error {
		tried := Address{Index: Loopback, Prefix: netip.MustParsePrefix("127.0.0.2/32"), Proto: 121}
		if err := c.AddAddress(tried); err != nil {
			return err
		}
		have, err := c.Addresses(Loopback)
		stores = slices.ContainsFunc(have, func(a Address) bool { return a.Prefix == tried.Prefix && a.Proto == tried.Proto })
		return err
	})
	if err != nil {
		return false, fmt.Errorf("trying whether the kernel stores the protocol of addresses: %w", err)
	}
	return stores, nil
})

// Loopback is the index of the loopback device of each namespace.
const Loopback = 1

// Try calls try with a temporary network namespace, to probe features of the kernel.
func Try(try func(*Conn) error) error {
	return namespace.InNew(func() error {
		ns, err := netns.Get()
		if err != nil {
			return err
		}
		defer ns.Close()
		c, err := New(ns)
		if err != nil {
			return err
		}
		defer c.Close()
		return try(c)
	})
}
