package models

import (
	"fmt"
	"net/netip"
	"strings"
)

// Keys derived from NAT44 values.
const (
	// NAT44EndpointDependentKey is derived from the global NAT44 value unless that is
	// endpoint-independent.
	NAT44EndpointDependentKey = "vpp/nat44/endpoint-dependent"
	// NAT44GlobalInterfacePrefix is the prefix of keys derived from nat_interfaces.
	NAT44GlobalInterfacePrefix = "vpp/nat44/interface/"
	// NAT44GlobalAddressPrefix is the prefix of keys derived from address_pool.
	NAT44GlobalAddressPrefix = "vpp/nat44/address/"
	// NAT44TwicePoolPrefix is the prefix of keys derived from twice-NAT pools.
	NAT44TwicePoolPrefix = "vpp/nat44/twiceNAT-pool/"
)

// NAT44GlobalInterfaceKey is derived for each item of nat_interfaces.
func NAT44GlobalInterfaceKey(iface string, inside bool) string {
	feature := "out"
	if inside {
		feature = "in"
	}
	return NAT44GlobalInterfacePrefix + iface + "/feature/" + feature
}

// NAT44GlobalAddressKey is derived for each item of address_pool.
func NAT44GlobalAddressKey(addr string, twice bool) string {
	mode := "off"
	if twice {
		mode = "on"
	}
	return NAT44GlobalAddressPrefix + addr + "/twice-nat/" + mode
}

// NAT44TwicePoolKey is derived from a twice-NAT pool.
func NAT44TwicePoolKey(vrf uint32, first, last string) string {
	key := fmt.Sprintf("%svrf/%d/addresses/%s", NAT44TwicePoolPrefix, vrf, first)
	if last != "" && last != first {
		key += "-" + last
	}
	return key
}

// TwicePoolContains reports whether an address is in the pool of a NAT44TwicePoolKey.
func TwicePoolContains(key string, addr netip.Addr) bool {
	_, addrs, ok := strings.Cut(strings.TrimPrefix(key, NAT44TwicePoolPrefix), "/addresses/")
	text, end, isRange := strings.Cut(addrs, "-")
	if !isRange {
		end = text
	}
	first, errFirst := netip.ParseAddr(text)
	last, errLast := netip.ParseAddr(end)
	return ok && errFirst == nil && errLast == nil && !addr.Less(first) && !last.Less(addr)
}
