package kernel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A bridge domain is a Linux bridge. Its parameters are those of its ports; a
// bridge without ports cannot tell them, so its alias does.

type bridges struct{ *VSwitch }

// bdParameters are what Linux can do of the parameters of a bridge domain.
type bdParameters struct {
	flood, unknownUnicastFlood, learn bool
	macAge                            uint32 // minutes; 0: forever
}

func parametersOf(bd *vpp_l2.BridgeDomain) bdParameters {
	return bdParameters{bd.GetFlood(), bd.GetUnknownUnicastFlood(), bd.GetLearn(), bd.GetMacAge()}
}

// String is the form in aliases, such as "flood,learn,age=5".
func (p bdParameters) String() string {
	var words []string
	for word, on := range map[string]bool{"flood": p.flood, "uu-flood": p.unknownUnicastFlood, "learn": p.learn} {
		if on {
			words = append(words, word)
		}
	}
	if p.macAge != 0 {
		words = append(words, fmt.Sprintf("age=%d", p.macAge))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

func parseBDParameters(text string) (p bdParameters) {
	for word := range strings.SplitSeq(text, ",") {
		switch word {
		case "flood":
			p.flood = true
		case "uu-flood":
			p.unknownUnicastFlood = true
		case "learn":
			p.learn = true
		}
		if age, ok := strings.CutPrefix(word, "age="); ok {
			minutes, _ := strconv.ParseUint(age, 10, 32)
			p.macAge = uint32(minutes)
		}
	}
	return p
}

func (p bdParameters) portFlags(isolated bool) portFlags {
	return portFlags{
		learning: p.learn, unicastFlood: p.unknownUnicastFlood,
		bcastFlood: p.flood, mcastFlood: p.flood, isolated: isolated,
	}
}

// ageingTime in hundredths of seconds. Linux has no "forever": ten years.
func (p bdParameters) ageingTime() uint32 {
	const minute = 60 * 100
	if p.macAge == 0 || p.macAge > 255 {
		return 10 * 365 * 24 * 60 * minute / 16 // the kernel's counter has 32 bits
	}
	return p.macAge * minute
}

func (v bridges) Create(_ context.Context, bd *vpp_l2.BridgeDomain) error {
	switch {
	case bd.GetArpTermination() || len(bd.GetArpTerminationTable()) > 0:
		return vswitch.Unsupported("arp_termination: use static ARP entries on the virtual interface")
	case !bd.GetForward():
		return vswitch.Unsupported("a bridge domain that does not forward: set forward, or delete it")
	}
	if err := v.addBridge(bd); err != nil {
		return fmt.Errorf("creating bridge domain %q: %w", bd.GetName(), err)
	}
	v.reg.put(bd)
	return nil
}

func (v bridges) addBridge(bd *vpp_l2.BridgeDomain) error {
	p := parametersOf(bd)
	alias := bdAlias(bd.GetName(), p)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = deviceName(devBD, bd.GetName())
	attrs.Group = deviceGroup
	snooping, ageing := false, p.ageingTime()
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping, AgeingTime: &ageing}
	err := v.nl.LinkAdd(bridge)
	if exists(err) {
		var complete netlink.Link
		if complete, err = v.clear(attrs.Name, alias, attrs.Name); err != nil {
			return err
		}
		if complete != nil {
			return v.raw.setLink(complete.Attrs().Index, linkChange{up: true})
		}
		bridge.Index = 0
		err = v.nl.LinkAdd(bridge)
	}
	if err != nil {
		return fmt.Errorf("adding bridge %s: %w", attrs.Name, err)
	}
	if err := v.disableIPv6(attrs.Name); err != nil {
		return err
	}
	return v.raw.setLink(bridge.Index, linkChange{alias: alias, up: true})
}

// Update takes note of the interfaces; ARP termination is not there to change.
func (v bridges) Update(_ context.Context, _, new *vpp_l2.BridgeDomain) error {
	if len(new.GetArpTerminationTable()) > 0 {
		return vswitch.Unsupported("arp_termination: use static ARP entries on the virtual interface")
	}
	link, err := v.bridge(new.GetName())
	if err != nil {
		return err
	}
	v.reg.put(new)
	return v.raw.setLink(link.Attrs().Index, linkChange{up: true})
}

func (v bridges) Delete(_ context.Context, bd *vpp_l2.BridgeDomain) error {
	err := v.reg.during(bd, func() error {
		if device, ok := strings.CutPrefix(bd.GetName(), unknownPrefix); ok {
			return v.deleteUnmarked(device)
		}
		link, err := v.bridge(bd.GetName())
		if err == nil {
			err = v.delLink(link.Attrs().Index)
		}
		return ignoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("deleting bridge domain %q: %w", bd.GetName(), err)
	}
	return nil
}

// bridge finds the bridge of a bridge domain.
func (v *VSwitch) bridge(name string) (netlink.Link, error) {
	link, err := v.linkNamed(deviceName(devBD, name))
	if isGone(err) {
		return nil, fmt.Errorf("bridge domain %q: %w", name, errNoDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up bridge domain %q: %w", name, err)
	}
	if found, _, ok := parseBDAlias(link.Attrs().Alias); !ok || found != name {
		return nil, fmt.Errorf("bridge domain %q: %w: %s is another one", name, errNoDevice, link.Attrs().Name)
	}
	return link, nil
}

// portOf returns the device that stands for an interface in a bridge.
func (v *VSwitch) portOf(iface string) (netlink.Link, error) {
	switch known := v.reg.iface(iface); known.GetType() {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		link, err := v.linkNamed(deviceName(devPort, iface))
		if err == nil && link.Attrs().Alias != aliasPort+iface || isGone(err) {
			return nil, noDevice(iface)
		}
		return link, err
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		link, err := v.vxlanDevice(tunnelOf(known).vxlanID)
		if err == nil && link == nil {
			return nil, noDevice(iface)
		}
		return link, err
	}
	return v.link(iface)
}

func (v bridges) Bind(_ context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if err := v.bind(bd, iface); err != nil {
		return fmt.Errorf("binding interface %q to bridge domain %q: %w", iface.GetName(), bd, err)
	}
	v.reg.bind(iface.GetName(), bd)
	return nil
}

func (v bridges) bind(bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if iface.GetSplitHorizonGroup() > 1 {
		return vswitch.Unsupported("split horizon group %d: the Linux kernel has only groups 0 and 1", iface.GetSplitHorizonGroup())
	}
	if err := bridgeable(v.reg.iface(iface.GetName())); err != nil {
		return err
	}
	bridge, err := v.bridge(bd)
	if err != nil {
		return err
	}
	_, params, _ := parseBDAlias(bridge.Attrs().Alias)
	dev, err := v.portOf(iface.GetName())
	if err != nil {
		return err
	}
	attrs, master := dev.Attrs(), bridge.Attrs().Index
	switch attrs.MasterIndex {
	case master:
	case 0:
		if err := v.raw.setLink(attrs.Index, linkChange{master: &master}); err != nil {
			return fmt.Errorf("putting device %s into bridge %s: %w", attrs.Name, bridge.Attrs().Name, err)
		}
	default:
		return fmt.Errorf("its device %s is in another bridge: take it out of that first", attrs.Name)
	}
	if err := v.raw.setPort(attrs.Index, params.portFlags(isolated(iface))); err != nil {
		return fmt.Errorf("setting the port flags of device %s: %w", attrs.Name, err)
	}
	return v.finishPort(iface.GetName(), attrs.Index, params)
}

// isolated ports do not forward to each other: split horizon group 1. The virtual
// interface of a bridge domain is never subject to split horizon.
func isolated(iface *vpp_l2.BridgeDomain_Interface) bool {
	return iface.GetSplitHorizonGroup() != 0 && !iface.GetBridgedVirtualInterface()
}

// finishPort does what the type of the interface asks for. A bridge that neither
// learns nor floods must be told where the MAC of a loopback is; and a VXLAN device
// learns if its bridge does.
func (v bridges) finishPort(iface string, port int, params bdParameters) error {
	switch v.reg.iface(iface).GetType() {
	case vpp_interfaces.Interface_SOFTWARE_LOOPBACK:
		near, err := v.link(iface)
		if err != nil {
			return err
		}
		if err := v.raw.setLink(port, linkChange{up: true}); err != nil {
			return err
		}
		return v.nl.NeighSet(staticEntry(port, near.Attrs().HardwareAddr))
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		return v.raw.setVXLANLearning(port, params.learn)
	}
	return nil
}

// moveLoopbackFDB follows a change of the MAC of a loopback that is bridged.
func (v *VSwitch) moveLoopbackFDB(iface string, old, new []byte) error {
	port, err := v.portOf(iface)
	if err != nil || port.Attrs().MasterIndex == 0 {
		return err
	}
	if err := v.nl.NeighSet(staticEntry(port.Attrs().Index, new)); err != nil {
		return err
	}
	return ignoreGone(v.nl.NeighDel(staticEntry(port.Attrs().Index, old)))
}

func (v bridges) Unbind(_ context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	v.reg.bind(iface.GetName(), "")
	err := v.unbind(bd, iface.GetName())
	if ignoreGone(err) != nil {
		return fmt.Errorf("taking interface %q out of bridge domain %q: %w", iface.GetName(), bd, err)
	}
	return nil
}

func (v bridges) unbind(bd, iface string) error {
	bridge, err := v.bridge(bd)
	if err != nil {
		return err
	}
	dev, err := v.portOf(iface)
	if err != nil || dev.Attrs().MasterIndex != bridge.Attrs().Index {
		return err
	}
	if v.sharesDevice(bd, iface) {
		return nil
	}
	none := 0
	return v.raw.setLink(dev.Attrs().Index, linkChange{master: &none})
}

// sharesDevice tells if another tunnel of the bridge domain needs the VXLAN device
// of this one.
func (v *VSwitch) sharesDevice(bd, iface string) bool {
	known := v.reg.iface(iface)
	if known.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL {
		return false
	}
	for _, domain := range all[*vpp_l2.BridgeDomain](v.reg) {
		if domain.GetName() != bd {
			continue
		}
		for _, other := range domain.GetInterfaces() {
			o := v.reg.iface(other.GetName())
			if other.GetName() != iface && o.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL && tunnelOf(o).vxlanID == tunnelOf(known).vxlanID {
				return true
			}
		}
	}
	return false
}

// staticEntry is a configured entry of a bridge for frames to one of its ports.
func staticEntry(port int, mac []byte) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: port, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER,
		State: netlink.NUD_NOARP, HardwareAddr: mac,
	}
}
