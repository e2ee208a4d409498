package own

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"

	"github.com/vishvananda/netlink"
)

// Clear examines a device that prevents an addition. It returns the device if it is the wanted one,
// and deletes it if it is incomplete.
func (v *Host) Clear(name, alias, far string) (netlink.Link, error) {
	link, err := v.LinkNamed(name)
	switch {
	case rtnl.IsGone(err):
		return nil, fmt.Errorf("the name %s of the far end is taken by another device: remove that, or choose another host_if_name", far)
	case err != nil:
		return nil, err
	case link.Attrs().Alias == alias:
		return link, nil
	case IsUnmarked(link):
		return nil, rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
	}
	return nil, fmt.Errorf("device %s exists and is not ours (alias %q): remove or rename it", name, link.Attrs().Alias)
}

func (v *Host) DeleteUnmarked(device string) error {
	link, err := v.LinkNamed(device)
	if rtnl.IsGone(err) || err == nil && !IsUnmarked(link) {
		return nil
	}
	if err != nil {
		return err
	}
	return rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
}

// DisableIPv6 disables IPv6 on devices that only carry frames.
func (v *Host) DisableIPv6(devices ...string) error {
	return v.NS.Run(func() error {
		for _, dev := range devices {
			name := "ipv6/conf/" + dev + "/disable_ipv6"
			if namespace.ReadSysctl(name) == "" {
				continue
			}
			if err := namespace.EnsureSysctl(name, "1"); err != nil {
				return err
			}
		}
		return nil
	})
}
