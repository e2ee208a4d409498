// Package dhcp is VPP's plugin dhcp: clients of interfaces and their leases (client.go), and
// proxies (proxy.go).
package dhcp
