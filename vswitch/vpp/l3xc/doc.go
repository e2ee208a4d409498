// Package l3xc forwards all that an interface receives along fixed paths, by VPP's plugin
// l3xc.
package l3xc
