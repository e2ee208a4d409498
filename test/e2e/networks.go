package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/contiv/contiv/test/lab"
)

// IPVersions selects the IP versions of a cluster's nodes, pods and services.
type IPVersions string

// The IP versions of clusters. The API server and status.podIP use the only one, or IPv4.
const (
	IPv4      IPVersions = "ipv4" // the default
	IPv6      IPVersions = "ipv6"
	DualStack IPVersions = "dual"
)

// network holds a cluster's networks of one IP version.
type network struct {
	// router is the address of the lab's router, with the API server, on the nodes' network.
	router netip.Prefix
	// Networks of pods, services, the overlay, and between vswitch and host.
	pods, services, vxlan, hosts string
	// Cluster IPs.
	apiService, dns netip.Addr
}

var (
	network4 = network{
		router: lab.RouterAddress, pods: "10.1.0.0/16", services: "10.96.0.0/12", vxlan: "192.168.30.0/24", hosts: "172.30.0.0/16",
		apiService: netip.MustParseAddr("10.96.0.1"), dns: netip.MustParseAddr("10.96.0.10"),
	}
	network6 = network{
		router: netip.MustParsePrefix("fd16::fe/64"), pods: "fd10:1::/48", services: "fd96::/112", vxlan: "fd30::/112", hosts: "fd17::/48",
		apiService: netip.MustParseAddr("fd96::1"), dns: netip.MustParseAddr("fd96::a"),
	}
)

// networks of the cluster; the API server uses the first.
func (v IPVersions) networks() []network {
	switch v {
	case IPv6:
		return []network{network6}
	case DualStack:
		return []network{network4, network6}
	}
	return []network{network4}
}

func (v IPVersions) check(vswitches []string) error {
	switch v {
	case "", IPv4:
		return nil
	case IPv6, DualStack:
		for _, vswitch := range vswitches {
			if vswitch != lab.KernelVSwitch {
				return fmt.Errorf("a cluster of IP version %q has nodes with the kernel vswitch only, not %q", v, vswitch)
			}
		}
		return nil
	}
	return fmt.Errorf("IP version %q: use %s, %s or %s", v, IPv4, IPv6, DualStack)
}

// joined joins the results of pick for each network with commas.
func (c *Cluster) joined(pick func(network) string) string {
	var list []string
	for _, n := range c.opts.IP.networks() {
		list = append(list, pick(n))
	}
	return strings.Join(list, ",")
}

func podsOf(n network) string     { return n.pods }
func servicesOf(n network) string { return n.services }
func vxlanOf(n network) string    { return n.vxlan }
func hostsOf(n network) string    { return n.hosts }
func dnsOf(n network) string      { return n.dns.String() }

// APIServer returns the API server's host and port in URL form.
func (c *Cluster) APIServer() string {
	return net.JoinHostPort(c.opts.IP.networks()[0].router.Addr().String(), "443")
}

func (c *Cluster) apiServerURL() string { return "https://" + c.APIServer() }

// Addresses returns a node's addresses, one per IP version of the cluster.
func (c *Cluster) Addresses(n lab.Node) (list []netip.Addr) {
	for _, network := range c.opts.IP.networks() {
		list = append(list, network.node(n).Addr())
	}
	return list
}

// nodeIPs returns kubelet's flag value.
func (c *Cluster) nodeIPs(n lab.Node) string {
	return c.joined(func(network network) string { return network.node(n).Addr().String() })
}

// node returns the address of a node.
func (n network) node(node lab.Node) netip.Prefix {
	if n.router.Addr().Is4() {
		return node.Address
	}
	bytes := n.router.Addr().As16()
	bytes[15] = byte(node.Index)
	return netip.PrefixFrom(netip.AddrFrom16(bytes), n.router.Bits())
}

// addNetworks adds IPv6 addresses to router and nodes. Nodes of a cluster without IPv4 lose their
// IPv4 address, so that nothing can depend on it.
func (c *Cluster) addNetworks(ctx context.Context) error {
	for _, n := range c.opts.IP.networks() {
		if n.router.Addr().Is4() {
			continue
		}
		if err := c.addIPv6(ctx, c.underlay, lab.NodeBridge, n.router); err != nil {
			return err
		}
		for _, node := range c.nodes {
			if err := c.addIPv6(ctx, node.Netns, lab.NodeNIC, n.node(node)); err != nil {
				return err
			}
			if err := c.run(ctx, node.Netns, "ip", "-6", "route", "add", "default", "via", n.router.Addr().String()); err != nil {
				return err
			}
		}
	}
	if c.opts.IP != IPv6 {
		return nil
	}
	for _, node := range c.nodes {
		if err := c.run(ctx, node.Netns, "ip", "-4", "address", "flush", "dev", lab.NodeNIC); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) addIPv6(ctx context.Context, netns, device string, address netip.Prefix) error {
	err := lab.InNetns(lab.NetnsPath(netns), func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("0"), 0)
	})
	if err != nil {
		return err
	}
	return c.run(ctx, netns, "ip", "-6", "address", "add", address.String(), "dev", device, "nodad")
}

// contivConf returns the part of contiv.conf other than the networks.
func (c *Cluster) contivConf() string {
	if c.opts.IP == "" || c.opts.IP == IPv4 {
		return ""
	}
	conf := "natExternalTrafficIPv6: true\nipamConfig:\n"
	for key, pick := range map[string]func(network) string{"podSubnetCIDR": podsOf, "serviceCIDR": servicesOf, "vxlanCIDR": vxlanOf, "vppHostSubnetCIDR": hostsOf} {
		conf += fmt.Sprintf("  %s: %s\n", key, c.joined(pick))
	}
	if c.opts.IP == IPv6 {
		conf += "  podSubnetOneNodePrefixLen: 64\n  vppHostSubnetOneNodePrefixLen: 64\n"
	}
	return conf
}
