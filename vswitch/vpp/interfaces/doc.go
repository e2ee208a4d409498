// Package interfaces is VPP's interfaces, each known by its tag: the ports vswitch.Interfaces
// (but for DHCP, which the package dhcp does), vswitch.RxQueues and vswitch.States.
//
//	interfaces.go ──> one file for each kind: tap.go, afpacket.go, afxdp.go, memif.go, bond.go, subinterface.go,
//	                  vxlan.go, tunnels.go, wireguard.go, loopback.go, nics.go (devices that VPP has by itself)
//	              ──> addresses.go, unnumbered.go, ip6nd.go, rx.go: what any kind has
//	inventory.go ──> list.go: everything is read in rounds, and then described as values
//	watch.go     ──> events of VPP, and which interfaces are not as they should be
//	states.go        what is told of interfaces
//
// Others keep things of their own at interfaces: they are called when one was created and
// before one is deleted (Options.OnCreate, Options.OnDelete), and get an event when addresses
// have changed.
package interfaces
