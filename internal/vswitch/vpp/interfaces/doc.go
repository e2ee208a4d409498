// Package interfaces drives VPP's interfaces, identified by their tags. It implements
// vswitch.Interfaces (except DHCP: package dhcp), vswitch.RxQueues and vswitch.States.
//
//	interfaces.go ──> one file for each kind: tap.go, afpacket.go, afxdp.go, memif.go, bond.go, subinterface.go,
//	                  vxlan.go, tunnels.go, wireguard.go, loopback.go, nics.go (devices that VPP has by itself)
//	              ──> addresses.go, unnumbered.go, ip6nd.go, rx.go: common to all kinds
//	inventory.go ──> list.go: everything is read in rounds, and then described as values
//	watch.go     ──> events of VPP, and which interfaces are not as they should be
//	states.go        states of interfaces
//
// Other subsystems keep state at interfaces. They are called after an interface was created and
// before it is deleted (Options.OnCreate, Options.OnDelete), and get an event when addresses
// change.
package interfaces
