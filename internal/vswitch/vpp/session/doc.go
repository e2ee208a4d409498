// Package session is the driver's connection to VPP. It reconnects whenever the connection ends,
// and requests declare the part of VPP's API that they need.
//
//	subsystem ──Call, Dump, StartDump, CallAll, Batch──> Session ──Use(module)──> Link ──> vppapi.Conn ──socket──> VPP
//	                                                       │  └ dials again when the connection ends
//	                                                       └ Opened, Changed, Beside: hooks of the wiring
//
// Guarantees:
//
//   - A request is sent once. If the connection ends before its reply, the caller at once
//     gets an error that matches vppapi.ErrClosed. It does not know whether VPP has handled
//     the request and must read back.
//   - VPP handles the requests of one session in the order in which they were started,
//     even after failed requests.
//   - A reply that refuses a request is a *vppapi.ReplyError with VPP's code.
//   - A module whose plugin is not loaded, or whose messages are of another release, gives
//     an error that matches kvscheduler.ErrUnsupported. Using a module that the session was
//     not started with panics.
//   - Every call ends with its context. The connection to a VPP that does not answer for
//     Timeout is closed.
//   - Events are delivered one by one by the goroutine that reads the connection. Handlers
//     must not call VPP. Events between two connections are lost; Changed reports that.
//
// vpptest serves the same protocol with injected faults: refusals, delays, lost events and closed
// connections at any request (vpptest.Fault).
package session
