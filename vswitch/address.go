package vswitch

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// addressDescriptor handles vpp/interface/{if}/address/{source}/{addr}, derived
// from interfaces: an address is assigned once its interface is in its VRF. Those
// that are derived from DHCP leases are obtained: nothing is done for them.
func addressDescriptor(port Interfaces) kvscheduler.Descriptor[*emptypb.Empty, noMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, noMeta]{
		Name: AddressDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isAddressKey,
			Example: models.VPPInterfaceAddressKey("if", models.AddrStatic, "10.0.0.1/24"),
		},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (noMeta, error) {
			return noMeta{}, withAddress(key, func(iface string, addr netip.Prefix) error {
				return port.AddAddress(ctx, iface, addr)
			})
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ noMeta) error {
			return withAddress(key, func(iface string, addr netip.Prefix) error {
				return port.DeleteAddress(ctx, iface, addr)
			})
		},
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			iface, _, _ := parseAddressKey(key)
			return []kvscheduler.Dependency{inSomeVRF(iface)}
		},
	}
}

func withAddress(key string, do func(iface string, addr netip.Prefix) error) error {
	iface, addr, ok := parseAddressKey(key)
	if !ok {
		return fmt.Errorf("%q is no key of an interface address", key)
	}
	return do(iface, addr)
}

// inSomeVRF waits until the interface is assigned to a VRF.
func inSomeVRF(iface string) kvscheduler.Dependency {
	return kvscheduler.Dependency{
		Label: "interface-assigned-to-vrf-table",
		AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceVRFPrefix(iface)}},
	}
}
