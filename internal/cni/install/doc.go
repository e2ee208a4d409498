// Package install installs and removes contiv-cni on a node.
//
//	program ──copy──> <bin dir>/contiv-cni
//	                        │  then, when the agent is ready:
//	conflist ──────────────>└──> <net dir>/10-contiv-vpp.conflist
//
// A node is ready for pods once the runtime finds the conflist. So the conflist is installed last
// and removed first. Both files are replaced atomically, by renaming a temporary file that runtimes
// ignore.
package install
