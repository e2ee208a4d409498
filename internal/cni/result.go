package cni

import (
	"fmt"
	"net"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/api/contiv/cniwire"
)

// buildResult adds the agent's configuration to the result of the preceding plugins. assigned is
// the result of the delegated IPAM plugin, or nil.
func buildResult(c *Config, assigned *types100.Result, reply *cniwire.CNIReply) (*types100.Result, error) {
	result := &types100.Result{}
	if c.prev != nil {
		*result = *c.prev
	}
	result.CNIVersion = types100.ImplementedSpecVersion
	for _, i := range reply.Interfaces {
		index := len(result.Interfaces)
		result.Interfaces = append(result.Interfaces, &types100.Interface{
			Name: i.Name, Mac: i.MAC, Mtu: int(i.MTU), Sandbox: i.Sandbox,
		})
		for _, ip := range i.IPAddresses {
			address, err := parseAddress(ip.Address)
			if err != nil {
				return nil, err
			}
			config := &types100.IPConfig{Interface: types100.Int(index), Address: *address}
			if ip.Gateway != "" {
				if config.Gateway = net.ParseIP(ip.Gateway); config.Gateway == nil {
					return nil, fmt.Errorf("the agent returned the gateway %q, which is not an IP address", ip.Gateway)
				}
			}
			result.IPs = append(result.IPs, config)
		}
	}
	for _, r := range reply.Routes {
		_, network, err := net.ParseCIDR(r.Dst)
		if err != nil {
			return nil, fmt.Errorf("the agent returned a route to %q, which is not a network", r.Dst)
		}
		result.Routes = append(result.Routes, &types.Route{Dst: *network, GW: net.ParseIP(r.Gw)})
	}
	for _, dns := range reply.DNS {
		result.DNS = types.DNS{Domain: dns.Domain, Nameservers: dns.Nameservers, Search: dns.Search, Options: dns.Options}
	}
	if result.DNS.IsEmpty() && assigned != nil {
		result.DNS = assigned.DNS
	}
	if result.DNS.IsEmpty() {
		result.DNS = c.DNS
	}
	return result, nil
}

// parseAddress keeps the host bits.
func parseAddress(text string) (*net.IPNet, error) {
	ip, network, err := net.ParseCIDR(text)
	if err != nil {
		return nil, fmt.Errorf("the agent returned the address %q without a valid prefix length", text)
	}
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	return &net.IPNet{IP: ip, Mask: network.Mask}, nil
}

func compare(prev *types100.Result, reply *cniwire.CNIReply) error {
	for _, i := range reply.Interfaces {
		if !hasInterface(prev, i) {
			return fmt.Errorf("interface %s (%s) in %s is not in prevResult", i.Name, i.MAC, i.Sandbox)
		}
		for _, ip := range i.IPAddresses {
			if !hasAddress(prev, ip.Address) {
				return fmt.Errorf("address %s of interface %s is not in prevResult", ip.Address, i.Name)
			}
		}
	}
	return nil
}

func hasInterface(prev *types100.Result, want cniwire.Interface) bool {
	for _, i := range prev.Interfaces {
		if i.Name == want.Name && i.Sandbox == want.Sandbox && (i.Mac == "" || strings.EqualFold(i.Mac, want.MAC)) {
			return true
		}
	}
	return len(prev.Interfaces) == 0
}

func hasAddress(prev *types100.Result, want string) bool {
	for _, ip := range prev.IPs {
		if ip.Address.String() == want {
			return true
		}
	}
	return false
}
