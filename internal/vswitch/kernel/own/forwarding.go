package own

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
)

// EnableForwarding enables IPv4 forwarding, and IPv6 forwarding if an earlier agent left IPv6
// objects of ours.
func (v *Host) EnableForwarding() error {
	if err := v.NS.Run(func() error { return namespace.EnsureSysctl("ipv4/ip_forward", "1") }); err != nil {
		return fmt.Errorf("enabling IP forwarding: %w", err)
	}
	ours, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return v.Net.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: ProtoOurs}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return fmt.Errorf("reading routes: %w", err)
	}
	if len(ours) > 0 {
		return v.EnableForwarding6()
	}
	return nil
}

// EnableForwarding6 enables IPv6 forwarding. It is called with the first IPv6 route, segment,
// translation or interface address. Without any, the host's IPv6 stays unchanged.
func (v *Host) EnableForwarding6() error {
	if v.forwards6.Load() {
		return nil
	}
	if err := v.NS.Run(namespace.ForwardIPv6); err != nil {
		return fmt.Errorf("enabling IPv6 forwarding: %w", err)
	}
	v.forwards6.Store(true)
	return nil
}

// Forwards6 reports whether IPv6 forwarding has been enabled.
func (v *Host) Forwards6() bool { return v.forwards6.Load() }

// IgnoreRouters disables router advertisements on our device, which it would accept without IPv6
// forwarding.
func (v *Host) IgnoreRouters(device string) error {
	return v.NS.Run(func() error {
		return namespace.SetSysctl("ipv6/conf/"+device+"/accept_ra", "0")
	})
}
