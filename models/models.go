package models

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/api/contiv/merge"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/api/ligato/netalloc"
	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_dns "github.com/contiv/contiv/api/ligato/vpp/dns"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_ipfix "github.com/contiv/contiv/api/ligato/vpp/ipfix"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The models. Values of models that the vswitch does not support become UNIMPLEMENTED.
var (
	VPPInterface = model(&vpp_interfaces.Interface{}, "vpp", "v2", "interfaces", "{name}")
	VPPSpan      = model(&vpp_interfaces.Span{}, "vpp", "v2", "span", "{interface_from}/to/{interface_to}")

	ACL = model(&vpp_acl.ACL{}, "vpp.acls", "v2", "acl", "{name}")

	ABF = model(&vpp_abf.ABF{}, "vpp.abfs", "v2", "abf", "{index}")

	BridgeDomain = model(&vpp_l2.BridgeDomain{}, "vpp.l2", "v2", "bridge-domain", "{name}")
	L2FIB        = model(&vpp_l2.FIBEntry{}, "vpp.l2", "v2", "fib", "{bridge_domain}/mac/{phys_address}")
	XConnect     = model(&vpp_l2.XConnectPair{}, "vpp.l2", "v2", "xconnect", "{receive_interface}")

	VPPRoute       = model(&vpp_l3.Route{}, "vpp", "v2", "route", "[if/{outgoing_interface}/]vrf/{vrf_id}/dst/{dst_network:network}[/gw/{next_hop_addr}]")
	VPPARP         = model(&vpp_l3.ARPEntry{}, "vpp", "v2", "arp", "{interface}/{ip_address}")
	VRFTable       = model(&vpp_l3.VrfTable{}, "vpp", "v2", "vrf-table", "id/{id}/protocol/{protocol}")
	ProxyARP       = model(&vpp_l3.ProxyARP{}, "vpp", "v2", "proxyarp-global", "")
	IPScanNeighbor = model(&vpp_l3.IPScanNeighbor{}, "vpp", "v2", "ipscanneigh-global", "")
	DHCPProxy      = model(&vpp_l3.DHCPProxy{}, "vpp", "v2", "dhcp-proxy", "{source_ip_address:ip-version}/rx-vrf/{rx_vrf_id}")
	L3XConnect     = model(&vpp_l3.L3XConnect{}, "vpp", "v2", "l3xconnect", "{interface}/protocol/{protocol}")
	TEIB           = model(&vpp_l3.TeibEntry{}, "vpp", "v2", "teib", "{interface}/peer/{peer_addr}")
	VRRP           = model(&vpp_l3.VRRPEntry{}, "vpp", "v2", "vrrp", "{interface}/vrid/{vr_id}")

	NAT44Global    = model(&vpp_nat.Nat44Global{}, "vpp.nat", "v2", "nat44-global", "")
	NAT44Interface = model(&vpp_nat.Nat44Interface{}, "vpp.nat", "v2", "nat44-interface", "{name}")
	NAT44Pool      = nat44Pool()
	DNAT44         = model(&vpp_nat.DNat44{}, "vpp.nat", "v2", "dnat44", "{label}")
	NAT44VRFTable  = model(&vpp_nat.Nat44VrfTable{}, "vpp.nat", "v2", "nat44-vrf", "vrfid/{src_vrf_id}")
	NAT44VRFRoute  = model(&vpp_nat.Nat44VrfRoute{}, "vpp.nat", "v2", "nat44-vrf-route", "vrfid/{src_vrf_id}/destvrfid/{dest_vrf_id}")

	IPSecSPD              = model(&vpp_ipsec.SecurityPolicyDatabase{}, "vpp.ipsec", "v2", "spd", "{index}")
	IPSecSP               = model(&vpp_ipsec.SecurityPolicy{}, "vpp.ipsec", "v2", "sp", "spd/{spd_index}/sa/{sa_index}/{is_outbound:direction}/local-addresses/{local_addr_start}-{local_addr_stop}/remote-addresses/{remote_addr_start}-{remote_addr_stop}")
	IPSecSA               = model(&vpp_ipsec.SecurityAssociation{}, "vpp.ipsec", "v2", "sa", "{index}")
	IPSecTunnelProtection = model(&vpp_ipsec.TunnelProtection{}, "vpp.ipsec", "v2", "tun-protect", "{interface}[/nh/{next_hop_addr}]")

	PuntIPRedirect = model(&vpp_punt.IPRedirect{}, "vpp", "v2", "ipredirect", "l3/{l3_protocol}/tx/{tx_interface}")
	PuntToHost     = model(&vpp_punt.ToHost{}, "vpp", "v2", "tohost", "l3/{l3_protocol}/l4/{l4_protocol}/port/{port}")
	PuntException  = model(&vpp_punt.Exception{}, "vpp", "v2", "exception", "reason/{reason}")

	SRv6LocalSID = model(&vpp_srv6.LocalSID{}, "vpp.srv6", "v2", "localsid", "{sid}")
	SRv6Policy   = model(&vpp_srv6.Policy{}, "vpp.srv6", "v2", "policy", "{bsid}")
	SRv6Steering = model(&vpp_srv6.Steering{}, "vpp.srv6", "v2", "steering", "{name}")
	SRv6Global   = model(&vpp_srv6.SRv6Global{}, "vpp.srv6", "v2", "srv6-global", "")

	STNRule = model(&vpp_stn.Rule{}, "vpp.stn", "v2", "rule", "{interface}/ip/{ip_address}")

	DNSCache = model(&vpp_dns.DNSCache{}, "vpp.dns", "v1", "dnscache", "")

	WireGuardPeer = model(&vpp_wireguard.Peer{}, "vpp.wg", "v1", "peer", "{wg_if_name}/endpoint/{endpoint}/{port}")

	IPFIX            = model(&vpp_ipfix.IPFIX{}, "vpp.ipfix", "v2", "ipfix", "")
	FlowProbeParams  = model(&vpp_ipfix.FlowProbeParams{}, "vpp.ipfix", "v2", "flowprobe-params", "")
	FlowProbeFeature = model(&vpp_ipfix.FlowProbeFeature{}, "vpp.ipfix", "v2", "flowprobe-feature", "{interface}")

	LinuxInterface = model(&linux_interfaces.Interface{}, "linux.interfaces", "v2", "interface", "{name}")

	LinuxARP   = model(&linux_l3.ARPEntry{}, "linux.l3", "v2", "arp", "{interface}/{ip_address}")
	LinuxRoute = model(&linux_l3.Route{}, "linux.l3", "v2", "route", "{dst_network:network}/{outgoing_interface}")

	IPTablesChain = model(&linux_iptables.RuleChain{}, "linux.iptables", "v2", "rulechain", "{name}")

	IPAllocation = model(&netalloc.IPAllocation{}, "netalloc", "v1", "ip", "network/{network_name}/interface/{interface_name}")

	SourceNAT66 = model(&contiv_nat.SourceNAT66{}, "contiv.nat", "v1", "snat66", "{interface}")
	DNAT66      = model(&contiv_nat.DNat66{}, "contiv.nat", "v1", "dnat66", "{label}")
	// ServiceNetwork is a singleton.
	ServiceNetwork = model(&contiv_nat.ServiceNetwork{}, "contiv.nat", "v1", "service-network", "")
	HostRedirect   = model(&contiv_nat.HostRedirect{}, "contiv.nat", "v1", "host-redirect", "{label}")

	SourceGuard = model(&guard.SourceGuard{}, "contiv.guard", "v1", "source", "{interface}")
	// SourceRanges is a singleton.
	SourceRanges = model(&guard.SourceRanges{}, "contiv.guard", "v1", "source-ranges", "")

	AddressSet  = model(&contiv_filter.AddressSet{}, "contiv.filter", "v1", "address-set", "{name}")
	EndpointSet = model(&contiv_filter.EndpointSet{}, "contiv.filter", "v1", "endpoint-set", "{name}")
	AccessList  = model(&contiv_filter.AccessList{}, "contiv.filter", "v1", "list", "{name}")
	Subject     = model(&contiv_filter.Subject{}, "contiv.filter", "v1", "subject", "{name}")

	// MergeDirectives are for the controller, not for the vswitch.
	MergeDirectives = model(&merge.Directives{}, "contiv", "v1", "merge", "{key}")
)

var all = []*Model{
	VPPInterface, VPPSpan, ACL, ABF, BridgeDomain, L2FIB, XConnect, VPPRoute, VPPARP, VRFTable, ProxyARP,
	IPScanNeighbor, DHCPProxy, L3XConnect, TEIB, VRRP, NAT44Global, NAT44Interface, NAT44Pool, DNAT44,
	NAT44VRFTable, NAT44VRFRoute, IPSecSPD, IPSecSP, IPSecSA, IPSecTunnelProtection, PuntIPRedirect, PuntToHost,
	PuntException, SRv6LocalSID, SRv6Policy, SRv6Steering, SRv6Global, STNRule, DNSCache, WireGuardPeer, IPFIX,
	FlowProbeParams, FlowProbeFeature, LinuxInterface, LinuxARP, LinuxRoute, IPTablesChain, IPAllocation,
	SourceNAT66, DNAT66, ServiceNetwork, HostRedirect, SourceGuard, SourceRanges, AddressSet, EndpointSet, AccessList, Subject, MergeDirectives,
}

// model returns a Model of messages like msg; without a pattern, a singleton. Patterns are parsed
// on first use, since that initialises protobuf descriptors, and a program uses few models.
func model(msg proto.Message, module, version, typ, namePattern string) *Model {
	m := &Model{Module: module, Version: version, Type: typ, NamePattern: namePattern, message: msg}
	m.prefix = "config/" + strings.ReplaceAll(module, ".", "/") + "/" + version + "/" + typ
	if namePattern != "" {
		parsed := sync.OnceValue(func() pattern { return parsePattern(namePattern, msg.ProtoReflect().Descriptor()) })
		m.name = func(r protoreflect.Message) string { return parsed().name(r) }
		m.names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^(?s:" + parsed().names(true) + ")$") })
		m.template = func() string { return parsed().template() }
		m.prefix += "/"
	}
	return m
}

// nat44Pool returns the model of NAT pools. Their name is a field or made of the addresses, which a
// pattern cannot express.
func nat44Pool() *Model {
	m := model(&vpp_nat.Nat44AddressPool{}, "vpp.nat", "v2", "nat44-pool", "")
	m.prefix += "/"
	m.NamePattern = "{name} | vrf/{vrf_id}/address/{first_ip}[-{last_ip}]"
	m.template = func() string {
		return "{{if .Name}}{{.Name}}{{else}}vrf/{{.VrfId}}/address/{{.FirstIp}}" +
			"{{if and .LastIp (ne .LastIp .FirstIp)}}-{{.LastIp}}{{end}}{{end}}"
	}
	m.name = func(msg protoreflect.Message) string {
		p := msg.Interface().(*vpp_nat.Nat44AddressPool)
		if p.GetName() != "" {
			return p.GetName()
		}
		name := fmt.Sprintf("vrf/%d/address/%s", p.GetVrfId(), p.GetFirstIp())
		if p.GetLastIp() != "" && p.GetLastIp() != p.GetFirstIp() {
			name += "-" + p.GetLastIp()
		}
		return name
	}
	return m
}
