// Package labtest is what tests share that run the real binaries: Main builds them, Up
// makes labs (see test/lab) that end with a test, RequireQuiet asks if all is done.
//
//	TestMain: go build ./cmd/... ──> tests, each with a lab or all with one ──> down, nothing left
package labtest
