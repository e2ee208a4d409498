// Package hostdev accesses the network namespace of the VPP process and the devices that VPP
// attaches to. It shields them from the host's stack while VPP uses them, and returns them.
package hostdev
