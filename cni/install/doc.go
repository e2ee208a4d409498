// Package install puts contiv-cni on a node, and takes it away.
//
//	program ──copy──> <bin dir>/contiv-cni
//	                        │  then, when the agent is ready:
//	conflist ──────────────>└──> <net dir>/10-contiv-vpp.conflist
//
// A node counts as ready for pods once a runtime finds the conflist, so that is
// the last thing to come and the first to go. Both files appear and change as a
// whole: they are written under another name, which runtimes ignore, and renamed.
package install
