// Package hostdev is the network namespace of the VPP process: the devices that VPP attaches to,
// kept from the host's own stack while they are VPP's, and given back.
package hostdev
