package kernel

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
)

// checkSuspicions asks the kernel about what may be wrong, and adds what is.
func (v *VSwitch) checkSuspicions(b *batch) {
	for index := range b.links {
		v.checkLink(b, index)
	}
	for index := range b.confine {
		if err := v.restoreVRF(index); ignoreGone(err) != nil {
			v.log.Warn("keeping addresses out of VRF 0", "error", err)
		}
	}
	for index := range b.addresses {
		v.checkAddresses(b, index)
		v.checkPlaced(b, index)
	}
	if b.rules {
		v.checkRules(b)
	}
	if b.ports {
		v.checkPorts(b)
	}
	v.checkRuleset(b)
	for iface := range b.externals {
		v.dnat4().checkExternals(b, iface)
	}
}

func (v *VSwitch) checkLink(b *batch, index int) {
	link, err := v.nl.LinkByIndex(index)
	if err != nil {
		return // that it is gone is an event of its own
	}
	attrs := link.Attrs()
	up := attrs.Flags&net.FlagUp != 0
	if id, ok := parseVXLANAlias(attrs.Alias); ok {
		if !up {
			for _, iface := range v.tunnels(func(t tunnel) bool { return t.vxlanID == id }) {
				b.report(fmt.Sprintf("device %s is down", attrs.Name), []string{models.Key(iface)})
			}
		}
		return
	}
	if name, _, ok := parseBDAlias(attrs.Alias); ok {
		if !up {
			b.report(fmt.Sprintf("bridge %s is down", attrs.Name), []string{models.BridgeDomain.KeyPrefix() + name})
		}
		return
	}
	if strings.HasPrefix(attrs.Alias, aliasPort) {
		if !up {
			b.ports = true
		}
		return
	}
	iface := v.reg.iface(v.logicalOf(link))
	if iface == nil {
		return
	}
	v.checkMember(b, iface.GetName(), attrs)
	var wrong string
	switch {
	case up != iface.GetEnabled() && (isOurs(link) || !up):
		wrong = "is " + map[bool]string{true: "up", false: "down"}[up]
	case iface.GetMtu() != 0 && int(iface.GetMtu()) != attrs.MTU && iface.GetType() != vpp_interfaces.Interface_VXLAN_TUNNEL:
		wrong = fmt.Sprintf("has MTU %d", attrs.MTU)
	case iface.GetPhysAddress() != "" && parseMAC(iface.GetPhysAddress()).String() != hardwareAddr(attrs):
		wrong = "has MAC " + hardwareAddr(attrs)
	default:
		return
	}
	b.report(fmt.Sprintf("device %s %s", attrs.Name, wrong), []string{models.Key(iface)})
}

// checkAddresses reports an interface that lacks an address, and all that may have
// gone with its last one (restore.go).
func (v *VSwitch) checkAddresses(b *batch, index int) {
	name, _ := v.dev.name(index)
	iface := v.reg.iface(name)
	addrs, err := v.raw.addresses(index)
	if iface == nil || err != nil {
		return
	}
	wanted, borrows := v.reg.assigned(name)
	borrowed := false
	for _, a := range addrs {
		delete(wanted, a.prefix)
		borrowed = borrowed || a.proto == protoBorrowed
	}
	if len(wanted) > 0 || borrows && !borrowed {
		b.report(fmt.Sprintf("an address of interface %q was removed", name), v.reg.keysAfterLoss(name))
	}
}

// checkPorts reports the bridge domains whose interfaces are not all bound in
// working order.
func (v *VSwitch) checkPorts(b *batch) {
	s, err := v.readL2()
	if err != nil {
		v.log.Warn("checking bridge ports", "error", err)
		return
	}
	for _, bd := range all[*vpp_l2.BridgeDomain](v.reg) {
		link := s.named(deviceName(devBD, bd.GetName()))
		if link == nil {
			continue // an event of its own
		}
		_, params, _ := parseBDAlias(link.Attrs().Alias)
		bound := s.describeBD(bd.GetName(), params, link, bd)
		for _, want := range bd.GetInterfaces() {
			if !v.reg.isBound(want.GetName(), bd.GetName()) {
				continue // not yet, or not any more
			}
			if !slices.ContainsFunc(bound.GetInterfaces(), func(i *vpp_l2.BridgeDomain_Interface) bool { return i.GetName() == want.GetName() }) {
				b.report(fmt.Sprintf("interface %q is not bound to bridge domain %q as it should be", want.GetName(), bd.GetName()),
					[]string{models.Key(bd)})
			}
		}
	}
}

// checkRuleset reports NAT if somebody else changed our table.
func (v *VSwitch) checkRuleset(b *batch) {
	if len(b.generations) == 0 {
		return
	}
	v.nat.mu.Lock() // a change of our own that is under way is noted when it is done
	foreign := slices.ContainsFunc(b.generations, func(id uint32) bool { return !v.nat.gen.isOwn(id) })
	v.nat.mu.Unlock()
	if !foreign {
		return
	}
	v.checkMarks(b)
	var keys []string
	for _, g := range all[*vpp_nat.Nat44Global](v.reg) {
		keys = append(keys, models.Key(g))
	}
	for _, i := range all[*vpp_nat.Nat44Interface](v.reg) {
		keys = append(keys, models.Key(i))
	}
	for _, p := range all[*vpp_nat.Nat44AddressPool](v.reg) {
		keys = append(keys, models.Key(p))
	}
	for _, d := range all[*vpp_nat.DNat44](v.reg) {
		keys = append(keys, models.Key(d))
	}
	for _, s := range all[*contiv_nat.SourceNAT66](v.reg) {
		keys = append(keys, models.Key(s))
	}
	for _, d := range all[*contiv_nat.DNat66](v.reg) {
		keys = append(keys, models.Key(d))
	}
	for _, acl := range all[*vpp_acl.ACL](v.reg) {
		keys = append(keys, models.Key(acl))
	}
	if len(keys) > 0 {
		b.report(fmt.Sprintf("nftables table %q was changed", natTable), keys)
	}
}

// nftEvents follows the transactions of nftables: what they change comes first,
// then the generation that they make.
type nftEvents struct{ touched bool }

func (e *nftEvents) notice(m syscall.NetlinkMessage, send func(notice)) {
	if m.Header.Type>>8 != nfnlSubsysNFTables || len(m.Data) < sizeofNfgenmsg {
		return
	}
	switch m.Header.Type & 0xff {
	case nftMsgNewTable, nftMsgDelTable, nftMsgDelChain, nftMsgNewRule, nftMsgDelRule, nftMsgNewSetElem, nftMsgDelSetElem:
		for attr, value := range attributes(m.Data[sizeofNfgenmsg:]) {
			if name := strings.TrimRight(string(value), "\x00"); attr == nftaTableName && (name == natTable || name == aclTableName || name == vrfTableName) {
				e.touched = true
			}
		}
	case nftMsgNewGen:
		if id, ok := parseGeneration(m.Data); ok && e.touched {
			send(notice{generation: id})
		}
		e.touched = false
	}
}
