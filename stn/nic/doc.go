// Package nic reads the entire configuration of a network card of the host, and restores it.
//
// Addresses and routes are kept as the kernel's messages, so that attributes unknown to this package
// are not lost. Two things are corrected when a message is sent back: the index of a device that was
// created again, and lifetimes, which have gone on.
package nic
