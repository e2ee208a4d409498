package vswitch

import (
	"strconv"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// registerInterfaceOptions registers options of interfaces that some vswitches have
// nothing for. They are values of their own, so that the interface works without.
func registerInterfaceOptions(r *registrar, f Features) {
	option[*vpp_interfaces.Interface](r, f, RxModesDescriptor, kvscheduler.KeySpace{
		Prefix: derivedPrefix, Match: isRxModesKey, Example: models.RxModesKey("if"),
	})
	option[*vpp_interfaces.Interface_RxPlacement](r, f, RxPlacementDescriptor, kvscheduler.KeySpace{
		Prefix: derivedPrefix, Match: isRxPlacementKey, Example: models.RxPlacementKey("if", 0),
	})
}

// option registers an option that no vswitch has a port for; others are extras.
func option[V proto.Message](r *registrar, f Features, name string, keys kvscheduler.KeySpace) {
	extra(r, f, false, kvscheduler.Descriptor[V, noMeta]{Name: name, Keys: keys})
}

// optionsOfInterface derives a value of each option that is set.
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

// isOtherInterfaceKey tells keys with the name of an interface at their end, which may
// look like anything.
func isOtherInterfaceKey(key string) bool {
	return isAddressKey(key) || isVRFKey(key) || isUnnumberedKey(key) || isDHCPClientKey(key) || isDHCPLeaseKey(key) || isIP6NDKey(key)
}
