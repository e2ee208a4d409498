// Package podguard keeps what is attached to the node from fooling it, with nftables:
//
//	packet from a pod ──> guard-arp: sources     ARP: sender's MAC and IP address
//	                  └─> guard: sources         MAC and IP address, neighbour discovery; before
//	                        │                    fragments are reassembled and connections tracked
//	                        v
//	                      guard: connections     those that open a connection: limit, time-outs
//	                        ├─> guard: local     VXLAN for the node: from peers of a tunnel only
//	                        └─> guard: forwarded VXLAN of pods for other nodes, which would take it
//	                                             for the node's own once its source is translated
//
// What a pod may send is one element of a set for each of its addresses, with the name of
// its device as part of the key: a packet costs the same however many pods there are, and
// elements are there before the device is, so that there is no moment without them.
// Whatever is dropped is counted in a set by device and reason.
//
// Rules are known by comments that contain a hash of what they say, elements by the
// name of their device; everything is read back from the kernel.
package podguard
