package links

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Router advertisements: the kernel configures a device from them. Because a node forwards, the
// device must be set to accept them nevertheless (accept_ra 2).
const (
	acceptRA    = "accept_ra"
	autoconf    = "autoconf"
	acceptRoute = "accept_ra_defrtr"
)

const protoRA = 2

func confOf(device, name string) string { return "ipv6/conf/" + device + "/" + name }

func (v interfaces) SetIP6ND(_ context.Context, iface string, nd *vpp_interfaces.Interface_IP6ND) error {
	flag := map[bool]string{true: "1", false: "0"}
	err := v.WithDevice(iface, func(index int) error {
		link, err := v.Net.LinkByIndex(index)
		if err != nil {
			return err
		}
		device := link.Attrs().Name
		return v.NS.Run(func() error {
			if namespace.ReadSysctl(confOf(device, acceptRA)) == "" {
				return vswitch.Unsupported("ip6_nd: device %s has no IPv6: enable that, or leave ip6_nd out", device)
			}
			err := errors.Join(
				namespace.EnsureSysctl(confOf(device, autoconf), flag[nd.GetAddressAutoconfig()]),
				namespace.EnsureSysctl(confOf(device, acceptRoute), flag[nd.GetInstallDefaultRoutes()]),
				namespace.EnsureSysctl(confOf(device, acceptRA), "2"))
			if err == nil {
				// Without it, nothing happens before the next periodic advertisement. A device
				// without an address solicits routers itself once it has one.
				_ = solicitRouters(index)
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("making interface %q follow router advertisements: %w", iface, err)
	}
	return nil
}

func solicitRouters(index int) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		return err
	}
	const routerSolicitation = 133
	allRouters := netip.MustParseAddr("ff02::2")
	return unix.Sendto(fd, []byte{routerSolicitation, 7: 0}, 0, &unix.SockaddrInet6{Addr: allRouters.As16(), ZoneId: uint32(index)})
}

// UnsetIP6ND removes the learned configuration from our own devices. An existing device keeps it,
// because the host may depend on it.
func (v interfaces) UnsetIP6ND(_ context.Context, iface string) error {
	err := v.WithDevice(iface, func(index int) error {
		link, err := v.Net.LinkByIndex(index)
		if err != nil {
			return err
		}
		if own.IsOurs(link) {
			if err := v.IgnoreRouters(link.Attrs().Name); err != nil {
				return err
			}
		}
		err = v.NS.Run(func() error {
			var errs []error
			for _, name := range []string{autoconf, acceptRoute} {
				if was := namespace.ReadSysctl(confOf("default", name)); was != "" && namespace.ReadSysctl(confOf(link.Attrs().Name, name)) != "" {
					errs = append(errs, namespace.EnsureSysctl(confOf(link.Attrs().Name, name), was))
				}
			}
			return errors.Join(errs...)
		})
		if err == nil && own.IsOurs(link) {
			err = v.forgetAdvertised(index)
		}
		return err
	})
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("making interface %q ignore router advertisements: %w", iface, err)
	}
	return nil
}

func (v *Driver) forgetAdvertised(index int) error {
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Proto == protoRA {
			if err := rtnl.IgnoreGone(v.Net.DelAddress(a)); err != nil {
				return err
			}
		}
	}
	found, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return v.Net.RouteListFiltered(unix.AF_INET6, &netlink.Route{LinkIndex: index, Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return err
	}
	for i := range found {
		if err := rtnl.IgnoreGone(v.Net.RouteDel(&found[i])); err != nil {
			return err
		}
	}
	return nil
}

// readIP6ND reads which devices accept router advertisements, by index: ours, and existing ones
// that should.
func (v *Driver) readIP6ND(inv *inventory) error {
	inv.ip6nd = map[int]*vpp_interfaces.Interface_IP6ND{}
	return v.NS.Run(func() error {
		for index, link := range inv.ByIndex {
			name, _ := inv.nameOf(index)
			device := link.Attrs().Name
			if !own.IsOurs(link) && inv.expected[name].GetIp6Nd() == nil || namespace.ReadSysctl(confOf(device, acceptRA)) != "2" {
				continue
			}
			inv.ip6nd[index] = &vpp_interfaces.Interface_IP6ND{
				AddressAutoconfig: namespace.ReadSysctl(confOf(device, autoconf)) == "1", InstallDefaultRoutes: namespace.ReadSysctl(confOf(device, acceptRoute)) == "1",
			}
		}
		return nil
	})
}
