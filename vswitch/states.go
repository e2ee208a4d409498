package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
)

// States are the states of the interfaces in use, by logical name: those that were
// created, and existing devices that were taken into use.
type States interface {
	// List returns the states, with counters. Name, type, admin_status and oper_status
	// are always there; of the rest, what the vswitch knows. last_change is not: who
	// keeps states knows when they changed.
	List(ctx context.Context) ([]*vpp_interfaces.InterfaceState, error)

	// Watch makes the vswitch report the state of an interface, without counters, when
	// anything in it may have changed, whoever did it; and an interface that is gone,
	// with its name, DELETED in both fields. What comes from outside is reported while
	// VSwitch.Watch runs. Changes that follow each other fast may be reported as one.
	// report is never called concurrently, must not block and must not call the vswitch.
	Watch(report func(states ...*vpp_interfaces.InterfaceState))
}
