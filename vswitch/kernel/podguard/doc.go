// Package podguard keeps pods and other attached interfaces from spoofing packets, with nftables:
//
//	packet from a pod ──> guard-arp: sources     ARP: sender's MAC and IP address
//	                  └─> guard: sources         MAC and IP address, neighbour discovery; before
//	                        │                    fragments are reassembled and connections tracked;
//	                        │                    by the uplink: not with the source of a pod
//	                        v
//	                      guard: connections     ICMP errors, see errors.go; those that open a connection: limit, time-outs
//	                        ├─> guard: local     VXLAN for the node: from peers of a tunnel, see tunnels.go
//	                        └─> guard: forwarded VXLAN of pods to peers: dropped, because the peer would
//	                                             accept it after the translation of its source
//
// Each address of a pod is one set element, keyed by the name of its device as well. The cost of a
// packet is therefore independent of the number of pods, and the elements exist before the device
// does, so that it is never unguarded. Dropped packets are counted in a set by device and reason.
//
// The kernel forgets the connections of addresses that no guard has any more: they are given to others.
//
// Rules are recognised by comments that contain a hash of their text, elements by the name of their
// device. Everything is read back from the kernel.
package podguard
