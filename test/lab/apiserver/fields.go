package apiserver

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func invalid(at *field.Path, value any, texts []string) (errs field.ErrorList) {
	for _, text := range texts {
		errs = append(errs, field.Invalid(at, value, text))
	}
	return errs
}

func oneOf[T ~string](at *field.Path, value T, allowed ...T) *field.Error {
	if value == "" {
		return field.Required(at, "")
	}
	return field.NotSupported(at, value, allowed)
}

func checkPort(at *field.Path, port int32) field.ErrorList {
	return invalid(at, port, validation.IsValidPortNum(int(port)))
}

func checkPortName(at *field.Path, name string) field.ErrorList {
	return invalid(at, name, validation.IsValidPortName(name))
}

func checkTarget(at *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.String {
		return checkPortName(at, port.StrVal)
	}
	return checkPort(at, port.IntVal)
}

func checkProtocol(at *field.Path, protocol corev1.Protocol) field.ErrorList {
	switch protocol {
	case "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return nil
	}
	return field.ErrorList{oneOf(at, protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)}
}

func checkIP(at *field.Path, address string) field.ErrorList {
	if _, err := netip.ParseAddr(address); err != nil {
		return field.ErrorList{field.Invalid(at, address, "must be an IP address, such as 10.9.8.7 or 2001:db8::7")}
	}
	return nil
}

// checkUsableIP rejects addresses that are not unicast addresses of a remote host.
func checkUsableIP(at *field.Path, address string) field.ErrorList {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return checkIP(at, address)
	}
	addr = addr.Unmap()
	for _, special := range []struct {
		is   bool
		what string
	}{
		{addr.IsUnspecified(), "unspecified"}, {addr.IsLoopback(), "a loopback address"},
		{addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast(), "a link-local address"},
	} {
		if special.is {
			return field.ErrorList{field.Invalid(at, address, "may not be "+special.what)}
		}
	}
	return nil
}

func checkIPOf(at *field.Path, address string, ipv6 bool) field.ErrorList {
	addr, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return checkIP(at, address)
	case addr.Is6() != ipv6 && ipv6:
		return field.ErrorList{field.Invalid(at, address, "must be an IPv6 address")}
	case addr.Is6() != ipv6:
		return field.ErrorList{field.Invalid(at, address, "must be an IPv4 address")}
	}
	return checkUsableIP(at, address)
}

func checkCIDR(at *field.Path, network string) field.ErrorList {
	if _, err := netip.ParsePrefix(network); err != nil {
		return field.ErrorList{field.Invalid(at, network, "must be a network, such as 10.9.8.0/24 or 2001:db8::/64")}
	}
	return nil
}
