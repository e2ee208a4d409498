package descriptor

import (
	"net"
	"net/netip"
)

// MaxName is the maximum length of a logical name, limited by VPP's tags.
const MaxName = 63

// ValidName checks a logical name.
func ValidName(field, name string) error {
	switch {
	case name == "":
		return Invalid(field, "the name is empty")
	case len(name) > MaxName:
		return Invalid(field, "name %q is too long: use at most %d characters", name, MaxName)
	}
	return nil
}

// Required returns an error if a field is empty; what completes the error text.
func Required(field, value, what string) error {
	if value == "" {
		return Invalid(field, "%s is missing: %s", field, what)
	}
	return nil
}

// FirstError returns the first error.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ValidAddrOf checks an address of the IP version.
func ValidAddrOf(field, addr string, ipv6 bool) error {
	if err := ValidAddr(field, addr); err != nil {
		return err
	}
	if IsIPv6(addr) != ipv6 {
		return Invalid(field, "%s is of the other IP version: give an %s address", addr, map[bool]string{false: "IPv4", true: "IPv6"}[ipv6])
	}
	return nil
}

// ValidPort checks a port number.
func ValidPort(field string, port uint32) error {
	if port > 65535 {
		return Invalid(field, "port %d is out of range: use at most 65535", port)
	}
	return nil
}

// ValidMAC checks a hardware address.
func ValidMAC(field, mac string) error {
	if hw, err := net.ParseMAC(mac); err != nil || len(hw) != 6 {
		return Invalid(field, "%q is no MAC address: write it like 02:fe:12:34:56:78", mac)
	}
	return nil
}

// ValidAddr checks an IP address.
func ValidAddr(field, addr string) error {
	if _, err := netip.ParseAddr(addr); err != nil {
		return Invalid(field, "%q is no IP address: write it like 10.1.1.1 or fd00::1", addr)
	}
	return nil
}

// ValidPrefix checks an IP address with prefix length.
func ValidPrefix(field, prefix string) error {
	if _, err := netip.ParsePrefix(prefix); err != nil {
		return Invalid(field, "%q is no IP address with prefix length: write it like 10.1.1.1/24 or fd00::1/64", prefix)
	}
	return nil
}
