package vpp

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"go.fd.io/govpp/binapi/wireguard"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

var wireGuardModule = newModule("wireguard_plugin.so", "WireGuard tunnels",
	&wireguard.WireguardInterfaceCreate{}, &wireguard.WireguardInterfaceCreateReply{},
	&wireguard.WireguardInterfaceDelete{}, &wireguard.WireguardInterfaceDeleteReply{},
	&wireguard.WireguardInterfaceDump{}, &wireguard.WireguardInterfaceDetails{},
)

func (v interfaces) makeWireGuard(ctx context.Context, iface *vpp_interfaces.Interface) (index, error) {
	link := iface.GetWireguard()
	key, err := wgtypes.ParseKey(link.GetPrivateKey())
	if err != nil {
		return 0, fmt.Errorf("wireguard.private_key: %w", err)
	}
	src, err := parseAddr(link.GetSrcAddr())
	if err != nil {
		return 0, err
	}
	var reply wireguard.WireguardInterfaceCreateReply
	err = v.call(ctx, wireGuardModule, &wireguard.WireguardInterfaceCreate{Interface: wireguard.WireguardInterface{
		UserInstance: ^uint32(0), PrivateKey: key[:], PublicKey: make([]byte, wgtypes.KeyLen), Port: uint16(link.GetPort()), SrcIP: addressOf(src),
	}}, &reply)
	if err != nil {
		return 0, fmt.Errorf("making a WireGuard tunnel at port %d: %w", link.GetPort(), err)
	}
	return reply.SwIfIndex, nil
}

// removeWireGuard removes its peers as well.
func (v interfaces) removeWireGuard(ctx context.Context, i index) error {
	return v.call(ctx, wireGuardModule, &wireguard.WireguardInterfaceDelete{SwIfIndex: i}, &wireguard.WireguardInterfaceDeleteReply{})
}

// describeWireGuard compares keys by what is public of them.
func describeWireGuard(d *wireguard.WireguardInterfaceDetails, expected *vpp_interfaces.WireguardLink) *vpp_interfaces.WireguardLink {
	link := &vpp_interfaces.WireguardLink{
		PrivateKey: unknownPrefix + base64.StdEncoding.EncodeToString(d.Interface.PublicKey),
		Port:       uint32(d.Interface.Port), SrcAddr: addrText(d.Interface.SrcIP, expected.GetSrcAddr()),
	}
	if key, err := wgtypes.ParseKey(expected.GetPrivateKey()); err == nil {
		if public := key.PublicKey(); slices.Equal(public[:], d.Interface.PublicKey) {
			link.PrivateKey = expected.GetPrivateKey()
		}
	}
	return link
}
