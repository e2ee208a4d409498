package interfaces

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

var addressModule = session.NewModule("", "addresses of interfaces",
	&interfaces_api.SwInterfaceAddDelAddress{}, &interfaces_api.SwInterfaceAddDelAddressReply{},
	&interfaces_api.SwInterfaceSetTable{}, &interfaces_api.SwInterfaceSetTableReply{},
	&interfaces_api.SwInterfaceGetTable{}, &interfaces_api.SwInterfaceGetTableReply{},
	&interfaces_api.SwInterfaceSetUnnumbered{}, &interfaces_api.SwInterfaceSetUnnumberedReply{},
	&ip.IPAddressDump{}, &ip.IPAddressDetails{},
	&ip.IPUnnumberedDump{}, &ip.IPUnnumberedDetails{},
	&ip.SwInterfaceIP6GetLinkLocalAddress{}, &ip.SwInterfaceIP6GetLinkLocalAddressReply{},
	&ip.SwInterfaceIP6EnableDisable{}, &ip.SwInterfaceIP6EnableDisableReply{},
)

func (v *Interfaces) AddAddress(ctx context.Context, iface string, addr netip.Prefix) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.addDelAddress(ctx, i, addr, true)
		// The codes for IPv4 and IPv6. The other interface with the address may be this one.
		if vppapi.Refused(err, api.ADDRESS_IN_USE, api.DUPLICATE_IF_ADDRESS) {
			if has, dumpErr := v.hasAddress(ctx, i, addr); dumpErr == nil && has {
				err = nil
			} else if dumpErr == nil {
				err = fmt.Errorf("it overlaps with the network of another address in the same VRF: %w", err)
			}
		}
	}
	if err == nil && addr.Addr().Is6() {
		err = v.startBorrowersIPv6(ctx, i)
	}
	if err == nil {
		err = v.onAddress(ctx, i, addr.Addr())
	}
	if err != nil {
		return fmt.Errorf("assigning address %s to interface %q: %w", addr, iface, err)
	}
	v.hub.Publish(subsystem.Event{Kind: subsystem.AddressesChanged, Interface: iface})
	return nil
}

// isLinkLocal reports whether an address is link-local. VPP has one per interface, without prefix
// length, and does not list it.
func isLinkLocal(addr netip.Addr) bool { return addr.Is6() && addr.IsLinkLocalUnicast() }

func (v *Interfaces) addDelAddress(ctx context.Context, i ownership.Index, addr netip.Prefix, add bool) error {
	if isLinkLocal(addr.Addr()) {
		addr = netip.PrefixFrom(addr.Addr(), 128)
	}
	return v.vpp.Call(ctx, addressModule, &interfaces_api.SwInterfaceAddDelAddress{
		SwIfIndex: i, IsAdd: add,
		Prefix: ip_types.AddressWithPrefix(convert.Prefix(addr)),
	}, &interfaces_api.SwInterfaceAddDelAddressReply{})
}

func (v *Interfaces) hasAddress(ctx context.Context, i ownership.Index, addr netip.Prefix) (bool, error) {
	all, err := session.Dump[ip.IPAddressDetails](ctx, v.vpp, addressModule, &ip.IPAddressDump{SwIfIndex: i, IsIPv6: addr.Addr().Is6()})
	for _, a := range all {
		if convert.NetipPrefix(ip_types.Prefix(a.Prefix)) == addr {
			return true, nil
		}
	}
	return false, err
}

// DeleteAddress keeps link-local addresses. VPP refuses to delete them, and VPP 25.10 crashes if
// the interface has no other IPv6 address left.
func (v *Interfaces) DeleteAddress(ctx context.Context, iface string, addr netip.Prefix) error {
	if isLinkLocal(addr.Addr()) {
		return nil
	}
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error {
		err := v.addDelAddress(ctx, i, addr, false)
		if vppapi.Refused(err, api.ADDRESS_NOT_FOUND_FOR_INTERFACE) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing address %s from interface %q: %w", addr, iface, err)
	}
	v.hub.Publish(subsystem.Event{Kind: subsystem.AddressesChanged, Interface: iface})
	return nil
}

// linkLocal returns the interface's link-local address if it is a wanted one. VPP assigns one to
// each interface.
func linkLocal(wanted []string, has ip_types.IP6Address) (text string, ok bool) {
	for _, text := range wanted {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr() == netip.AddrFrom16(has) {
			return text, true
		}
	}
	return "", false
}

// wantsLinkLocal reports whether a wanted address is link-local.
func wantsLinkLocal(wanted []string) bool {
	return slices.ContainsFunc(wanted, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && isLinkLocal(p.Addr())
	})
}

// SetVRF moves the interface into a VRF. VPP refuses that while it has addresses.
func (v *Interfaces) SetVRF(ctx context.Context, iface string, vrf uint32, versions vswitch.IPVersions) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.setTables(ctx, i, vrf, versions)
	}
	if err != nil {
		return fmt.Errorf("moving interface %q into VRF %d: %w", iface, vrf, err)
	}
	return nil
}

// setTables changes the tables that differ.
func (v *Interfaces) setTables(ctx context.Context, i ownership.Index, vrf uint32, versions vswitch.IPVersions) error {
	l, err := v.vpp.Use(addressModule)
	if err != nil {
		return err
	}
	type read struct {
		v6 bool
		p  *vppapi.Pending
	}
	var reads []read
	for _, v6 := range []bool{false, true} {
		if v6 && versions.V6 || !v6 && versions.V4 {
			reads = append(reads, read{v6, l.Start(ctx, &interfaces_api.SwInterfaceGetTable{SwIfIndex: i, IsIPv6: v6})})
		}
	}
	b := session.NewBatch(l)
	for _, r := range reads {
		var now interfaces_api.SwInterfaceGetTableReply
		if err := r.p.Wait(ctx, &now); err != nil {
			return err
		}
		if now.VrfID != vrf {
			b.Add(ctx, "setting the table", &interfaces_api.SwInterfaceSetTable{SwIfIndex: i, IsIPv6: r.v6, VrfID: vrf}, &interfaces_api.SwInterfaceSetTableReply{})
		}
	}
	return b.Wait(ctx)
}

// UnsetVRF moves the interface back into VRF 0.
func (v *Interfaces) UnsetVRF(ctx context.Context, iface string, _ uint32, versions vswitch.IPVersions) error {
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error { return v.setTables(ctx, i, 0, versions) })
	if err != nil {
		return fmt.Errorf("moving interface %q back into VRF 0: %w", iface, err)
	}
	return nil
}
