package interfaces

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/models"
)

// Interface names in derived keys may contain slashes (GigabitEthernet0/9/0), so keys are parsed
// from both ends.

const derivedPrefix = "vpp/interface/"

// isAddressKey: vpp/interface/{if}/address/{source}/{addr}/{len}
func isAddressKey(key string) bool {
	_, _, ok := parseAddressKey(key)
	return ok
}

// parseAddressKey returns the address of an interface, or a reference to it.
func parseAddressKey(key string) (iface, addr string, ok bool) {
	iface, rest, ok := cutLast(key, "/address/")
	if !ok {
		return "", "", false
	}
	source, addr, _ := strings.Cut(rest, "/")
	if source == models.AddrAllocRef {
		return iface, addr, netalloc.IsRef(addr)
	}
	_, err := netip.ParsePrefix(addr)
	return iface, addr, err == nil
}

// isVRFKey: vpp/interface/{if}/vrf/…
func isVRFKey(key string) bool {
	_, _, ok := cutLast(key, "/vrf/")
	return ok && !isAddressKey(key)
}

// vrfKey is the VRF in a key: a number, or the interface that it is inherited from.
type vrfKey struct {
	iface    string
	vrf      uint32
	versions vswitch.IPVersions
	lender   string
}

func parseVRFKey(key string) (vrfKey, error) {
	iface, rest, ok := cutLast(key, "/vrf/")
	if !ok {
		return vrfKey{}, fmt.Errorf("%q is no key of an interface in a VRF", key)
	}
	if lender, ok := strings.CutPrefix(rest, "from-interface/"); ok {
		return vrfKey{iface: iface, lender: lender}, nil
	}
	number, version, ok := strings.Cut(rest, "/ip-version/")
	vrf, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return vrfKey{}, fmt.Errorf("%q is no key of an interface in a VRF", key)
	}
	v := vrfKey{iface: iface, vrf: uint32(vrf)}
	v.versions.V4 = version != "v6"
	v.versions.V6 = version != "v4"
	return v, nil
}

// isHasAddressKey: vpp/interface/{if}/has-IP-address
func isHasAddressKey(key string) bool {
	iface, ok := strings.CutSuffix(key, "/has-IP-address")
	return ok && strings.HasPrefix(iface, derivedPrefix)
}

// isUnnumberedKey: vpp/interface/unnumbered/{if}
func isUnnumberedKey(key string) bool { return isKeyOf(key, unnumberedPrefix) }

var unnumberedPrefix = models.UnnumberedInterfaceKey("")

// isDHCPClientKey: vpp/interface/dhcp-client/{if}
func isDHCPClientKey(key string) bool { return isKeyOf(key, dhcpClientPrefix) }

// isDHCPLeaseKey: vpp/interface/dhcp-lease/{if}
func isDHCPLeaseKey(key string) bool { return isKeyOf(key, dhcpLeasePrefix) }

// isKeyOf reports whether only an interface name follows the prefix.
func isKeyOf(key, prefix string) bool {
	return len(key) > len(prefix) && strings.HasPrefix(key, prefix) &&
		!isAddressKey(key) && !isVRFKey(key) && !isHasAddressKey(key)
}

var (
	dhcpClientPrefix = models.DHCPClientKey("")
	dhcpLeasePrefix  = models.DHCPLeaseKey("")
)

func cutLast(key, sep string) (iface, rest string, ok bool) {
	key, ok = strings.CutPrefix(key, derivedPrefix)
	i := strings.LastIndex(key, sep)
	if !ok || i <= 0 {
		return "", "", false
	}
	return key[:i], key[i+len(sep):], true
}
