package vpp

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
)

// SetUnnumbered: VPP lets an interface borrow only in its own tables, so it follows the
// lender into those first.
func (v interfaces) SetUnnumbered(ctx context.Context, iface, lender string) error {
	err := v.setUnnumbered(ctx, iface, lender)
	if err != nil {
		return fmt.Errorf("making interface %q use the address of %q: %w", iface, lender, err)
	}
	v.addressesChanged(iface)
	return nil
}

func (v interfaces) setUnnumbered(ctx context.Context, iface, lender string) error {
	i, err := v.ifs.index(ctx, iface)
	if err != nil {
		return err
	}
	from, err := v.ifs.index(ctx, lender)
	if err != nil {
		return err
	}
	if err := v.unsetUnnumbered(ctx, i); err != nil { // tables cannot be changed before
		return err
	}
	l, err := v.use(addressModule)
	if err != nil {
		return err
	}
	lent := v.startIPv6Addresses(ctx, from)
	var tables [2]*vppapi.Pending
	for n, v6 := range []bool{false, true} {
		tables[n] = l.Start(ctx, &interfaces_api.SwInterfaceGetTable{SwIfIndex: from, IsIPv6: v6})
	}
	for n, p := range tables {
		var table interfaces_api.SwInterfaceGetTableReply
		if err := p.Wait(ctx, &table); err != nil {
			return err
		}
		if err := v.setTables(ctx, i, table.VrfID, vswitch.IPVersions{V4: n == 0, V6: n == 1}); err != nil {
			return err
		}
	}
	err = v.call(ctx, addressModule, &interfaces_api.SwInterfaceSetUnnumbered{SwIfIndex: from, UnnumberedSwIfIndex: i, IsAdd: true},
		&interfaces_api.SwInterfaceSetUnnumberedReply{})
	if addrs, lentErr := lent.wait(ctx); err != nil || lentErr != nil || len(addrs) == 0 {
		return errors.Join(err, lentErr)
	}
	return v.startIPv6(ctx, i)
}

// unsetUnnumbered makes an interface numbered if it is not.
func (v interfaces) unsetUnnumbered(ctx context.Context, i index) error {
	now, err := v.borrowers(ctx, i)
	if err != nil || len(now) == 0 {
		return err
	}
	own := v.startIPv6Addresses(ctx, i)
	err = v.call(ctx, addressModule, &interfaces_api.SwInterfaceSetUnnumbered{UnnumberedSwIfIndex: i}, &interfaces_api.SwInterfaceSetUnnumberedReply{})
	if addrs, ownErr := own.wait(ctx); err != nil || ownErr != nil || len(addrs) > 0 {
		return errors.Join(err, ownErr)
	}
	err = v.call(ctx, addressModule, &ip.SwInterfaceIP6EnableDisable{SwIfIndex: i}, &ip.SwInterfaceIP6EnableDisableReply{})
	if vppapi.Refused(err, api.IP6_NOT_ENABLED) {
		return nil
	}
	return err
}

// borrowers returns what is unnumbered: one interface, or all of them (^0).
func (v interfaces) borrowers(ctx context.Context, i index) ([]*ip.IPUnnumberedDetails, error) {
	return dump[ip.IPUnnumberedDetails](ctx, v.VSwitch, addressModule, &ip.IPUnnumberedDump{SwIfIndex: i})
}

func (v interfaces) startIPv6Addresses(ctx context.Context, i index) *pendingDump[ip.IPAddressDetails, *ip.IPAddressDetails] {
	return startDump[ip.IPAddressDetails](ctx, v.VSwitch, addressModule, &ip.IPAddressDump{SwIfIndex: i, IsIPv6: true})
}

// startIPv6 lets an interface that borrows an IPv6 address answer who asks for it: VPP does
// it by itself for addresses of the interface's own. VPP counts how often it was told.
func (v interfaces) startIPv6(ctx context.Context, i index) error {
	err := v.call(ctx, addressModule, &ip.SwInterfaceIP6GetLinkLocalAddress{SwIfIndex: i}, &ip.SwInterfaceIP6GetLinkLocalAddressReply{})
	if !vppapi.Refused(err, api.IP6_NOT_ENABLED) {
		return err
	}
	return v.call(ctx, addressModule, &ip.SwInterfaceIP6EnableDisable{SwIfIndex: i, Enable: true}, &ip.SwInterfaceIP6EnableDisableReply{})
}

// startBorrowersIPv6 does so for all that borrow from a lender.
func (v interfaces) startBorrowersIPv6(ctx context.Context, lender index) error {
	all, err := v.borrowers(ctx, noIndex)
	for _, d := range all {
		if d.IPSwIfIndex == lender {
			err = errors.Join(err, v.startIPv6(ctx, d.SwIfIndex))
		}
	}
	return err
}

// UnsetUnnumbered also moves the interface back into VRF 0.
func (v interfaces) UnsetUnnumbered(ctx context.Context, iface string) error {
	err := v.onExisting(ctx, iface, func(i index) error {
		if err := v.unsetUnnumbered(ctx, i); err != nil {
			return err
		}
		return v.setTables(ctx, i, 0, vswitch.IPVersions{V4: true, V6: true})
	})
	if err != nil {
		return fmt.Errorf("making interface %q numbered: %w", iface, err)
	}
	v.addressesChanged(iface)
	return nil
}
