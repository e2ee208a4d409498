// Package proxyarp is VPP's proxy ARP: ranges of addresses, and interfaces that answer for
// them.
package proxyarp
