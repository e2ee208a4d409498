package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// States are the states of the interfaces in use, by logical name: created interfaces and adopted
// devices.
type States interface {
	// List returns the states, with counters. Name, type, admin_status and oper_status are always
	// set, other fields if known. last_change is unset: the caller tracks changes.
	List(ctx context.Context) ([]*vpp_interfaces.InterfaceState, error)

	// Watch registers an observer of interface states, without counters. It is called after
	// possible changes by any party; a deleted interface is reported with its name and DELETED in
	// both status fields. Foreign changes are reported while VSwitch.Watch runs. Rapid changes may
	// be merged. report is never called concurrently, must not block and must not call the vswitch.
	Watch(report func(states ...*vpp_interfaces.InterfaceState))
}
