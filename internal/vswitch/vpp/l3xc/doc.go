// Package l3xc forwards all packets received by an interface along fixed paths, with VPP's plugin
// l3xc.
package l3xc
