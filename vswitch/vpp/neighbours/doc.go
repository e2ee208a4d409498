// Package neighbours is the neighbours of VPP's interfaces: static entries (neighbours.go),
// VPP's events about them, which it publishes for all subsystems (watch.go), and how long
// VPP keeps those that it has learned (scan.go).
package neighbours
