package l2

import (
	"strings"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bridge domains are compared often, and in a large cluster they have a port per node. So the
// comparison copies nothing and allocates only if the parts differ in order.

// equivalentBD compares bridge domains, ignoring the order of their parts.
func equivalentBD(a, b *vpp_l2.BridgeDomain) bool {
	return sameParametersOfBD(a, b) &&
		descriptor.SameParts(a.GetInterfaces(), b.GetInterfaces(), bdInterfaceOf) &&
		descriptor.SameParts(a.GetArpTerminationTable(), b.GetArpTerminationTable(), bdARPOf)
}

// sameParametersOfBD compares the fields that need a new bridge domain: all except its parts.
func sameParametersOfBD(a, b *vpp_l2.BridgeDomain) bool {
	left, right := a.ProtoReflect(), b.ProtoReflect()
	fields := left.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !field.IsList() && !left.Get(field).Equal(right.Get(field)) {
			return false
		}
	}
	return sameUnknown(left, right)
}

func sameUnknown(a, b protoreflect.Message) bool {
	return string(a.GetUnknown()) == string(b.GetUnknown())
}

// bdInterface holds the relevant fields of an interface in a bridge domain.
type bdInterface struct {
	name         string
	bvi          bool
	splitHorizon uint32
}

// bdInterfaceOf ignores the split horizon group of a bridge domain's virtual interface, where it
// has no effect.
func bdInterfaceOf(iface *vpp_l2.BridgeDomain_Interface) bdInterface {
	i := bdInterface{iface.GetName(), iface.GetBridgedVirtualInterface(), iface.GetSplitHorizonGroup()}
	if i.bvi {
		i.splitHorizon = 0
	}
	return i
}

// bdARP is an entry of the ARP termination table.
type bdARP struct{ ip, mac string }

func bdARPOf(entry *vpp_l2.BridgeDomain_ArpTerminationEntry) bdARP {
	return bdARP{entry.GetIpAddress(), strings.ToLower(entry.GetPhysAddress())}
}
