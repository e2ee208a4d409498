// Package vpptest simulates VPP's control plane for tests: a server that speaks the binary API over
// a Unix socket, with VPP's framing, message table and errors, and keeps the configured state. It
// forwards no packets.
//
//	driver ──socket──> server ──> handlers, one file an area, as in VPP's API files
//	                                └─> state, gone with Restart
//
// The driver's tests run unchanged against a real VPP (make test-vpp). A difference between the two
// is a defect of this package.
package vpptest
