package links

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// WireGuard: rtnetlink creates the device, and a generic netlink protocol sets keys and peers. It
// has no notifications, so only a resync finds foreign changes. The route determines the source
// address of packets, regardless of wireguard.src_addr.

func (v *Driver) withWireGuard(fn func(*wgctrl.Client) error) error {
	return v.NS.Run(func() error {
		c, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer c.Close()
		return fn(c)
	})
}

func (v *Driver) wireGuardDevice(name string) (device *wgtypes.Device, err error) {
	err = v.withWireGuard(func(c *wgctrl.Client) error {
		device, err = c.Device(name)
		if errors.Is(err, os.ErrNotExist) {
			return rtnl.ErrNoDevice
		}
		return err
	})
	return device, err
}

func (v *Driver) configureWireGuard(iface *vpp_interfaces.Interface) error {
	link := iface.GetWireguard()
	key, err := wgtypes.ParseKey(link.GetPrivateKey())
	if err != nil {
		return err
	}
	port := int(link.GetPort())
	return v.withWireGuard(func(c *wgctrl.Client) error {
		return c.ConfigureDevice(own.DeviceName(own.DevInterface, iface.GetName()), wgtypes.Config{PrivateKey: &key, ListenPort: &port})
	})
}

func (inv *inventory) describeWireGuard(iface *vpp_interfaces.Interface, link *netlink.Wireguard, expected *vpp_interfaces.WireguardLink) {
	wg := &vpp_interfaces.WireguardLink{SrcAddr: expected.GetSrcAddr()}
	if device, err := inv.wireGuard(link.Attrs().Name); err == nil {
		wg.PrivateKey, wg.Port = device.PrivateKey.String(), uint32(device.ListenPort)
	}
	iface.Type, iface.Link = vpp_interfaces.Interface_WIREGUARD_TUNNEL, &vpp_interfaces.Interface_Wireguard{Wireguard: wg}
}

func (v *Driver) PeerPort() vswitch.Values[*vpp_wireguard.Peer] { return peers{v} }

type peers struct{ *Driver }

func (v peers) Create(_ context.Context, peer *vpp_wireguard.Peer) error {
	for _, other := range own.All[*vpp_wireguard.Peer](v.Reg) {
		if err := conflict(peer, other); err != nil {
			return fmt.Errorf("adding a peer to interface %q: %w", peer.GetWgIfName(), err)
		}
	}
	config, err := peerConfig(peer)
	if err == nil {
		err = v.configure(peer, config)
	}
	if err != nil {
		return fmt.Errorf("adding peer %s to interface %q: %w", peer.GetPublicKey(), peer.GetWgIfName(), err)
	}
	v.Reg.Put(peer)
	return nil
}

func (v peers) Delete(_ context.Context, peer *vpp_wireguard.Peer) error {
	key, err := wgtypes.ParseKey(peer.GetPublicKey())
	if err == nil {
		err = v.configure(peer, wgtypes.PeerConfig{PublicKey: key, Remove: true})
	}
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("removing peer %s from interface %q: %w", peer.GetPublicKey(), peer.GetWgIfName(), err)
	}
	v.Reg.Remove(peer)
	return nil
}

func conflict(peer, other *vpp_wireguard.Peer) error {
	switch {
	case peer.GetWgIfName() != other.GetWgIfName(), peer.GetEndpoint() == other.GetEndpoint() && peer.GetPort() == other.GetPort():
		return nil
	case peer.GetPublicKey() == other.GetPublicKey():
		return fmt.Errorf("peer %s port %d has the same public key", other.GetEndpoint(), other.GetPort())
	}
	for _, text := range peer.GetAllowedIps() {
		if slices.ContainsFunc(other.GetAllowedIps(), func(o string) bool { return vswitch.AllowedIP(o) == vswitch.AllowedIP(text) }) {
			return fmt.Errorf("peer %s port %d has the same allowed IP %s", other.GetEndpoint(), other.GetPort(), text)
		}
	}
	return nil
}

func (v peers) configure(peer *vpp_wireguard.Peer, config wgtypes.PeerConfig) error {
	link, err := v.Link(peer.GetWgIfName())
	if err != nil {
		return err
	}
	err = v.withWireGuard(func(c *wgctrl.Client) error {
		return c.ConfigureDevice(link.Attrs().Name, wgtypes.Config{Peers: []wgtypes.PeerConfig{config}})
	})
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("device %s is no WireGuard device: %w", link.Attrs().Name, rtnl.ErrNoDevice)
	}
	return err
}

func peerConfig(peer *vpp_wireguard.Peer) (config wgtypes.PeerConfig, err error) {
	key, err := wgtypes.ParseKey(peer.GetPublicKey())
	if err != nil {
		return config, err
	}
	endpoint, err := netip.ParseAddr(peer.GetEndpoint())
	if err != nil {
		return config, err
	}
	keepalive := time.Duration(peer.GetPersistentKeepalive()) * time.Second
	config = wgtypes.PeerConfig{
		PublicKey: key, Endpoint: net.UDPAddrFromAddrPort(netip.AddrPortFrom(endpoint, uint16(peer.GetPort()))),
		PersistentKeepaliveInterval: &keepalive, ReplaceAllowedIPs: true,
	}
	for _, text := range peer.GetAllowedIps() {
		p := vswitch.AllowedIP(text)
		config.AllowedIPs = append(config.AllowedIPs, net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	return config, nil
}

// List identifies a peer by its key. It does not compare endpoints, because WireGuard learns them
// from packets.
func (v peers) List(_ context.Context, expected []*vpp_wireguard.Peer) ([]*vpp_wireguard.Peer, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	var list []*vpp_wireguard.Peer
	for name, link := range devs.ByLogical {
		if _, ok := link.(*netlink.Wireguard); !ok {
			continue
		}
		device, err := v.wireGuardDevice(link.Attrs().Name)
		if rtnl.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the peers of interface %q: %w", name, err)
		}
		for _, p := range device.Peers {
			list = append(list, describePeer(name, p, expected))
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func describePeer(iface string, p wgtypes.Peer, expected []*vpp_wireguard.Peer) *vpp_wireguard.Peer {
	peer := &vpp_wireguard.Peer{WgIfName: iface, PublicKey: p.PublicKey.String(), PersistentKeepalive: uint32(p.PersistentKeepaliveInterval / time.Second)}
	for _, ip := range p.AllowedIPs {
		ones, _ := ip.Mask.Size()
		peer.AllowedIps = append(peer.AllowedIps, netip.PrefixFrom(own.AddrOf(ip.IP), ones).String())
	}
	slices.SortFunc(peer.AllowedIps, strings.Compare)
	for _, want := range expected {
		if want.GetWgIfName() == iface && want.GetPublicKey() == peer.GetPublicKey() {
			peer.Endpoint, peer.Port, peer.Flags = want.GetEndpoint(), want.GetPort(), want.GetFlags()
			return peer
		}
	}
	if p.Endpoint != nil {
		peer.Endpoint, peer.Port = own.AddrOf(p.Endpoint.IP).String(), uint32(p.Endpoint.Port)
	}
	return peer
}
