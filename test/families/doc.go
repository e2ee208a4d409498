// Package families tests the models of the vswitch and of Linux together, on the kernel vswitch:
// the two drivers share network namespaces and must leave each other's objects alone.
package families
