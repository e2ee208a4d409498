// Package datapath compares the packets of pods with networks made by hand with ip, on the same
// kernel, in turns:
//
//	lab of two nodes    pod ──veth── node1 ──vxlan── underlay ──vxlan── node2 ──veth── pod
//	made by hand        the same links, static routes and no nftables
//	bridge, routed      two pods of one node
//
// It measures TCP streams, requests and responses, new connections, and the CPU time of the machine.
// Run it as root, on a machine that does nothing else:
//
//	make bench-datapath
//
// DATAPATH_ROUNDS and DATAPATH_TIME set the number of rounds and the duration of a measurement. A
// ratio is the median of the rounds, with the smallest and the largest one.
package datapath
