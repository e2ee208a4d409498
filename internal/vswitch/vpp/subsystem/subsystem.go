// Package subsystem is the contract between the parts of the driver, each for one plugin of VPP,
// and the wiring that builds a vswitch from them.
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
// No subsystem imports another. A subsystem that needs another declares a narrow interface in its
// own package, which the wiring in internal/vswitch/vpp satisfies.
package subsystem

import (
	"context"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
)

// Subsystem is the part of the driver for one plugin of VPP. The ports that it implements
// (vswitch.NAT, vswitch.ACLs, …) return the present state from List and Find, which change nothing
// in VPP.
type Subsystem interface {
	// Modules are the parts of VPP's API that the subsystem uses.
	Modules() []*session.Module

	// Opened prepares a new connection before it is used: it discards state of the previous VPP and
	// subscribes to events. An error closes the connection.
	Opened(ctx context.Context, l *session.Link) error

	// Concerns returns the keys of the northbound values whose state may be affected by an event;
	// nil if none. It must not call VPP or block: events arrive on the goroutine that reads the
	// connection.
	Concerns(e Event) (keys []string)

	// Follow handles events that require requests to VPP, and polls objects without events. It
	// returns when ctx ends, or at once if it has nothing to follow.
	Follow(ctx context.Context)
}

// Base is a Subsystem without connection state and events. Others embed it and override methods.
type Base struct{ Uses []*session.Module }

// Modules implements Subsystem.
func (b Base) Modules() []*session.Module { return b.Uses }

// Opened implements Subsystem.
func (Base) Opened(context.Context, *session.Link) error { return nil }

// Concerns implements Subsystem.
func (Base) Concerns(Event) []string { return nil }

// Follow implements Subsystem.
func (Base) Follow(context.Context) {}
