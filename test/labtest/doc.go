// Package labtest is the shared harness of tests that run the real binaries: Main builds them, Up
// makes labs (see test/lab) for a test, RequireQuiet checks that agents have nothing to do.
//
//	TestMain: go build ./cmd/... ──> tests, each with a lab or all with one ──> down, nothing left
package labtest
