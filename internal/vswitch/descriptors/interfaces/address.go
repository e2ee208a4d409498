package interfaces

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// addressDescriptor handles vpp/interface/{if}/address/{source}/{addr}, derived from interfaces. An
// address is assigned once its interface is in its VRF. Addresses derived from DHCP leases are
// obtained and need no operation.
func addressDescriptor(port vswitch.Interfaces, alloc *netalloc.Resolver) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.AddressDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isAddressKey,
			Example: models.VPPInterfaceAddressKey("if", models.AddrStatic, "10.0.0.1/24"),
		},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, withAddress(key, alloc, func(iface string, addr netip.Prefix) error {
				return port.AddAddress(ctx, iface, addr)
			})
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ descriptor.NoMeta) error {
			err := withAddress(key, alloc, func(iface string, addr netip.Prefix) error {
				return port.DeleteAddress(ctx, iface, addr)
			})
			if errors.Is(err, netalloc.ErrNotAllocated) {
				return nil // never assigned
			}
			return err
		},
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			iface, text, _ := parseAddressKey(key)
			return append([]kvscheduler.Dependency{inVRFOf(iface, text)}, netalloc.Dependency("address", text, iface)...)
		},
	}
}

func withAddress(key string, alloc *netalloc.Resolver, do func(iface string, addr netip.Prefix) error) error {
	iface, text, ok := parseAddressKey(key)
	if !ok {
		return fmt.Errorf("%q is no key of an interface address", key)
	}
	text, err := alloc.WithMask(text, iface)
	if err != nil {
		return err
	}
	addr, err := netip.ParsePrefix(text)
	if err != nil {
		return err
	}
	return do(iface, addr)
}

// inVRFOf waits until the interface is in a VRF of the address's IP version.
func inVRFOf(iface, addr string) kvscheduler.Dependency {
	dep := inSomeVRF(iface)
	if prefix, err := netip.ParsePrefix(addr); err == nil {
		dep.AnyOf.KeySelector = func(key string) bool {
			k, err := parseVRFKey(key)
			return err == nil && (k.lender != "" || prefix.Addr().Is4() && k.versions.V4 || prefix.Addr().Is6() && k.versions.V6)
		}
	}
	return dep
}

// inSomeVRF waits until the interface is in a VRF.
func inSomeVRF(iface string) kvscheduler.Dependency {
	return kvscheduler.Dependency{
		Label: "interface-assigned-to-vrf-table",
		AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceVRFPrefix(iface)}},
	}
}
