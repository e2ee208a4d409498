// Package integration tests Contiv end to end: real binaries in a lab (see test/lab), real CNI
// calls, real packets.
//
//	TestMain: go build ./cmd/... ──> one lab of two nodes ──> tests, one at a time ──> down, nothing left
//
// After each test, all values of each agent's scheduler must be configured, and a resync with the
// kernel must do nothing.
package integration
