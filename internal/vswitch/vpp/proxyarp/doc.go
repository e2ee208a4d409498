// Package proxyarp drives VPP's proxy ARP: address ranges, and interfaces that answer for them.
package proxyarp
