package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Addresses in the namespaces of each lab. All labs use the same ones.
var (
	// RouterAddress is the nodes' default gateway and the address of etcd.
	RouterAddress = netip.MustParsePrefix("192.168.16.254/24")
	// OutsideAddress is the address of the host outside of the cluster.
	OutsideAddress = netip.MustParsePrefix("203.0.113.10/24")
	routerOutside  = netip.MustParsePrefix("203.0.113.1/24")
)

// The same for IPv6.
var (
	routerAddress6  = netip.MustParsePrefix("2001:db8:16::fe/64")
	outsideAddress6 = netip.MustParsePrefix("2001:db8:113::10/64")
	routerOutside6  = netip.MustParsePrefix("2001:db8:113::1/64")
)

var (
	anyIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	anyIPv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

const maxNodes = 253

// NodeBridge is the bridge that connects the nodes.
const NodeBridge = "nodes"

// NodeNIC is the name of the NIC of nodes and of the outside host.
const NodeNIC = "eth0"

func nodeAddress(index int) netip.Prefix {
	a := RouterAddress.Addr().As4()
	a[3] = byte(index)
	return netip.PrefixFrom(netip.AddrFrom4(a), RouterAddress.Bits())
}

func nodeAddress6(index int) netip.Prefix {
	a := routerAddress6.Addr().As16()
	a[15] = byte(index)
	return netip.PrefixFrom(netip.AddrFrom16(a), routerAddress6.Bits())
}

func (n Node) addresses() []netip.Prefix {
	if n.Address6.IsValid() {
		return []netip.Prefix{n.Address, n.Address6}
	}
	return []netip.Prefix{n.Address}
}

// families returns the prefixes of the lab's IP versions, IPv4 first.
func (s *State) families(ipv4, ipv6 netip.Prefix) []netip.Prefix {
	switch {
	case s.IPv6:
		return []netip.Prefix{ipv6}
	case s.DualStack:
		return []netip.Prefix{ipv4, ipv6}
	}
	return []netip.Prefix{ipv4}
}

func (s *State) withIPv6() bool { return s.DualStack || s.IPv6 }

func (s *State) router() netip.Addr { return s.families(RouterAddress, routerAddress6)[0].Addr() }

const (
	dualStackConfig = `natExternalTrafficIPv6: true
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  serviceCIDR: 10.96.0.0/12,fd96::/108
`
	ipv6Config = `natExternalTrafficIPv6: true
ipamConfig:
  podSubnetCIDR: fd10:1::/48
  podSubnetOneNodePrefixLen: 64
  vxlanCIDR: fd30::/112
  serviceCIDR: fd96::/108
`
)

func (o Options) contivConfig() string {
	switch {
	case o.IPv6:
		return ipv6Config
	case o.DualStack:
		return dualStackConfig
	}
	return o.ContivConfig
}

func (o Options) checkFamilies() error {
	flag, networks := "--dual-stack", "networks of both IP versions"
	if o.IPv6 {
		flag, networks = "--ipv6", "networks of IPv6"
	}
	switch {
	case !o.DualStack && !o.IPv6:
	case o.ContivConfig != "":
		return fmt.Errorf("a lab with %s has a contiv.conf of its own: drop %s, and give %s in --config", flag, flag, networks)
	case o.Calico:
		return fmt.Errorf("a lab with Calico has both IP versions: drop %s", flag)
	case slices.Contains(o.VSwitches, VPPVSwitch):
		return fmt.Errorf("%s: nodes with VPP have IPv4 addresses: leave out --vswitch %s, or give %s in --config", flag, VPPVSwitch, networks)
	case !hasIPv6():
		return fmt.Errorf("%s: this kernel has no IPv6", flag)
	}
	return nil
}

func hasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

func (l *Lab) makeUnderlay(st *State) error {
	for _, name := range []string{st.Underlay(), st.Outside()} {
		if err := l.addNetns(st, name); err != nil {
			return err
		}
	}
	if err := setForwarding(st.Underlay(), st.withIPv6()); err != nil {
		return err
	}
	err := withHandle(st.Underlay(), func(h *netlink.Handle) error {
		// A bridge without its own MAC address uses that of a port. It would change with the nodes,
		// and their neighbour entries would be wrong.
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: NodeBridge, HardwareAddr: net.HardwareAddr{0x02, 0, 0, 0, 0, 0xfe}}}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("adding bridge %s: %w", NodeBridge, err)
		}
		return errors.Join(
			configure(h, "lo"),
			configure(h, NodeBridge, st.families(RouterAddress, routerAddress6)...),
			addVeth(h, "outside", st.Outside(), NodeNIC),
			configure(h, "outside", st.families(routerOutside, routerOutside6)...),
		)
	})
	if err != nil {
		return fmt.Errorf("making the underlay: %w", err)
	}
	// The outside host has routes to nodes but not to pods, so it answers only traffic that SNAT
	// has given a node's address.
	err = withHandle(st.Outside(), func(h *netlink.Handle) error {
		err := errors.Join(
			configure(h, "lo"),
			configure(h, NodeNIC, st.families(OutsideAddress, outsideAddress6)...),
		)
		gateways := st.families(routerOutside, routerOutside6)
		for i, nodes := range st.families(RouterAddress, routerAddress6) {
			err = errors.Join(err, addRoute(h, nodes.Masked(), gateways[i].Addr()))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("making the outside host: %w", err)
	}
	return awaitUp(st.Underlay(), "outside")
}

func nodePort(n Node) string { return fmt.Sprintf("port%d", n.Index) }

// unplugNode removes the node's NIC with its port. The kernel would otherwise remove them only some
// time after the namespace. A missing port is ignored.
func unplugNode(st *State, n Node) error {
	return withHandle(st.Underlay(), func(h *netlink.Handle) error {
		for _, port := range []string{nodePort(n), vppPort(n)} {
			link, err := h.LinkByName(port)
			if errors.As(err, &netlink.LinkNotFoundError{}) {
				continue
			}
			if err == nil {
				err = h.LinkDel(link)
			}
			if err != nil {
				return fmt.Errorf("unplugging node %s: %w", n.Name, err)
			}
		}
		return nil
	})
}

func (l *Lab) plugNode(st *State, n Node) error {
	if err := setForwarding(n.Netns, st.withIPv6()); err != nil {
		return err
	}
	if err := l.plug(st, n, nodePort(n), NodeNIC, n.addresses()...); err != nil {
		return err
	}
	err := withHandle(n.Netns, func(h *netlink.Handle) error {
		err := configure(h, "lo")
		destinations := st.families(anyIPv4, anyIPv6)
		for i, router := range st.families(RouterAddress, routerAddress6) {
			err = errors.Join(err, addRoute(h, destinations[i], router.Addr()))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("configuring node %s: %w", n.Name, err)
	}
	return nil
}

// plug gives the node a NIC with addresses that is connected to a port of the switch.
func (l *Lab) plug(st *State, n Node, port, nic string, addresses ...netip.Prefix) error {
	err := withHandle(st.Underlay(), func(h *netlink.Handle) error {
		if err := addVeth(h, port, n.Netns, nic); err != nil {
			return err
		}
		bridge, err := h.LinkByName(NodeBridge)
		if err != nil {
			return err
		}
		link, err := h.LinkByName(port)
		if err != nil {
			return err
		}
		return errors.Join(h.LinkSetMaster(link, bridge), configure(h, port))
	})
	if err != nil {
		return fmt.Errorf("connecting node %s to the underlay: %w", n.Name, err)
	}
	err = withHandle(n.Netns, func(h *netlink.Handle) error { return configure(h, nic, addresses...) })
	if err != nil {
		return fmt.Errorf("configuring the NIC %s of node %s: %w", nic, n.Name, err)
	}
	if st.hasVPP() {
		if err := errors.Join(likeAWire(st.Underlay(), port), likeAWire(n.Netns, nic)); err != nil {
			return err
		}
	}
	if err := awaitUp(st.Underlay(), port); err != nil {
		return err
	}
	return awaitUp(n.Netns, nic)
}

// awaitUp waits until the link passes packets. The kernel detects the carrier of a veth, and
// enables forwarding in a bridge, some time after both ends are up, and drops packets until then.
func awaitUp(ns, name string) error {
	return withHandle(ns, func(h *netlink.Handle) error {
		deadline := time.Now().Add(5 * time.Second)
		for {
			link, err := h.LinkByName(name)
			if err != nil {
				return fmt.Errorf("link %s in %s: %w", name, ns, err)
			}
			if link.Attrs().OperState == netlink.OperUp {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("link %s in %s stays %s", name, ns, link.Attrs().OperState)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// setForwarding enables IP forwarding, which Kubernetes requires on every node before a network
// plugin is installed.
func setForwarding(ns string, ipv6 bool) error {
	return InNetns(NetnsPath(ns), func() error {
		err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
		if err == nil && ipv6 {
			err = os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0)
		}
		if err == nil && ipv6 {
			err = useIPv6AtOnce()
		}
		return err
	})
}

// useIPv6AtOnce disables duplicate address detection for future devices.
func useIPv6AtOnce() error {
	return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)
}

func withHandle(ns string, fn func(*netlink.Handle) error) error {
	target, err := netns.GetFromPath(NetnsPath(ns))
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", ns, err)
	}
	defer target.Close()
	h, err := netlink.NewHandleAt(target)
	if err != nil {
		return fmt.Errorf("opening netlink in %s: %w", ns, err)
	}
	defer h.Close()
	return fn(h)
}

func addVeth(h *netlink.Handle, name, peerNamespace, peerName string) error {
	peer, err := netns.GetFromPath(NetnsPath(peerNamespace))
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", peerNamespace, err)
	}
	defer peer.Close()
	err = h.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: name},
		PeerName:      peerName,
		PeerNamespace: netlink.NsFd(int(peer)),
	})
	if err != nil {
		return fmt.Errorf("adding veth %s to %s in %s: %w", name, peerName, peerNamespace, err)
	}
	return nil
}

func configure(h *netlink.Handle, name string, addresses ...netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	for _, a := range addresses {
		addr := &netlink.Addr{IPNet: ipNet(a)}
		if a.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := h.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("adding address %s to %s: %w", a, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

func addRoute(h *netlink.Handle, dst netip.Prefix, gateway netip.Addr) error {
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(dst), Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("adding the route to %s via %s: %w", dst, gateway, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
