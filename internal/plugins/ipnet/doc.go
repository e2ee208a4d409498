// Package ipnet computes the network of a node: the northbound configuration that connects its pods
// to each other, to other nodes and to external networks.
//
//	pod                       vswitch                                   other node
//	┌───────────────┐
//	│ eth0 podIP/32 ├─ vpp-tap-<cid> ─┐ route podIP/32, ARP
//	│ default via gw│                 │
//	└───────────────┘  podGwLoop (gw) ┤ pod VRF ── vxlanBVI ─[vxlanBD]─ vxlan-default-<id> ─┐
//	                                  │   route pod subnet of the other node,               │
//	                                  │   its ARP and L2 FIB entry                          │
//	                                  └ main VRF ────────────────────── main NIC ═══════════╧══>
//
// The names and types of interfaces are those of Contiv/VPP, with every vswitch.
//
// A vswitch that shares the host's network stack needs nothing else. Otherwise, tap-vpp2 connects
// to vpp1 in the host. On a vswitch without multiple VRFs, both VRFs are the same.
//
// All configuration is computed from the state of other plugins. The package only keeps a snapshot
// for readers outside the event loop. Its files follow the network: nic.go, vrf.go, vxlan.go,
// nooverlay.go, host.go, pod.go.
package ipnet
