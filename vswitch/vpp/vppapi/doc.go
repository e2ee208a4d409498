// Package vppapi speaks VPP's binary API over its Unix socket, with the messages
// that GoVPP generates. It is the transport only:
//
//	request ──Send──> writer ──socket──> VPP
//	reply   <──────── reader <──────────
//
// Requests are pipelined: many may be under way, and VPP answers them in their order.
// Each has a number of its own (the context), by which replies find it. When the
// connection ends, whatever waits gets an error at once.
//
// GoVPP's own connection (its package core) is not used, see docs/adr.
package vppapi
