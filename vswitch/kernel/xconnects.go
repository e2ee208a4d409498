package kernel

import (
	"context"
	"fmt"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
)

// xconnects redirect what a device receives (tc.go). An existing device is made to
// receive the frames for others, too.
type xconnects struct{ *VSwitch }

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
	v.reg.put(x)
	return nil
}

// carriesFrames says which interfaces have no device of their own for frames.
func (v *VSwitch) carriesFrames(names ...string) error {
	for _, name := range names {
		switch v.reg.iface(name).GetType() {
		case vpp_interfaces.Interface_VXLAN_TUNNEL:
			return vswitch.Unsupported("VXLAN tunnel %q shares its device with other tunnels: "+
				"use a bridge domain with the two interfaces and without others", name)
		case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
			return vswitch.Unsupported("there is nothing behind loopback %q that frames could come from or go to: "+
				"use a bridge domain with it as bridged virtual interface", name)
		}
	}
	return nil
}

func (v *VSwitch) withDevices(from, to string, fn func(from, to int) error) error {
	return v.withDevice(from, func(a int) error {
		return v.withDevice(to, func(b int) error { return fn(a, b) })
	})
}

// listenToAll switches the promiscuous mode of an existing device; ours get
// everything as it is.
func (v *VSwitch) listenToAll(index int, on bool) error {
	link, err := v.nl.LinkByIndex(index)
	if err != nil || isOurs(link) {
		return ignoreGone(err)
	}
	if on {
		return v.nl.SetPromiscOn(link)
	}
	return v.nl.SetPromiscOff(link)
}

func (v xconnects) Delete(_ context.Context, x *vpp_l2.XConnectPair) error {
	err := v.reg.during(x, func() error {
		return ignoreGone(v.withFoundDevice(x.GetReceiveInterface(), func(rx int) error {
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
	settle(v.reg, expected, list)
	return list, nil
}

// namedFilters returns our filters for the purposes, and what names their devices.
func (v *VSwitch) namedFilters(purposes ...purpose) ([]filter, func(index int) string, error) {
	found, err := v.filters(purposes...)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	devs, err := v.devices()
	if err != nil {
		return nil, nil, err
	}
	hostSides := v.hostSides(devs)
	return found, func(index int) string {
		if name, ok := hostSides[index]; ok {
			return name
		}
		return deviceOrUnknown(devs, index)
	}, nil
}

// withFoundDevice is withDevice for names of List, which may be those of unknown
// devices.
func (v *VSwitch) withFoundDevice(name string, fn func(index int) error) error {
	if device, ok := unknownDevice(name); ok {
		link, err := v.linkNamed(device)
		if err != nil {
			return err
		}
		return fn(link.Attrs().Index)
	}
	return v.withDevice(name, fn)
}

// noticeFilter reports the cross-connects and mirrors of a device whose filter was
// removed.
func (v *VSwitch) noticeFilter(data []byte, send func(notice)) {
	index, ours := parseFilterEvent(data)
	name, known := v.dev.name(index)
	if !ours || !known {
		return
	}
	var keys []string
	for _, key := range v.reg.keysOf(name) {
		switch value, _ := v.reg.get(key); value := value.(type) {
		case *vpp_l2.XConnectPair:
			if value.GetReceiveInterface() == name {
				keys = append(keys, models.Key(value))
			}
		case *vpp_interfaces.Span:
			if value.GetInterfaceFrom() == name {
				keys = append(keys, models.Key(value))
			}
		}
	}
	if len(keys) > 0 {
		send(notice{reason: fmt.Sprintf("a filter of interface %q was removed", name), keys: keys})
	}
}

// unknownDevice returns the device behind a name that stands for what nobody can
// name.
func unknownDevice(name string) (device string, ok bool) {
	return strings.CutPrefix(name, unknownPrefix)
}
