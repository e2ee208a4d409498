// Package integration tests the main job of Contiv end to end: the real binaries
// in a lab (see test/lab), real CNI calls, real packets.
//
//	TestMain: go build ./cmd/... ──> one lab of two nodes ──> tests, one at a time ──> down, nothing left
//
// After each test the nodes must be quiet: every value of every agent's scheduler
// is configured, and a resync with the kernel finds nothing to do.
package integration
