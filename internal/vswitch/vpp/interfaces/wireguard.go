package interfaces

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"go.fd.io/govpp/binapi/wireguard"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

var wireGuardModule = session.NewModule("wireguard_plugin.so", "WireGuard tunnels",
	&wireguard.WireguardInterfaceCreate{}, &wireguard.WireguardInterfaceCreateReply{},
	&wireguard.WireguardInterfaceDelete{}, &wireguard.WireguardInterfaceDeleteReply{},
	&wireguard.WireguardInterfaceDump{}, &wireguard.WireguardInterfaceDetails{},
)

func (v *Interfaces) makeWireGuard(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	link := iface.GetWireguard()
	key, err := wgtypes.ParseKey(link.GetPrivateKey())
	if err != nil {
		return 0, fmt.Errorf("wireguard.private_key: %w", err)
	}
	src, err := convert.ParseAddr(link.GetSrcAddr())
	if err != nil {
		return 0, err
	}
	var reply wireguard.WireguardInterfaceCreateReply
	err = v.vpp.Call(ctx, wireGuardModule, &wireguard.WireguardInterfaceCreate{Interface: wireguard.WireguardInterface{
		UserInstance: ^uint32(0), PrivateKey: key[:], PublicKey: make([]byte, wgtypes.KeyLen), Port: uint16(link.GetPort()), SrcIP: convert.Address(src),
	}}, &reply)
	if err != nil {
		return 0, fmt.Errorf("making a WireGuard tunnel at port %d: %w", link.GetPort(), err)
	}
	return reply.SwIfIndex, nil
}

// removeWireGuard removes its peers as well.
func (v *Interfaces) removeWireGuard(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, wireGuardModule, &wireguard.WireguardInterfaceDelete{SwIfIndex: i}, &wireguard.WireguardInterfaceDeleteReply{})
}

// describeWireGuard compares keys by their public part.
func describeWireGuard(d *wireguard.WireguardInterfaceDetails, expected *vpp_interfaces.WireguardLink) *vpp_interfaces.WireguardLink {
	link := &vpp_interfaces.WireguardLink{
		PrivateKey: ownership.UnknownPrefix + base64.StdEncoding.EncodeToString(d.Interface.PublicKey),
		Port:       uint32(d.Interface.Port), SrcAddr: addrText(d.Interface.SrcIP, expected.GetSrcAddr()),
	}
	if key, err := wgtypes.ParseKey(expected.GetPrivateKey()); err == nil {
		if public := key.PublicKey(); slices.Equal(public[:], d.Interface.PublicKey) {
			link.PrivateKey = expected.GetPrivateKey()
		}
	}
	return link
}
