// Package dhcp drives VPP's plugin dhcp: clients and their leases (client.go), and proxies
// (proxy.go).
package dhcp
