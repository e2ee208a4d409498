// Package vm runs the demo, the conformance suite of the kernel vswitch, the tests of the Linux
// plugin and VPP with TAPs on Debian's kernels, in virtual machines without hardware support:
//
//	make test-vm
//
// It writes the features of each kernel to docs/design/kernels.md.
package vm
