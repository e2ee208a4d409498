package neighbours

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// proxyARP adds a proxy neighbour of our protocol per address and interface. The kernel answers
// only for addresses routed by another interface; other answers would attract packets to drop.
type proxyARP struct{ *Driver }

func (v *Driver) ProxyARPPort() vswitch.ProxyARP { return proxyARP{v} }

// maxProxied limits the addresses of a value, because each is a kernel entry.
const maxProxied = 4096

type addrSet map[netip.Addr]bool

func proxiedBy(p *vpp_l3.ProxyARP) (addrSet, error) {
	set := addrSet{}
	for _, r := range p.GetRanges() {
		if r.GetVrfId() != 0 {
			return nil, vswitch.Unsupported("ranges.vrf_id: the Linux kernel answers on the interfaces of the value, " +
				"for addresses to which the VRF of the interface has routes: remove it")
		}
		first, err := netip.ParseAddr(r.GetFirstIpAddr())
		last, lastErr := netip.ParseAddr(r.GetLastIpAddr())
		if err := errors.Join(err, lastErr); err != nil {
			return nil, err
		}
		for addr := first; addr.IsValid() && !last.Less(addr); addr = addr.Next() {
			if len(set) == maxProxied && !set[addr] {
				return nil, vswitch.Unsupported("proxy ARP for more than %d addresses: give smaller ranges, "+
					"or set the sysctl net.ipv4.conf.<device>.proxy_arp on the host, which answers for all that it has routes to", maxProxied)
			}
			set[addr] = true
		}
	}
	return set, nil
}

func (v proxyARP) Create(_ context.Context, p *vpp_l3.ProxyARP) error {
	want, err := proxiedBy(p)
	if err != nil {
		return err
	}
	v.Reg.Put(p)
	have, err := v.proxied()
	for index, addrs := range have {
		err = errors.Join(err, v.setProxied(index, addrs, want))
	}
	if err != nil {
		return fmt.Errorf("setting the addresses of proxy ARP: %w", err)
	}
	return nil
}

// Delete also removes entries on unknown interfaces.
func (v proxyARP) Delete(_ context.Context, p *vpp_l3.ProxyARP) error {
	err := v.Reg.During(p, func() error {
		have, err := v.proxied()
		for index, addrs := range have {
			err = errors.Join(err, v.setProxied(index, addrs, nil))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ending proxy ARP: %w", err)
	}
	return nil
}

func (v proxyARP) AddInterface(_ context.Context, iface string) error {
	err := v.WithDevice(iface, func(index int) error { return v.proxyOn(index) })
	if err != nil {
		return fmt.Errorf("proxy ARP on interface %q: %w", iface, err)
	}
	return nil
}

func (v proxyARP) proxyOn(index int) error {
	value, _ := v.Reg.Get(models.ProxyARP.KeyPrefix())
	p, _ := value.(*vpp_l3.ProxyARP)
	want, err := proxiedBy(p)
	if err != nil {
		return err
	}
	have, err := v.proxied()
	if err != nil {
		return err
	}
	return v.setProxied(index, have[index], want)
}

func (v proxyARP) RemoveInterface(_ context.Context, iface string) error {
	err := v.WithFoundDevice(iface, func(index int) error {
		have, err := v.proxied()
		if err != nil {
			return err
		}
		return v.setProxied(index, have[index], nil)
	})
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("ending proxy ARP on interface %q: %w", iface, err)
	}
	return nil
}

// RestoreProxyARP restores the entries that were lost while the device was down.
func (v *Driver) RestoreProxyARP(iface string, index int) error {
	if slices.Contains(v.Reg.KeysOf(iface), models.ProxyARP.KeyPrefix()) {
		return proxyARP{v}.proxyOn(index)
	}
	return nil
}

// List returns the interfaces that have exactly the expected addresses.
func (v proxyARP) List(_ context.Context, expected []*vpp_l3.ProxyARP) ([]*vpp_l3.ProxyARP, error) {
	have, err := v.proxied()
	if err != nil {
		return nil, err
	}
	var list []*vpp_l3.ProxyARP
	switch {
	case len(expected) > 0:
		if want, err := proxiedBy(expected[0]); err == nil {
			found, err := v.describeProxied(have, want)
			if err != nil {
				return nil, err
			}
			found.Ranges = expected[0].GetRanges()
			list = append(list, found)
		}
	case len(have) > 0:
		found, err := v.describeProxied(have, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

// describeProxied returns the devices that have exactly the wanted addresses; any device, if none
// are wanted.
func (v proxyARP) describeProxied(have map[int]addrSet, want addrSet) (*vpp_l3.ProxyARP, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	hostSides := v.HostSides(devs)
	p := &vpp_l3.ProxyARP{}
	for _, index := range slices.Sorted(maps.Keys(have)) {
		if want != nil && !maps.Equal(have[index], want) {
			continue
		}
		name, ok := hostSides[index]
		if !ok {
			name = own.DeviceOrUnknown(devs, index)
		}
		p.Interfaces = append(p.Interfaces, &vpp_l3.ProxyARP_Interface{Name: name})
	}
	return p, nil
}

func (v proxyARP) setProxied(index int, have, want addrSet) error {
	for addr := range want {
		if !have[addr] {
			if err := changeProxy(v.Net, unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, index, addr); err != nil {
				return fmt.Errorf("adding %s to device %d: %w", addr, index, err)
			}
		}
	}
	for addr := range have {
		if !want[addr] {
			if err := rtnl.IgnoreGone(changeProxy(v.Net, unix.RTM_DELNEIGH, 0, index, addr)); err != nil {
				return fmt.Errorf("removing %s from device %d: %w", addr, index, err)
			}
		}
	}
	return nil
}

func (v proxyARP) proxied() (map[int]addrSet, error) {
	entries, err := proxies(v.Net)
	if err != nil {
		return nil, fmt.Errorf("reading proxy neighbours: %w", err)
	}
	have := map[int]addrSet{}
	for _, n := range entries {
		if n.Proto != own.ProtoOurs || !n.Ip.Is4() {
			continue
		}
		if have[n.Index] == nil {
			have[n.Index] = addrSet{}
		}
		have[n.Index][n.Ip] = true
	}
	return have, nil
}

func changeProxy(r *rtnl.Conn, typ, flags, index int, addr netip.Addr) error {
	req := r.Request(typ, flags)
	req.AddData(&netlink.Ndmsg{Family: uint8(rtnl.Family(addr)), Index: uint32(index), Flags: netlink.NTF_PROXY, State: netlink.NUD_PERMANENT})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, addr.AsSlice()))
	if typ == unix.RTM_NEWNEIGH {
		req.AddData(nl.NewRtAttr(rtnl.AttrProtocol, []byte{own.ProtoOurs}))
	}
	return r.Do(req)
}

func proxies(r *rtnl.Conn) ([]rtnl.Neighbour, error) {
	return rtnl.Dump(func() ([]rtnl.Neighbour, error) {
		req := r.Request(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Family: unix.AF_INET, Flags: netlink.NTF_PROXY})
		msgs, err := r.Execute(req, unix.RTM_NEWNEIGH)
		var list []rtnl.Neighbour
		for _, m := range msgs {
			if n, ok := rtnl.ParseNeighbour(m); ok && m[10]&netlink.NTF_PROXY != 0 {
				list = append(list, n)
			}
		}
		return list, err
	})
}
