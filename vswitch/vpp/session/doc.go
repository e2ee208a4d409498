// Package session is the driver's connection to VPP. It reconnects whenever the connection ends,
// and requests declare which part of VPP's API they need.
//
//	subsystem ──Call, Dump, StartDump, CallAll, Batch──> Session ──Use(module)──> Link ──> vppapi.Conn ──socket──> VPP
//	                                                       │  └ dials again, for ever, when the connection ends
//	                                                       └ Opened, Changed, Beside: what the wiring hangs on it
//
// What callers may rely on:
//
//   - A request is sent once. If the connection ends before its reply, the caller gets an
//     error that matches vppapi.ErrClosed at once and does not know whether VPP has handled
//     the request; it must read back.
//   - VPP handles the requests of one session in the order in which they were started,
//     whatever became of those before.
//   - A reply that refuses a request is a *vppapi.ReplyError with VPP's code.
//   - A module that VPP lacks, because its plugin is not loaded or its messages are of
//     another release, is an error that matches kvscheduler.ErrUnsupported. Using a module
//     that the session was not started with panics.
//   - Every call ends with its context. A VPP that does not answer at all for Timeout is
//     given up, which ends the connection.
//   - Events are handed over one by one, by the goroutine that reads the connection: who
//     gets one must not call VPP before it returns. Events of the time between two
//     connections are lost; Changed says so.
//
// vpptest serves the same protocol and can be told to break each of these: to refuse, to
// delay, to lose events and to cut the connection at any request (vpptest.Fault).
package session
