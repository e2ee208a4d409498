package subsystem

import (
	"fmt"
	"net/netip"

	"go.fd.io/govpp/binapi/ethernet_types"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
)

// Kind is the kind of an event.
type Kind int

// Kinds of events, with the fields of Event that they set in addition to the interface.
const (
	InterfaceDeleted Kind = iota + 1 // by others or by us
	InterfaceState                   // Up: its administrative state was read
	AddressesChanged                 // by us or by a lease
	NeighbourRemoved                 // IP
	NeighbourChanged                 // IP, MAC
)

// Event is a change in VPP, for all subsystems that it may concern.
type Event struct {
	Kind Kind
	// Interface is the logical name, "" for a foreign interface. Neighbour events set Index.
	Interface string
	Index     ownership.Index
	Up        bool
	IP        netip.Addr
	MAC       ethernet_types.MacAddress
}

// String formats the event as a drift reason.
func (e Event) String() string {
	switch e.Kind {
	case InterfaceDeleted:
		return fmt.Sprintf("interface %s was deleted", e.Interface)
	case InterfaceState:
		return fmt.Sprintf("interface %s was put up or down", e.Interface)
	case AddressesChanged:
		return fmt.Sprintf("the addresses of interface %s have changed", e.Interface)
	case NeighbourRemoved:
		return fmt.Sprintf("neighbour %s of interface %s was removed", e.IP, e.Interface)
	case NeighbourChanged:
		return fmt.Sprintf("neighbour %s of interface %s was changed", e.IP, e.Interface)
	}
	return fmt.Sprintf("event %d of interface %s", e.Kind, e.Interface)
}
