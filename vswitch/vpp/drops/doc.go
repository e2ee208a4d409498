// Package drops captures packets that VPP drops, while somebody wants to see them.
//
//	VPP ──error-drop──> capture, in memory ──off──> file in /tmp ──> Packets
//
// Packets that VPP forwards cost nothing more, because only the node that drops captures; and what
// it captures between two readings is bounded. VPP has one capture at a time: while an operator has
// one, there is none of ours.
package drops
