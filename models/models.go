package models

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/api/contiv/merge"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"google.golang.org/protobuf/proto"
)

// The models that exist.
var (
	VPPInterface   = model("vpp", "v2", "interfaces", (*vpp_interfaces.Interface).GetName)
	BridgeDomain   = model("vpp.l2", "v2", "bridge-domain", (*vpp_l2.BridgeDomain).GetName)
	L2FIB          = model("vpp.l2", "v2", "fib", l2FIBName)
	VPPRoute       = model("vpp", "v2", "route", vppRouteName)
	VPPARP         = model("vpp", "v2", "arp", vppARPName)
	VRFTable       = model("vpp", "v2", "vrf-table", vrfTableName)
	NAT44Global    = model[*vpp_nat.Nat44Global]("vpp.nat", "v2", "nat44-global", nil)
	NAT44Interface = model("vpp.nat", "v2", "nat44-interface", (*vpp_nat.Nat44Interface).GetName)
	NAT44Pool      = model("vpp.nat", "v2", "nat44-pool", nat44PoolName)
	DNAT44         = model("vpp.nat", "v2", "dnat44", (*vpp_nat.DNat44).GetLabel)
	LinuxInterface = model("linux.interfaces", "v2", "interface", (*linux_interfaces.Interface).GetName)
	LinuxARP       = model("linux.l3", "v2", "arp", linuxARPName)
	LinuxRoute     = model("linux.l3", "v2", "route", linuxRouteName)
	// MergeDirectives are for the controller, not for the vswitch.
	MergeDirectives = model("contiv", "v1", "merge", (*merge.Directives).GetKey)
	all             = []*Model{VPPInterface, BridgeDomain, L2FIB, VPPRoute, VPPARP, VRFTable, NAT44Global, NAT44Interface, NAT44Pool, DNAT44, LinuxInterface, LinuxARP, LinuxRoute, MergeDirectives}
)

// model makes a Model of messages of type M; a nil name makes it a singleton.
func model[M proto.Message](module, version, typ string, name func(M) string) *Model {
	var zero M
	m := &Model{Module: module, Version: version, Type: typ, message: zero}
	if name != nil {
		m.name = func(msg proto.Message) string { return name(msg.(M)) }
	}
	return m
}

func l2FIBName(e *vpp_l2.FIBEntry) string {
	return e.GetBridgeDomain() + "/mac/" + e.GetPhysAddress()
}

func vppRouteName(r *vpp_l3.Route) string {
	name := ""
	if r.GetOutgoingInterface() != "" {
		name = "if/" + r.GetOutgoingInterface() + "/"
	}
	name += fmt.Sprintf("vrf/%d/dst/%s/", r.GetVrfId(), keyNetwork(r.GetDstNetwork()))
	if r.GetNextHopAddr() != "" {
		name += "gw/" + r.GetNextHopAddr()
	}
	return name
}

func vppARPName(e *vpp_l3.ARPEntry) string { return e.GetInterface() + "/" + e.GetIpAddress() }

func vrfTableName(t *vpp_l3.VrfTable) string {
	return fmt.Sprintf("id/%d/protocol/%s", t.GetId(), t.GetProtocol())
}

func nat44PoolName(p *vpp_nat.Nat44AddressPool) string {
	if p.GetName() != "" {
		return p.GetName()
	}
	name := fmt.Sprintf("vrf/%d/address/%s", p.GetVrfId(), p.GetFirstIp())
	if p.GetLastIp() != "" {
		name += "-" + p.GetLastIp()
	}
	return name
}

func linuxARPName(e *linux_l3.ARPEntry) string { return e.GetInterface() + "/" + e.GetIpAddress() }

func linuxRouteName(r *linux_l3.Route) string {
	return keyNetwork(r.GetDstNetwork()) + "/" + r.GetOutgoingInterface()
}

// keyNetwork returns "<ip>/<length>" with the host bits cleared; what is no
// network, such as a reference to an allocated address, is returned as it is.
func keyNetwork(network string) string {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return network
	}
	return p.Masked().String()
}
