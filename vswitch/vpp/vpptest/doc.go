// Package vpptest is VPP's control plane for tests: a server that speaks the binary API
// over a Unix socket, with VPP's framing, message table and errors, and keeps the state
// that requests make. It forwards no packets.
//
//	driver ──socket──> server ──> handlers, one file an area, as in VPP's API files
//	                                └─> state, gone with Restart
//
// It is kept honest by the tests of the driver, which run unchanged against a real VPP
// (make test-vpp): what the two answer differently is a defect of this package.
package vpptest
