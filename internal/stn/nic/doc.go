// Package nic reads the entire configuration of a network card of the host, and restores it.
//
// Addresses and routes are kept as the kernel's messages, so that attributes unknown to this
// package are not lost. A restored message gets the device's present index and the lifetimes that
// remain.
package nic
