package redirect

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
)

// xconnects redirects frames that a device receives. It sets existing devices to promiscuous mode.
type xconnects struct{ *Driver }

func (v *Driver) XConnectPort() vswitch.Values[*vpp_l2.XConnectPair] { return xconnects{v} }

func (v xconnects) Create(_ context.Context, x *vpp_l2.XConnectPair) error {
	if err := v.carriesFrames(x.GetReceiveInterface(), x.GetTransmitInterface()); err != nil {
		return err
	}
	err := v.withDevices(x.GetReceiveInterface(), x.GetTransmitInterface(), func(rx, tx int) error {
		want := filter{index: rx, purpose: redirect, to: tx}
		have, err := v.filtersOf(rx, redirect)
		if err != nil {
			return err
		}
		if len(have) == 1 && have[0].same(want) {
			return nil
		}
		for _, f := range have {
			if err := v.delFilter(f); err != nil {
				return err
			}
		}
		if err := v.listenToAll(rx, true); err != nil {
			return err
		}
		return v.addFilter(want)
	})
	if err != nil {
		return fmt.Errorf("connecting interface %q to %q: %w", x.GetReceiveInterface(), x.GetTransmitInterface(), err)
	}
	v.Reg.Put(x)
	return nil
}

func (v *Driver) carriesFrames(names ...string) error {
	for _, name := range names {
		switch v.Reg.Iface(name).GetType() {
		case vpp_interfaces.Interface_VXLAN_TUNNEL:
			return vswitch.Unsupported("VXLAN tunnel %q shares its device with other tunnels: "+
				"use a bridge domain with the two interfaces and without others", name)
		case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
			return vswitch.Unsupported("loopback %q cannot be cross-connected, because it sends and receives no frames: "+
				"use a bridge domain with it as bridged virtual interface", name)
		}
	}
	return nil
}

func (v *Driver) withDevices(from, to string, fn func(from, to int) error) error {
	return v.WithDevice(from, func(a int) error {
		return v.WithDevice(to, func(b int) error { return fn(a, b) })
	})
}

// listenToAll sets the promiscuous mode of an existing device; ours receive all frames anyway.
func (v *Driver) listenToAll(index int, on bool) error {
	link, err := v.Net.LinkByIndex(index)
	if err != nil || own.IsOurs(link) {
		return rtnl.IgnoreGone(err)
	}
	if on {
		return v.Net.SetPromiscOn(link)
	}
	return v.Net.SetPromiscOff(link)
}

func (v xconnects) Delete(_ context.Context, x *vpp_l2.XConnectPair) error {
	err := v.Reg.During(x, func() error {
		return rtnl.IgnoreGone(v.WithFoundDevice(x.GetReceiveInterface(), func(rx int) error {
			have, err := v.filtersOf(rx, redirect)
			for _, f := range have {
				if err := v.delFilter(f); err != nil {
					return err
				}
			}
			if err != nil || len(have) == 0 {
				return err
			}
			return v.listenToAll(rx, false)
		}))
	})
	if err != nil {
		return fmt.Errorf("disconnecting interface %q: %w", x.GetReceiveInterface(), err)
	}
	return nil
}

func (v xconnects) List(_ context.Context, expected []*vpp_l2.XConnectPair) ([]*vpp_l2.XConnectPair, error) {
	found, name, err := v.namedFilters(redirect)
	if err != nil {
		return nil, err
	}
	var list []*vpp_l2.XConnectPair
	for _, f := range found {
		list = append(list, &vpp_l2.XConnectPair{ReceiveInterface: name(f.index), TransmitInterface: name(f.to)})
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

// namedFilters returns our filters for the purposes, and a function that names their devices.
func (v *Driver) namedFilters(purposes ...purpose) ([]filter, func(index int) string, error) {
	found, err := v.filters(purposes...)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	devs, err := v.Devices()
	if err != nil {
		return nil, nil, err
	}
	hostSides := v.HostSides(devs)
	return found, func(index int) string {
		if name, ok := hostSides[index]; ok {
			return name
		}
		return own.DeviceOrUnknown(devs, index)
	}, nil
}
