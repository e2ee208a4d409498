package rtnl

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// HasVRFDevices reports whether the kernel has devices of the kind "vrf". It asks for one
// without saying which table, which none can be made of: a kernel that knows the kind misses
// the table. Nothing is made, not even the policy rule that comes with the first VRF device
// of a network namespace. The kernel loads the module if it has it.
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

// StoresAddressProtocol reports whether the kernel stores the protocol of addresses
// (IFA_PROTO, Linux 5.18, and kernels that it was brought back to). It tries, once for
// the process, in a network namespace of its own that ends with the answer.
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

// Loopback is the index of the loopback of each namespace.
const Loopback = 1

// Try calls try with a network namespace of its own, which ends with the call: what the kernel can do is tried there.
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
