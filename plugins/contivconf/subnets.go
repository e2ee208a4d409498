package contivconf

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/plugins/ipam/cidr"
)

// Subnets is the address plan of the cluster, parsed and divided.
type Subnets struct {
	// Pods of all nodes; each node has a part of PodsOneNodeLen.
	Pods           netip.Prefix
	PodsOneNodeLen int
	// VPPHost connects the vswitch with the host's stack, divided like Pods.
	// Unused on vswitches that share the host's stack.
	VPPHost           netip.Prefix
	VPPHostOneNodeLen int
	// NodeInterconnect holds the nodes' addresses if Contiv assigns them; else
	// it is the zero Prefix.
	NodeInterconnect netip.Prefix
	// VXLAN holds an address of each node inside of the overlay.
	VXLAN netip.Prefix
	// Service holds the cluster IPs; the zero Prefix if unknown.
	Service netip.Prefix
}

// UseIPv6 tells the IP version of pods.
func (s *Subnets) UseIPv6() bool { return s.Pods.Addr().Is6() }

// parseSubnets parses and checks the address plan. All mistakes are reported at
// once.
func parseSubnets(c *IPAMConfig) (Subnets, error) {
	var errs []error
	parse := func(option, value string, required bool) netip.Prefix {
		if value == "" {
			if required {
				errs = append(errs, fmt.Errorf("option ipamConfig.%s is empty: give a network such as 10.1.0.0/16", option))
			}
			return netip.Prefix{}
		}
		p, err := netip.ParsePrefix(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("option ipamConfig.%s is %q: give a network such as 10.1.0.0/16", option, value))
			return netip.Prefix{}
		}
		return p.Masked()
	}

	s := Subnets{Service: parse("serviceCIDR", c.ServiceCIDR, false)}
	if !c.NodeInterconnectDHCP {
		s.NodeInterconnect = parse("nodeInterconnectCIDR", c.NodeInterconnectCIDR, false)
	}
	if c.ContivCIDR != "" {
		if all := parse("contivCIDR", c.ContivCIDR, true); all.IsValid() {
			plan, err := cidr.Dissect(all)
			if err != nil {
				errs = append(errs, fmt.Errorf("option ipamConfig.contivCIDR: %w", err))
			}
			s.Pods, s.PodsOneNodeLen = plan.Pods, plan.OneNodeLen
			s.VPPHost, s.VPPHostOneNodeLen = plan.VPPHost, plan.OneNodeLen
			s.VXLAN = plan.VXLAN
			if !c.NodeInterconnectDHCP && c.NodeInterconnectCIDR == "" {
				s.NodeInterconnect = plan.NodeInterconnect
			}
		}
	} else {
		s.Pods, s.PodsOneNodeLen = parse("podSubnetCIDR", c.PodSubnetCIDR, true), int(c.PodSubnetOneNodePrefixLen)
		s.VPPHost, s.VPPHostOneNodeLen = parse("vppHostSubnetCIDR", c.VPPHostSubnetCIDR, true), int(c.VPPHostSubnetOneNodePrefixLen)
		s.VXLAN = parse("vxlanCIDR", c.VxlanCIDR, true)
	}
	if len(errs) == 0 {
		errs = append(errs, s.checkDivisions(), s.checkVersions(), s.checkOverlaps())
	}
	return s, errors.Join(errs...)
}

// A node's part of the pod subnet holds the network, gateway, NAT loopback and
// broadcast addresses, so it needs 3 bits to have room for a pod.
const minPodHostBits = 3

func (s *Subnets) checkDivisions() error {
	check := func(option string, all netip.Prefix, length, minHostBits int) error {
		longest := all.Addr().BitLen() - minHostBits
		if length <= all.Bits() || length > longest {
			return fmt.Errorf("option ipamConfig.%s is %d: a node's part of %v needs a prefix length from %d to %d",
				option, length, all, all.Bits()+1, longest)
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

// named lists the subnets that exist, under the names of their options.
func (s *Subnets) named() []namedPrefix {
	var existing []namedPrefix
	for _, n := range []namedPrefix{
		{"podSubnetCIDR", s.Pods}, {"vppHostSubnetCIDR", s.VPPHost}, {"vxlanCIDR", s.VXLAN},
		{"nodeInterconnectCIDR", s.NodeInterconnect}, {"serviceCIDR", s.Service},
	} {
		if n.prefix.IsValid() {
			existing = append(existing, n)
		}
	}
	return existing
}

// checkVersions wants one IP version inside of the cluster. The nodes' own
// addresses may be of the other one.
func (s *Subnets) checkVersions() error {
	for _, n := range s.named() {
		if n.name != "nodeInterconnectCIDR" && n.name != "serviceCIDR" && n.prefix.Addr().Is6() != s.UseIPv6() {
			return fmt.Errorf("ipamConfig.%s %v and podSubnetCIDR %v are of different IP versions: use one of them for both", n.name, n.prefix, s.Pods)
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

// clash returns the first subnet that a network of the host overlaps with;
// nodeInterconnectCIDR, which is meant to be on a link, does not count.
func (s *Subnets) clash(network netip.Prefix) (namedPrefix, bool) {
	for _, n := range s.named() {
		if n.name != "nodeInterconnectCIDR" && n.prefix.Overlaps(network) {
			return n, true
		}
	}
	return namedPrefix{}, false
}

// effective returns the configuration with the subnets that are really used.
func (s *Subnets) effective(c IPAMConfig) IPAMConfig {
	text := func(p netip.Prefix) string {
		if !p.IsValid() {
			return ""
		}
		return p.String()
	}
	c.PodSubnetCIDR, c.PodSubnetOneNodePrefixLen = text(s.Pods), uint8(s.PodsOneNodeLen)
	c.VPPHostSubnetCIDR, c.VPPHostSubnetOneNodePrefixLen = text(s.VPPHost), uint8(s.VPPHostOneNodeLen)
	c.VxlanCIDR, c.NodeInterconnectCIDR = text(s.VXLAN), text(s.NodeInterconnect)
	return c
}
