package interfaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
)

// SetUnnumbered moves the interface into the lender's tables first, because VPP requires the same
// tables.
func (v *Interfaces) SetUnnumbered(ctx context.Context, iface, lender string) error {
	err := v.setUnnumbered(ctx, iface, lender)
	if err != nil {
		return fmt.Errorf("making interface %q use the address of %q: %w", iface, lender, err)
	}
	v.hub.Publish(subsystem.Event{Kind: subsystem.AddressesChanged, Interface: iface})
	return nil
}

func (v *Interfaces) setUnnumbered(ctx context.Context, iface, lender string) error {
	i, err := v.ifs.Index(ctx, iface)
	if err != nil {
		return err
	}
	from, err := v.ifs.Index(ctx, lender)
	if err != nil {
		return err
	}
	if err := v.unsetUnnumbered(ctx, i); err != nil { // tables cannot be changed before
		return err
	}
	l, err := v.vpp.Use(addressModule)
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
	err = v.vpp.Call(ctx, addressModule, &interfaces_api.SwInterfaceSetUnnumbered{SwIfIndex: from, UnnumberedSwIfIndex: i, IsAdd: true},
		&interfaces_api.SwInterfaceSetUnnumberedReply{})
	if addrs, lentErr := lent.Wait(ctx); err != nil || lentErr != nil || len(addrs) == 0 {
		return errors.Join(err, lentErr)
	}
	return v.startIPv6(ctx, i)
}

// unsetUnnumbered makes an interface numbered if needed.
func (v *Interfaces) unsetUnnumbered(ctx context.Context, i ownership.Index) error {
	now, err := v.borrowers(ctx, i)
	if err != nil || len(now) == 0 {
		return err
	}
	own := v.startIPv6Addresses(ctx, i)
	err = v.vpp.Call(ctx, addressModule, &interfaces_api.SwInterfaceSetUnnumbered{UnnumberedSwIfIndex: i}, &interfaces_api.SwInterfaceSetUnnumberedReply{})
	if addrs, ownErr := own.Wait(ctx); err != nil || ownErr != nil || len(addrs) > 0 {
		return errors.Join(err, ownErr)
	}
	err = v.vpp.Call(ctx, addressModule, &ip.SwInterfaceIP6EnableDisable{SwIfIndex: i}, &ip.SwInterfaceIP6EnableDisableReply{})
	if vppapi.Refused(err, api.IP6_NOT_ENABLED) {
		return nil
	}
	return err
}

// borrowers returns unnumbered interfaces: one, or all (^0).
func (v *Interfaces) borrowers(ctx context.Context, i ownership.Index) ([]*ip.IPUnnumberedDetails, error) {
	return session.Dump[ip.IPUnnumberedDetails](ctx, v.vpp, addressModule, &ip.IPUnnumberedDump{SwIfIndex: i})
}

func (v *Interfaces) startIPv6Addresses(ctx context.Context, i ownership.Index) *session.Pending[ip.IPAddressDetails, *ip.IPAddressDetails] {
	return session.StartDump[ip.IPAddressDetails](ctx, v.vpp, addressModule, &ip.IPAddressDump{SwIfIndex: i, IsIPv6: true})
}

// startIPv6 makes an interface that borrows an IPv6 address answer neighbour solicitations, which
// VPP does by itself only for own addresses. VPP counts the calls.
func (v *Interfaces) startIPv6(ctx context.Context, i ownership.Index) error {
	err := v.vpp.Call(ctx, addressModule, &ip.SwInterfaceIP6GetLinkLocalAddress{SwIfIndex: i}, &ip.SwInterfaceIP6GetLinkLocalAddressReply{})
	if !vppapi.Refused(err, api.IP6_NOT_ENABLED) {
		return err
	}
	return v.vpp.Call(ctx, addressModule, &ip.SwInterfaceIP6EnableDisable{SwIfIndex: i, Enable: true}, &ip.SwInterfaceIP6EnableDisableReply{})
}

// startBorrowersIPv6 does so for all borrowers of a lender.
func (v *Interfaces) startBorrowersIPv6(ctx context.Context, lender ownership.Index) error {
	all, err := v.borrowers(ctx, ownership.NoIndex)
	for _, d := range all {
		if d.IPSwIfIndex == lender {
			err = errors.Join(err, v.startIPv6(ctx, d.SwIfIndex))
		}
	}
	return err
}

// UnsetUnnumbered also moves the interface back into VRF 0.
func (v *Interfaces) UnsetUnnumbered(ctx context.Context, iface string) error {
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error {
		if err := v.unsetUnnumbered(ctx, i); err != nil {
			return err
		}
		return v.setTables(ctx, i, 0, vswitch.IPVersions{V4: true, V6: true})
	})
	if err != nil {
		return fmt.Errorf("making interface %q numbered: %w", iface, err)
	}
	v.hub.Publish(subsystem.Event{Kind: subsystem.AddressesChanged, Interface: iface})
	return nil
}
