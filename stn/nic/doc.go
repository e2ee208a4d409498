// Package nic reads all that a network card of the host has, and gives it back.
//
// Addresses and routes are kept as the messages in which the kernel described them, so that
// nothing gets lost which this package does not know. What a message cannot bring back is
// corrected when it is sent: the index of a device that has been made anew, and lifetimes, which
// went on.
package nic
