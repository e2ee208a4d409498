// Package ipnet computes the network of a node: the northbound configuration
// that connects its pods with each other, with other nodes and with the world.
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
// On a vswitch that shares the host's network stack, there is no more to it: the
// host's addresses are reached as they are. Otherwise tap-vpp2 connects to vpp1
// in the host. On a vswitch without several VRFs, both VRFs are the same.
//
// All configuration is computed from the state of other plugins: nothing is
// remembered here but a snapshot for readers outside of the event loop. A file
// holds what belongs together: nic.go, vrf.go, vxlan.go, nooverlay.go, host.go,
// pod.go.
package ipnet
