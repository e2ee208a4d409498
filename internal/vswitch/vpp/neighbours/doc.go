// Package neighbours drives VPP's neighbours: static entries (neighbours.go), events for all
// subsystems (watch.go), and the lifetime of learned entries (scan.go).
package neighbours
