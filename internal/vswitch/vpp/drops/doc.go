// Package drops captures packets that VPP drops, on request.
//
//	VPP ──error-drop──> capture, in memory ──off──> file in /tmp ──> Packets
//
// Only the dropping node captures, so forwarded packets cost nothing, and the capture between two
// reads is bounded. VPP supports one capture at a time: while an operator's capture runs, ours does
// not.
package drops
