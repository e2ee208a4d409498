// Package podguard keeps pods and other attached interfaces from spoofing packets, with nftables:
//
//	packet from a pod ──> guard-arp: sources     ARP: sender's MAC and IP address
//	                  └─> guard: sources         before reassembly and connection tracking
//	                        ├─> guarded          MAC and IP address, neighbour discovery
//	                        ├─> vswitch          other devices of the vswitch: accepted
//	                        ├─> tunnel-end       VXLAN of peers is not tracked
//	                        │ other devices:     not with a pod's source, unless the sender is the next
//	                        │                    hop to the pod, see uplink.go
//	                        v
//	                      guard: connections     known connections: accepted
//	                        │                    ICMP errors, see errors.go; new connections: limit, timeouts
//	                        ├─> guard: local     VXLAN to the node: only from tunnel peers, see tunnels.go
//	                        └─> guard: sent      VXLAN of pods to peers: dropped, because the peer would
//	                                             accept it with a translated source
//
// Each address of a pod is a set element with the name of its device. So the cost of a packet does
// not depend on the number of pods, and the elements exist before the device, which is never
// unguarded. Dropped packets are counted in sets by device and reason.
//
// When the last guard of an address is removed, its connections are deleted, because the address
// will be assigned to another pod.
//
// Comments of rules contain a hash of their text, and elements the name of their device. All state
// is read back from the kernel.
package podguard
