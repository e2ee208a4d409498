// Package l2 is VPP's layer 2: bridge domains (bridges.go), their FIBs (fib.go) and
// cross-connects (xconnects.go), the ports vswitch.Bridges, vswitch.FIB and XConnects.
package l2
