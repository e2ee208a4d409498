package contivconf

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
)

// Subnets is the parsed address plan of the cluster for one IP version.
type Subnets struct {
	// Pods of all nodes. Each node has a part of length PodsOneNodeLen.
	Pods           netip.Prefix
	PodsOneNodeLen int
	// VPPHost connects the vswitch to the host's stack and is divided like Pods. Vswitches that
	// share the host's stack do not use it. It is the zero Prefix if unset for the IP version.
	VPPHost           netip.Prefix
	VPPHostOneNodeLen int
	// NodeInterconnect holds the nodes' addresses if Contiv assigns them, or is the zero Prefix.
	NodeInterconnect netip.Prefix
	// VXLAN holds an address of each node inside the overlay.
	VXLAN netip.Prefix
	// Services are the ranges of cluster IPs: those of the cluster's ServiceCIDRs, else serviceCIDR.
	// It may be empty.
	Services []netip.Prefix
	// ofCluster reports whether Services are of ServiceCIDRs.
	ofCluster bool

	// Second is the plan of the second IP version of a dual-stack cluster, or nil. It has no Second
	// itself.
	Second *Subnets
}

// UseIPv6 reports whether pods have IPv6 addresses; in a dual-stack cluster, as the first one.
func (s *Subnets) UseIPv6() bool { return s.Pods.Addr().Is6() }

// DualStack reports whether pods have addresses of both IP versions.
func (s *Subnets) DualStack() bool { return s.Second != nil }

// Families returns the plan of each IP version, the primary one first.
func (s *Subnets) Families() []Subnets {
	if s.Second == nil {
		return []Subnets{*s}
	}
	return []Subnets{*s, *s.Second}
}

// pair holds the networks of an option: one, or one per IP version.
type pair []netip.Prefix

func (p pair) of(ipv6 bool) netip.Prefix {
	for _, network := range p {
		if network.Addr().Is6() == ipv6 {
			return network
		}
	}
	return netip.Prefix{}
}

// or returns the network of an IP version. If single, it returns any other network instead of none.
func (p pair) or(ipv6, single bool) netip.Prefix {
	if network := p.of(ipv6); network.IsValid() || !single || len(p) == 0 {
		return network
	}
	return p[0]
}

func parsePair(option, value string) (pair, error) {
	var p pair
	for _, text := range split(value) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("option ipamConfig.%s is %q: use a network such as 10.1.0.0/16, or one of each IP version, separated by a comma", option, value)
		}
		if p.of(network.Addr().Is6()).IsValid() {
			return nil, fmt.Errorf("option ipamConfig.%s is %q, which has two networks of one IP version: use at most one of each", option, value)
		}
		if why := unfit(network.Masked()); why != "" {
			return nil, fmt.Errorf("option ipamConfig.%s is %q, which %s: use a network of unicast addresses, such as 10.1.0.0/16", option, value, why)
		}
		p = append(p, network.Masked())
	}
	return p, nil
}

// unusable are networks without assignable addresses.
var unusable = []struct {
	network netip.Prefix
	are     string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "addresses of this network only"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback addresses"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast addresses"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved addresses"},
	{netip.MustParsePrefix("::/96"), "loopback and reserved addresses"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "addresses of IPv4"},
	{netip.MustParsePrefix("fe80::/10"), "link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses"},
}

// unfit returns the reason why a network has no assignable addresses, or "".
func unfit(network netip.Prefix) string {
	for _, u := range unusable {
		if network.Overlaps(u.network) {
			return fmt.Sprintf("overlaps with %v (%s)", u.network, u.are)
		}
	}
	return ""
}

// parseAllowedSources parses the option podAllowedSources. It rejects overlaps with the networks of
// pods, services and nodes.
func (s *Subnets) parseAllowedSources(value string) (networks []netip.Prefix, err error) {
	for _, text := range split(value) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("option podAllowedSources is %q: use networks such as 10.200.0.0/24, separated by commas", value)
		}
		network = network.Masked()
		if why := unfit(network); why != "" {
			return nil, fmt.Errorf("option podAllowedSources is %q, which %s: use networks of unicast addresses, such as 10.200.0.0/24", value, why)
		}
		for _, n := range s.named() {
			if n.name != "nodeInterconnectCIDR" && n.prefix.Overlaps(network) {
				return nil, fmt.Errorf("option podAllowedSources has %v, which overlaps with %s %v: pods could send with foreign addresses: use separate networks", network, n.name, n.prefix)
			}
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func split(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	var list []string
	for _, text := range strings.Split(value, ",") {
		list = append(list, strings.TrimSpace(text))
	}
	return list
}

type plan struct{ all, pods, vppHost, vxlan, service, interconnect pair }

// parseSubnets parses and validates the address plan. It reports all errors at once.
func parseSubnets(c *IPAMConfig, transport string) (Subnets, error) {
	var p plan
	var errs []error
	parse := func(to *pair, option, value string, required bool) {
		var err error
		if *to, err = parsePair(option, value); err == nil && len(*to) == 0 && required {
			err = fmt.Errorf("option ipamConfig.%s is empty: use a network such as 10.1.0.0/16", option)
		}
		errs = append(errs, err)
	}
	parse(&p.service, "serviceCIDR", c.ServiceCIDR, false)
	if !c.NodeInterconnectDHCP {
		parse(&p.interconnect, "nodeInterconnectCIDR", c.NodeInterconnectCIDR, false)
	}
	if c.ContivCIDR != "" {
		parse(&p.all, "contivCIDR", c.ContivCIDR, true)
	} else {
		parse(&p.pods, "podSubnetCIDR", c.PodSubnetCIDR, true)
		parse(&p.vppHost, "vppHostSubnetCIDR", c.VPPHostSubnetCIDR, true)
		parse(&p.vxlan, "vxlanCIDR", c.VxlanCIDR, true)
	}
	if err := errors.Join(errs...); err != nil {
		return Subnets{}, err
	}
	pods := append(p.all, p.pods...)
	first, err := p.family(c, pods[0].Addr().Is6(), len(pods) == 1, transport)
	if err != nil {
		return first, err
	}
	if len(pods) == 2 {
		second, err := p.family(c, pods[1].Addr().Is6(), false, transport)
		if err != nil {
			return first, err
		}
		first.Second = &second
	}
	return first, first.checkOverlaps()
}

// family returns the validated plan of one IP version. single means that there is no other version.
func (p *plan) family(c *IPAMConfig, ipv6, single bool, transport string) (Subnets, error) {
	s := Subnets{NodeInterconnect: p.interconnect.or(ipv6, single)}
	if service := p.service.or(ipv6, single); service.IsValid() {
		s.Services = []netip.Prefix{service}
	}
	if len(p.all) > 0 {
		divided, err := cidr.Dissect(p.all.of(ipv6))
		if err != nil {
			return s, fmt.Errorf("option ipamConfig.contivCIDR: %w", err)
		}
		s.Pods, s.PodsOneNodeLen = divided.Pods, divided.OneNodeLen
		s.VPPHost, s.VPPHostOneNodeLen = divided.VPPHost, divided.OneNodeLen
		s.VXLAN = divided.VXLAN
		if !c.NodeInterconnectDHCP && len(p.interconnect) == 0 {
			s.NodeInterconnect = divided.NodeInterconnect
		}
		return s, s.checkDivisions("")
	}
	s.Pods, s.PodsOneNodeLen = p.pods.of(ipv6), int(c.PodSubnetOneNodePrefixLen)
	s.VPPHost, s.VPPHostOneNodeLen = p.vppHost.of(ipv6), int(c.VPPHostSubnetOneNodePrefixLen)
	s.VXLAN = p.vxlan.or(ipv6, single)
	suffix := ""
	if ipv6 && !single {
		suffix = "IPv6"
		s.PodsOneNodeLen, s.VPPHostOneNodeLen = int(c.PodSubnetOneNodePrefixLenIPv6), int(c.VPPHostSubnetOneNodePrefixLenIPv6)
	}
	if !s.VXLAN.IsValid() && transport == VXLANTransport {
		return s, fmt.Errorf("ipamConfig.vxlanCIDR %s has no network of the IP version of podSubnetCIDR %v: add one, separated by a comma", c.VxlanCIDR, s.Pods)
	}
	return s, errors.Join(s.checkDivisions(suffix), s.checkVersions())
}

// A node's part of the pod subnet includes network, gateway, NAT loopback and broadcast addresses,
// so that a pod needs at least 3 bits.
const minPodHostBits = 3

func (s *Subnets) checkDivisions(suffix string) error {
	check := func(option string, all netip.Prefix, length, minHostBits int) error {
		if !all.IsValid() {
			return nil
		}
		longest := all.Addr().BitLen() - minHostBits
		if length <= all.Bits() || length > longest {
			return fmt.Errorf("option ipamConfig.%s%s is %d: a node's part of %v must have a prefix length from %d to %d",
				option, suffix, length, all, all.Bits()+1, longest)
		}
		return nil
	}
	return errors.Join(
		check("podSubnetOneNodePrefixLen", s.Pods, s.PodsOneNodeLen, minPodHostBits),
		check("vppHostSubnetOneNodePrefixLen", s.VPPHost, s.VPPHostOneNodeLen, 2))
}

type namedPrefix struct {
	name   string
	prefix netip.Prefix
}

// Names of the ranges of cluster IPs: the option, and the kind of the cluster's objects.
const (
	serviceOption  = "serviceCIDR"
	serviceObjects = "ServiceCIDR"
)

func (n namedPrefix) ofServices() bool { return n.name == serviceOption || n.name == serviceObjects }

func (n namedPrefix) String() string {
	if n.name == serviceObjects {
		return fmt.Sprintf("%v, a %s of the cluster", n.prefix, n.name)
	}
	return fmt.Sprintf("ipamConfig.%s %v", n.name, n.prefix)
}

// remedy returns how to change the network.
func (n namedPrefix) remedy() string {
	if n.name == serviceObjects {
		return "replace the " + n.name
	}
	return fmt.Sprintf("change %s in the configuration of the whole cluster", n.name)
}

func (s *Subnets) named() []namedPrefix {
	var existing []namedPrefix
	for _, f := range s.Families() {
		for _, n := range []namedPrefix{
			{"podSubnetCIDR", f.Pods}, {"vppHostSubnetCIDR", f.VPPHost}, {"vxlanCIDR", f.VXLAN},
			{"nodeInterconnectCIDR", f.NodeInterconnect},
		} {
			if n.prefix.IsValid() {
				existing = append(existing, n)
			}
		}
		name := serviceOption
		if f.ofCluster {
			name = serviceObjects
		}
		for _, p := range f.Services {
			existing = append(existing, namedPrefix{name, p})
		}
	}
	return existing
}

// checkVersions requires one IP version throughout the plan, except for node addresses.
func (s *Subnets) checkVersions() error {
	for _, n := range s.named() {
		if n.name != "nodeInterconnectCIDR" && !n.ofServices() && n.prefix.Addr().Is6() != s.UseIPv6() {
			return fmt.Errorf("ipamConfig.%s %v and podSubnetCIDR %v are of different IP versions: use one version for both, or add a network of each version, separated by a comma",
				n.name, n.prefix, s.Pods)
		}
	}
	return nil
}

func (s *Subnets) checkVPPHost(option string) error {
	for _, f := range s.Families() {
		if !f.VPPHost.IsValid() {
			return fmt.Errorf("ipamConfig.vppHostSubnetCIDR %s has no network of the IP version of podSubnetCIDR %v, which connects VPP with its host: add one of each version of podSubnetCIDR, separated by a comma", option, f.Pods)
		}
	}
	return nil
}

func (s *Subnets) checkOverlaps() error {
	var errs []error
	all := s.named()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.prefix.Overlaps(b.prefix) {
				errs = append(errs, fmt.Errorf("ipamConfig.%s %v overlaps with %s %v: change one of them", a.name, a.prefix, b.name, b.prefix))
			}
		}
	}
	return errors.Join(errs...)
}

// Of returns the network of the plan that contains an address, such as "podSubnetCIDR 10.1.0.0/16", or
// "". It ignores nodeInterconnectCIDR.
func (s *Subnets) Of(addr netip.Addr) string {
	if n, is := s.clash(netip.PrefixFrom(addr, addr.BitLen())); is {
		return fmt.Sprintf("%s %v", n.name, n.prefix)
	}
	return ""
}

// clash returns the first subnet that overlaps with a network of the host. It ignores
// nodeInterconnectCIDR, which belongs on a link.
func (s *Subnets) clash(network netip.Prefix) (namedPrefix, bool) {
	for _, n := range s.named() {
		if n.name != "nodeInterconnectCIDR" && n.prefix.Overlaps(network) {
			return n, true
		}
	}
	return namedPrefix{}, false
}

func (s *Subnets) effective(c IPAMConfig) IPAMConfig {
	families := s.Families()
	text := func(network func(*Subnets) netip.Prefix) string {
		var list []string
		for i := range families {
			if p := network(&families[i]); p.IsValid() {
				list = append(list, p.String())
			}
		}
		return strings.Join(list, ",")
	}
	c.PodSubnetCIDR = text(func(s *Subnets) netip.Prefix { return s.Pods })
	c.VPPHostSubnetCIDR = text(func(s *Subnets) netip.Prefix { return s.VPPHost })
	c.VxlanCIDR = text(func(s *Subnets) netip.Prefix { return s.VXLAN })
	c.NodeInterconnectCIDR = text(func(s *Subnets) netip.Prefix { return s.NodeInterconnect })
	var services []string
	for _, p := range s.AllServices() {
		services = append(services, p.String())
	}
	c.ServiceCIDR = strings.Join(services, ",")
	if !s.DualStack() {
		c.PodSubnetOneNodePrefixLenIPv6, c.VPPHostSubnetOneNodePrefixLenIPv6 = 0, 0
	}
	for _, f := range families {
		if f.UseIPv6() && s.DualStack() {
			c.PodSubnetOneNodePrefixLenIPv6, c.VPPHostSubnetOneNodePrefixLenIPv6 = uint8(f.PodsOneNodeLen), uint8(f.VPPHostOneNodeLen)
		} else {
			c.PodSubnetOneNodePrefixLen, c.VPPHostSubnetOneNodePrefixLen = uint8(f.PodsOneNodeLen), uint8(f.VPPHostOneNodeLen)
		}
	}
	return c
}
