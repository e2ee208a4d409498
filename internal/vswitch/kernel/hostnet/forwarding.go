package hostnet

import (
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"golang.org/x/sys/unix"
)

// concernsForwarding reports whether a message is about all devices, or about forwarding being
// disabled on the device of one of our interfaces. The kernel sends such messages for new devices,
// too.
func (v *Driver) concernsForwarding(m []byte) bool {
	c, ok := rtnl.ParseNetconf(m)
	if !ok {
		return false
	}
	if _, known := v.Dev.Name(c.Index); known {
		return c.Forwarding == rtnl.Off && v.needed(c.Family)
	}
	return c.Index == rtnl.AllDevices
}

func (v *Driver) needed(family int) bool { return family == unix.AF_INET || v.Forwards6() }

func (v *Driver) notForwarding() (warnings []string, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		version, directory, all := "IPv4", "ipv4", "ipv4/ip_forward"
		if family == unix.AF_INET6 {
			version, directory, all = "IPv6", "ipv6", "ipv6/conf/all/forwarding"
		}
		if !v.needed(family) {
			continue
		}
		var value string
		if err := v.NS.Run(func() error { value = namespace.ReadSysctl(all); return nil }); err != nil {
			return nil, err
		}
		if value == "" {
			continue // the kernel does not support the IP version
		}
		if value != "1" {
			warnings = append(warnings, fmt.Sprintf("sysctl net/%s is %s: pods reach only their own node over %s: set it to 1, and find the program that changed it",
				all, value, version))
			continue
		}
		devices, err := v.devicesNotForwarding(family)
		if err != nil {
			return nil, err
		}
		for iface, device := range devices {
			warnings = append(warnings, fmt.Sprintf("sysctl net/%s/conf/%s/forwarding is 0: %s packets received on interface %q are dropped: set it to 1, and find the program that changed it",
				directory, device, version, iface))
		}
	}
	return warnings, nil
}

func (v *Driver) devicesNotForwarding(family int) (map[string]string, error) {
	settings, err := v.Net.Netconfs(family)
	if err != nil {
		return nil, fmt.Errorf("reading which devices forward: %w", err)
	}
	found := map[string]string{}
	for _, c := range settings {
		if c.Forwarding != rtnl.Off || c.Index == rtnl.AllDevices {
			continue
		}
		iface, known := v.Dev.Name(c.Index)
		if !known || !v.carriesPackets(iface) {
			continue
		}
		link, err := v.Net.LinkByIndex(c.Index)
		if rtnl.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking up device %d: %w", c.Index, err)
		}
		found[iface] = link.Attrs().Name
	}
	return found, nil
}

// carriesPackets reports whether packets from the interface's device are routed. Tunnels of bridge
// domains and bond members only carry frames.
func (v *Driver) carriesPackets(name string) bool {
	iface := v.Reg.Iface(name)
	return iface != nil && iface.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL && !v.Reg.IsMember(name)
}
