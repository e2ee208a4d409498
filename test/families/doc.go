// Package families tests the models of the vswitch and those of Linux together, on the
// kernel as vswitch: the two drivers share network namespaces, and must leave each
// other's objects alone.
package families
