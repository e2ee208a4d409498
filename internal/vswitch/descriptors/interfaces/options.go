package interfaces

import (
	"context"
	"strconv"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// linkIsUp is a dependency on the link, because queues exist only while it is up.
func linkIsUp(iface string) []kvscheduler.Dependency {
	return []kvscheduler.Dependency{{Label: "interface-link-is-UP", Key: models.LinkStateKey(iface, true)}}
}

// rxModesDescriptor handles vpp/interface/{if}/rx-modes, derived from interfaces with
// rx_modes.
func rxModesDescriptor(port vswitch.RxQueues) kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta] {
	set := func(ctx context.Context, iface *vpp_interfaces.Interface) (descriptor.NoMeta, error) {
		return descriptor.NoMeta{}, port.SetModes(ctx, iface.GetName(), iface.GetRxModes())
	}
	return kvscheduler.Descriptor[*vpp_interfaces.Interface, descriptor.NoMeta]{
		Name: vswitch.RxModesDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: derivedPrefix, Match: isRxModesKey, Example: models.RxModesKey("if")},
		Create: func(ctx context.Context, _ string, iface *vpp_interfaces.Interface) (descriptor.NoMeta, error) {
			return set(ctx, iface)
		},
		Update: func(ctx context.Context, _ string, _, iface *vpp_interfaces.Interface, _ descriptor.NoMeta) (descriptor.NoMeta, error) {
			return set(ctx, iface)
		},
		Delete: func(ctx context.Context, _ string, iface *vpp_interfaces.Interface, _ descriptor.NoMeta) error {
			return port.UnsetModes(ctx, iface.GetName())
		},
		Dependencies: func(_ string, iface *vpp_interfaces.Interface) []kvscheduler.Dependency {
			return linkIsUp(iface.GetName())
		},
	}
}

// rxPlacementDescriptor handles vpp/interface/{if}/rx-placement/queue/{queue}, derived
// from interfaces with rx_placements.
func rxPlacementDescriptor(port vswitch.RxQueues) kvscheduler.Descriptor[*vpp_interfaces.Interface_RxPlacement, descriptor.NoMeta] {
	place := func(ctx context.Context, key string, p *vpp_interfaces.Interface_RxPlacement) (descriptor.NoMeta, error) {
		return descriptor.NoMeta{}, port.Place(ctx, ifaceOfRxPlacement(key), p)
	}
	return kvscheduler.Descriptor[*vpp_interfaces.Interface_RxPlacement, descriptor.NoMeta]{
		Name:   vswitch.RxPlacementDescriptor,
		Keys:   kvscheduler.KeySpace{Prefix: derivedPrefix, Match: isRxPlacementKey, Example: models.RxPlacementKey("if", 0)},
		Create: place,
		Update: func(ctx context.Context, key string, _, p *vpp_interfaces.Interface_RxPlacement, _ descriptor.NoMeta) (descriptor.NoMeta, error) {
			return place(ctx, key, p)
		},
		Delete: descriptor.NoopDelete[*vpp_interfaces.Interface_RxPlacement],
		Dependencies: func(key string, _ *vpp_interfaces.Interface_RxPlacement) []kvscheduler.Dependency {
			return linkIsUp(ifaceOfRxPlacement(key))
		},
	}
}

func ifaceOfRxPlacement(key string) string {
	iface, _, _ := cutLast(key, "/rx-placement/queue/")
	return strings.TrimPrefix(iface, derivedPrefix)
}

// optionsOfInterface derives a value for each set option.
func optionsOfInterface(iface *vpp_interfaces.Interface) (derived []kvscheduler.KeyValue) {
	name := iface.GetName()
	if nd := iface.GetIp6Nd(); nd != nil {
		derived = append(derived, kvscheduler.KeyValue{Key: models.IP6NDKey(name), Value: nd})
	}
	if modes := iface.GetRxModes(); len(modes) > 0 {
		value := &vpp_interfaces.Interface{Name: name, Type: iface.GetType(), RxModes: modes}
		derived = append(derived, kvscheduler.KeyValue{Key: models.RxModesKey(name), Value: value})
	}
	for _, p := range iface.GetRxPlacements() {
		derived = append(derived, kvscheduler.KeyValue{Key: models.RxPlacementKey(name, p.GetQueue()), Value: p})
	}
	for _, member := range iface.GetBond().GetBondedInterfaces() {
		derived = append(derived, kvscheduler.KeyValue{Key: models.BondMemberKey(name, member.GetName()), Value: member})
	}
	return derived
}

// isRxModesKey: vpp/interface/{if}/rx-modes
func isRxModesKey(key string) bool {
	iface, ok := strings.CutSuffix(key, "/rx-modes")
	return ok && len(iface) > len(derivedPrefix) && !isOtherInterfaceKey(key)
}

// isRxPlacementKey: vpp/interface/{if}/rx-placement/queue/{queue}
func isRxPlacementKey(key string) bool {
	_, queue, ok := cutLast(key, "/rx-placement/queue/")
	_, err := strconv.ParseUint(queue, 10, 32)
	return ok && err == nil && !isOtherInterfaceKey(key)
}

// isOtherInterfaceKey matches keys that end with an interface name, which may look like anything.
func isOtherInterfaceKey(key string) bool {
	return isAddressKey(key) || isVRFKey(key) || isUnnumberedKey(key) || isDHCPClientKey(key) || isDHCPLeaseKey(key) || isIP6NDKey(key)
}
