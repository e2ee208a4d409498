package links

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// bindMembers registers the members of a bond that was read.
func (v *Driver) bindMembers(iface *vpp_interfaces.Interface) {
	for _, member := range iface.GetBond().GetBondedInterfaces() {
		v.Reg.Bind(member.GetName(), own.BondMark+iface.GetName())
	}
}

const bondMonitoring = 100

var bondModes = map[vpp_interfaces.BondLink_Mode]netlink.BondMode{
	vpp_interfaces.BondLink_ROUND_ROBIN:   netlink.BOND_MODE_BALANCE_RR,
	vpp_interfaces.BondLink_ACTIVE_BACKUP: netlink.BOND_MODE_ACTIVE_BACKUP,
	vpp_interfaces.BondLink_XOR:           netlink.BOND_MODE_BALANCE_XOR,
	vpp_interfaces.BondLink_BROADCAST:     netlink.BOND_MODE_BROADCAST,
	vpp_interfaces.BondLink_LACP:          netlink.BOND_MODE_802_3AD,
}

var bondHashes = map[vpp_interfaces.BondLink_LoadBalance]netlink.BondXmitHashPolicy{
	vpp_interfaces.BondLink_L2:  netlink.BOND_XMIT_HASH_POLICY_LAYER2,
	vpp_interfaces.BondLink_L34: netlink.BOND_XMIT_HASH_POLICY_LAYER3_4,
	vpp_interfaces.BondLink_L23: netlink.BOND_XMIT_HASH_POLICY_LAYER2_3,
}

func supportedBond(bond *vpp_interfaces.BondLink) error {
	if _, ok := bondModes[bond.GetMode()]; !ok {
		return vswitch.Unsupported("bond.mode %v", bond.GetMode())
	}
	if _, ok := bondHashes[bond.GetLb()]; !ok && hashes(bond) {
		return vswitch.Unsupported("bond.lb %v with mode %v: use L2, L23 or L34", bond.GetLb(), bond.GetMode())
	}
	return nil
}

func hashes(bond *vpp_interfaces.BondLink) bool {
	return bond.GetMode() == vpp_interfaces.BondLink_XOR || bond.GetMode() == vpp_interfaces.BondLink_LACP
}

func bondOptions(bond *vpp_interfaces.BondLink) []rtnl.LinkOption {
	options := []rtnl.LinkOption{
		{Attr: nl.IFLA_BOND_MODE, Value: []byte{byte(bondModes[bond.GetMode()])}},
		{Attr: nl.IFLA_BOND_MIIMON, Value: nl.Uint32Attr(bondMonitoring)},
	}
	if hashes(bond) {
		options = append(options, rtnl.LinkOption{Attr: nl.IFLA_BOND_XMIT_HASH_POLICY, Value: []byte{byte(bondHashes[bond.GetLb()])}})
	}
	if bond.GetMode() == vpp_interfaces.BondLink_LACP {
		options = append(options, rtnl.LinkOption{Attr: nl.IFLA_BOND_AD_LACP_RATE, Value: []byte{byte(netlink.BOND_LACP_RATE_FAST)}})
	}
	return options
}

// describeBond takes the bond's number from the expected value, because the kernel has none.
func (inv *inventory) describeBond(iface *vpp_interfaces.Interface, link *netlink.Bond, expected *vpp_interfaces.BondLink) {
	bond := &vpp_interfaces.BondLink{Id: expected.GetId(), Lb: expected.GetLb()}
	for mode, kernel := range bondModes {
		if kernel == link.Mode {
			bond.Mode = mode
		}
	}
	for lb, kernel := range bondHashes {
		if hashes(bond) && kernel == link.XmitHashPolicy {
			bond.Lb = lb
		}
	}
	for _, index := range slices.Sorted(maps.Keys(inv.ByIndex)) {
		if inv.ByIndex[index].Attrs().MasterIndex != link.Attrs().Index {
			continue
		}
		name, _ := inv.nameOf(index)
		bond.BondedInterfaces = append(bond.BondedInterfaces, &vpp_interfaces.BondLink_BondedInterface{Name: name})
	}
	iface.Type, iface.Link = vpp_interfaces.Interface_BOND_INTERFACE, &vpp_interfaces.Interface_Bond{Bond: bond}
}

// hardwareAddr returns the permanent address of a bond member, which uses the bond's address.
func hardwareAddr(attrs *netlink.LinkAttrs) string {
	if slave, ok := attrs.Slave.(*netlink.BondSlave); ok {
		return slave.PermHardwareAddr.String()
	}
	if len(attrs.HardwareAddr) != 6 {
		return ""
	}
	return attrs.HardwareAddr.String()
}

func (v interfaces) AddBondMember(_ context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error {
	if err := v.addBondMember(bond, member); err != nil {
		return fmt.Errorf("adding interface %q to bond %q: %w", member.GetName(), bond, err)
	}
	return nil
}

func (v interfaces) addBondMember(bond string, member *vpp_interfaces.BondLink_BondedInterface) error {
	if member.GetIsPassive() || member.GetIsLongTimeout() {
		return vswitch.Unsupported("is_passive, is_long_timeout: members of a bond of the Linux kernel are active, with short timeouts: leave them out")
	}
	master, err := v.Link(bond)
	if err != nil {
		return err
	}
	dev, err := v.Link(member.GetName())
	if err != nil {
		return err
	}
	attrs, index := dev.Attrs(), master.Attrs().Index
	if attrs.MasterIndex == index {
		v.Reg.Bind(member.GetName(), own.BondMark+bond)
		return nil
	}
	if idle, err := v.IdleMaster(member.GetName()); err != nil {
		return err
	} else if attrs.MasterIndex != 0 && attrs.MasterIndex != idle {
		return fmt.Errorf("its device %s is in a bridge or another bond: take it out of that first", attrs.Name)
	}
	v.Reg.Bind(member.GetName(), own.BondMark+bond) // before it goes down, so that this is not taken for drift
	// The bond sets its members up.
	return errors.Join(v.Net.SetLink(attrs.Index, rtnl.LinkChange{Down: true}), v.Net.SetLink(attrs.Index, rtnl.LinkChange{Master: &index}))
}

// RemoveBondMember: the kernel restores the device's own MAC and leaves it down.
func (v interfaces) RemoveBondMember(_ context.Context, bond string, member *vpp_interfaces.BondLink_BondedInterface) error {
	err := v.removeBondMember(bond, member.GetName())
	v.Reg.Bind(member.GetName(), "")
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("taking interface %q out of bond %q: %w", member.GetName(), bond, err)
	}
	return nil
}

func (v interfaces) removeBondMember(bond, member string) error {
	master, err := v.Link(bond)
	if err != nil {
		return err
	}
	dev, err := v.Link(member)
	if err != nil || dev.Attrs().MasterIndex != master.Attrs().Index {
		return err
	}
	idle, err := v.IdleMaster(member)
	if err != nil {
		return err
	}
	if err := v.Net.SetLink(dev.Attrs().Index, rtnl.LinkChange{Master: &idle}); err != nil {
		return err
	}
	iface := v.Reg.Iface(member)
	if iface == nil {
		return nil
	}
	if dev, err = v.Net.LinkByIndex(dev.Attrs().Index); err != nil {
		return err
	}
	return v.adjust(dev, iface)
}

func (v *Driver) checkMember(b *drift.Batch, name string, attrs *netlink.LinkAttrs) {
	for _, iface := range own.All[*vpp_interfaces.Interface](v.Reg) {
		if iface.GetBond() == nil || !v.Reg.IsBound(name, own.BondMark+iface.GetName()) {
			continue
		}
		if master, err := v.Link(iface.GetName()); err == nil && master.Attrs().Index != attrs.MasterIndex {
			b.Report(fmt.Sprintf("device %s was taken out of bond %q", attrs.Name, iface.GetName()), models.Key(iface))
		}
	}
}
