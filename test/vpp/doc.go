// Package vpp tests clusters whose nodes forward with VPP, and with VPP beside the Linux
// kernel: the real binaries in a lab (see test/lab) with a real VPP, real packets. It needs
// VPP 25.10: make test-vpp VPP_BIN=/usr/bin/vpp.
//
//	TestMain: go build ./cmd/... ──> a lab with VPP on all nodes, one with VPP and the kernel
//	──> tests, one at a time ──> down, nothing left
package vpp
