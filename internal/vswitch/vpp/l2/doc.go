// Package l2 drives VPP's layer 2: bridge domains (bridges.go), their FIBs (fib.go) and
// cross-connects (xconnects.go). It implements vswitch.Bridges, vswitch.FIB and XConnects.
package l2
