package own

import (
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
)

// KeysOfDevice returns the keys of all values that need the device.
func (v *Host) KeysOfDevice(link netlink.Link) []string {
	alias := link.Attrs().Alias
	if name, _, ok := ParseBridgeAlias(alias); ok {
		var keys []string
		for _, bd := range All[*vpp_l2.BridgeDomain](v.Reg) {
			if bd.GetName() == name {
				keys = append(keys, models.Key(bd))
			}
		}
		for _, entry := range All[*vpp_l2.FIBEntry](v.Reg) {
			if entry.GetBridgeDomain() == name {
				keys = append(keys, models.Key(entry))
			}
		}
		return keys
	}
	if id, ok := ParseVXLANAlias(alias); ok {
		var keys []string
		for _, iface := range v.Tunnels(func(t Tunnel) bool { return t.VXLANID == id }) {
			keys = append(keys, v.Reg.KeysOf(iface.GetName())...)
		}
		return keys
	}
	name := v.LogicalOf(link)
	if v.Reg.Iface(name) == nil {
		return nil
	}
	return v.Reg.KeysAfterLoss(name)
}

// WithFoundDevice is WithDevice for names from List, which may be unknown devices.
func (v *Host) WithFoundDevice(name string, fn func(index int) error) error {
	if device, ok := UnknownDevice(name); ok {
		link, err := v.LinkNamed(device)
		if err != nil {
			return err
		}
		return fn(link.Attrs().Index)
	}
	return v.WithDevice(name, fn)
}
