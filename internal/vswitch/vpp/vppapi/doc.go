// Package vppapi implements the transport of VPP's binary API over its Unix socket, for the
// messages that GoVPP generates:
//
//	request ──Send──> writer ──socket──> VPP
//	reply   <──────── reader <──────────
//
// Requests are pipelined: VPP answers them in order, and a number (the context) matches replies.
// When the connection ends, all pending requests fail at once.
//
// docs/design/adr explains why GoVPP's own connection (its package core) is not used.
package vppapi
