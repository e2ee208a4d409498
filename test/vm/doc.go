// Package vm runs the demo, the conformance suite of the kernel vswitch, the tests of the
// Linux plugin and VPP with TAPs on stock kernels of Debian, in virtual machines without hardware support:
//
//	make test-vm
//
// What each kernel can do ends up in docs/kernels.md.
package vm
