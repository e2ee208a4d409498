package contivconf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// PodOptions returns the options that determine pod addresses, with their effective values per IP
// version: "podSubnetCIDR (IPv4)=10.1.0.0/16".
func (s *Subnets) PodOptions() []string {
	return s.options(
		option{podSubnet, func(f *Subnets) string { return network(f.Pods) }},
		option{"podSubnetOneNodePrefixLen", func(f *Subnets) string { return strconv.Itoa(f.PodsOneNodeLen) }})
}

const podSubnet = "podSubnetCIDR"

// ClusterOptions returns the options that must be equal on all nodes: PodOptions, and the options
// for addresses of other nodes.
func (s *Subnets) ClusterOptions() []string {
	return append(s.PodOptions(), s.options(
		option{"vxlanCIDR", func(f *Subnets) string { return network(f.VXLAN) }},
		option{"nodeInterconnectCIDR", func(f *Subnets) string { return network(f.NodeInterconnect) }},
		option{"vppHostSubnetCIDR", func(f *Subnets) string { return network(f.VPPHost) }},
		option{"vppHostSubnetOneNodePrefixLen", func(f *Subnets) string { return strconv.Itoa(f.VPPHostOneNodeLen) }})...)
}

type option struct {
	name  string
	value func(*Subnets) string
}

func (s *Subnets) options(options ...option) []string {
	var list []string
	for _, f := range s.Families() {
		version := "IPv4"
		if f.UseIPv6() {
			version = "IPv6"
		}
		for _, o := range options {
			list = append(list, fmt.Sprintf("%s (%s)=%s", o.name, version, o.value(&f)))
		}
	}
	return list
}

func network(p netip.Prefix) string {
	if !p.IsValid() {
		return "none"
	}
	return p.String()
}

// ChangedOptions describes the differences: "ipamConfig.podSubnetOneNodePrefixLen (IPv4) is 25, not
// 24". It ignores options of a new IP version and options that one side does not have.
func ChangedOptions(now, before []string) []string {
	is := map[string]string{}
	for _, text := range now {
		name, value, _ := strings.Cut(text, "=")
		is[name] = value
	}
	var changes []string
	for _, text := range before {
		name, was, _ := strings.Cut(text, "=")
		value, known := is[name]
		if !known && strings.HasPrefix(name, podSubnet+" ") {
			value, known = "missing", true
		}
		if known && value != was {
			changes = append(changes, fmt.Sprintf("ipamConfig.%s is %s, not %s", name, value, was))
		}
	}
	return changes
}
