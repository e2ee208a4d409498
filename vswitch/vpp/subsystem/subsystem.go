// Package subsystem is the contract between the parts of the driver, each of which is about
// one plugin of VPP, and the wiring that makes a vswitch of them.
//
//	                      ┌─ Opened: subscribe, forget what was known
//	session ──connection──┤
//	                      └─ Follow: one goroutine each, as long as the session
//
//	VPP's event ──> the subsystem that has subscribed ──Event──> Hub ──Concerns──> every subsystem
//	                                                              │                    │ keys
//	                                                              └──report(reason, keys)──> Watch
//	                                                                                           │
//	      the scheduler reads the keys again with Find of the port, and repairs <──────────────┘
//
// No subsystem imports another one. A subsystem that needs another declares a narrow interface in
// its own package, which the wiring in vswitch/vpp satisfies.
package subsystem

import (
	"context"

	"github.com/contiv/contiv/vswitch/vpp/session"
)

// Subsystem is the part of the driver for one plugin of VPP. The ports that it implements
// (vswitch.NAT, vswitch.ACLs, …) return the present state from List and Find, which change nothing
// in VPP.
type Subsystem interface {
	// Modules are the parts of VPP's API that the subsystem uses.
	Modules() []*session.Module

	// Opened prepares a new connection before anybody can use it: knowledge of the previous VPP is
	// discarded, and events are subscribed to. An error gives the connection up.
	Opened(ctx context.Context, l *session.Link) error

	// Concerns returns the keys of the northbound values that an event concerns, whose state
	// in VPP has to be looked at again; nil: none. It must not ask VPP, nor wait for anything:
	// events arrive on the goroutine that reads the connection.
	Concerns(e Event) (keys []string)

	// Follow handles events that require requests to VPP, and polls objects that VPP sends no
	// events for. It returns when ctx ends, or at once if it has nothing to follow.
	Follow(ctx context.Context)
}

// Base is a Subsystem that keeps nothing of a connection and that no event concerns. Others
// embed it and override what they need.
type Base struct{ Uses []*session.Module }

// Modules implements Subsystem.
func (b Base) Modules() []*session.Module { return b.Uses }

// Opened implements Subsystem.
func (Base) Opened(context.Context, *session.Link) error { return nil }

// Concerns implements Subsystem.
func (Base) Concerns(Event) []string { return nil }

// Follow implements Subsystem.
func (Base) Follow(context.Context) {}
