package own

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
)

// Tunnel is the identity of a VXLAN tunnel.
type Tunnel struct {
	VXLANID
	Dst netip.Addr
}

// OfTwo reports whether the tunnel has exactly one peer; a group has many.
func (t Tunnel) OfTwo() bool { return t.Dst.IsValid() && !t.Dst.IsMulticast() }

func TunnelOf(iface *vpp_interfaces.Interface) Tunnel {
	link := iface.GetVxlan()
	src, _ := netip.ParseAddr(link.GetSrcAddress())
	dst, _ := netip.ParseAddr(link.GetDstAddress())
	return Tunnel{VXLANID{src.Unmap(), link.GetVni()}, dst.Unmap()}
}

// VXLANDevice returns nil without an error if the device does not exist.
func (v *Host) VXLANDevice(id VXLANID) (netlink.Link, error) {
	link, err := v.LinkNamed(VXLANDeviceName(id))
	switch {
	case rtnl.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking up device %s: %w", VXLANDeviceName(id), err)
	case link.Attrs().Alias != id.Alias():
		return nil, nil
	}
	return link, nil
}

// VXLANDeviceName returns at most 15 characters: VNIs have 24 bits.
func VXLANDeviceName(id VXLANID) string {
	sum := sha256.Sum256([]byte(id.Src.String()))
	return fmt.Sprintf("%s%d-%x", devVXLAN, id.Vni, sum[:2])
}

// VXLANID identifies a VXLAN device.
type VXLANID struct {
	Src netip.Addr
	Vni uint32
}

func (id VXLANID) Alias() string { return fmt.Sprintf("%s%d/%s", aliasVXLAN, id.Vni, id.Src) }

func ParseVXLANAlias(alias string) (id VXLANID, ok bool) {
	text, ok := strings.CutPrefix(alias, aliasVXLAN)
	if !ok {
		return id, false
	}
	var src string
	if _, err := fmt.Sscanf(text, "%d/%s", &id.Vni, &src); err != nil {
		return id, false
	}
	var err error
	id.Src, err = netip.ParseAddr(src)
	return id, err == nil
}

// Tunnels returns the matching VXLAN tunnels.
func (v *Host) Tunnels(match func(Tunnel) bool) []*vpp_interfaces.Interface {
	return slices.DeleteFunc(All[*vpp_interfaces.Interface](v.Reg), func(iface *vpp_interfaces.Interface) bool {
		return iface.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL || !match(TunnelOf(iface))
	})
}
