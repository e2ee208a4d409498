// Package vpp tests clusters with VPP nodes, and with VPP and kernel nodes: real binaries and a
// real VPP in a lab (see test/lab), real packets. It needs VPP 25.10: make test-vpp
// VPP_BIN=/usr/bin/vpp.
//
//	TestMain: go build ./cmd/... ──> a lab with VPP on all nodes, one with VPP and the kernel
//	──> tests, one at a time ──> down, nothing left
package vpp
