package models

import (
	"fmt"
	"hash/fnv"
)

// AgentPrefix is the prefix of all keys of Contiv in etcd.
const AgentPrefix = "/vnf-agent/"

// KSRPrefix is the prefix of the reflected Kubernetes state in etcd.
const KSRPrefix = AgentPrefix + "contiv-ksr/"

// NodePrefix returns the prefix of a node's configuration in etcd; an NB key follows.
func NodePrefix(node string) string { return AgentPrefix + node + "/" }

// Prefixes after a NodePrefix that are not configuration.
const (
	// StatusPrefix is the prefix of the agent's answers. The status of a value is at StatusPrefix +
	// NB key.
	StatusPrefix = "status/"
	// PolicyStatusPrefix and ClusterPolicyStatusPrefix are the prefixes of the statuses of network
	// policies, followed by <namespace>/<name> or <name>.
	PolicyStatusPrefix        = StatusPrefix + "policy/"
	ClusterPolicyStatusPrefix = StatusPrefix + "clusternetworkpolicy/"
	// LigatoStatusPrefix is the prefix of statuses in the vpp-agent's format, followed by the NB
	// key without "config/".
	LigatoStatusPrefix = "config-status/"
	// ResyncPrefix is the prefix of requests for a resync.
	ResyncPrefix = "resync/"
	// CheckPrefix is the prefix of the agent's state for programs that do not use its values.
	CheckPrefix = "check/"
	// AgentKey exists while the agent lives, and identifies it.
	AgentKey = CheckPrefix + "agent"
)

// Address sources in keys of interface addresses.
const (
	AddrStatic   = "static"
	AddrFromDHCP = "from_dhcp"
	AddrAllocRef = "alloc_ref"
	AddrExisting = "existing"
)

// VPPInterfaceKey is the key of the interface with the logical name.
func VPPInterfaceKey(name string) string { return VPPInterface.KeyOfName(name) }

// LinuxInterfaceKey is the key of the Linux interface with the logical name.
func LinuxInterfaceKey(name string) string { return LinuxInterface.KeyOfName(name) }

func VRFTableKey(id uint32, ipv6 bool) string {
	protocol := "IPV4"
	if ipv6 {
		protocol = "IPV6"
	}
	return fmt.Sprintf("%sid/%d/protocol/%s", VRFTable.KeyPrefix(), id, protocol)
}

// vppIf is the prefix of keys derived from VPP interfaces.
const vppIf = "vpp/interface/"

// VPPInterfaceAddressPrefix is the prefix of the address keys of an interface.
func VPPInterfaceAddressPrefix(iface string) string { return vppIf + iface + "/address/" }

// VPPInterfaceAddressKey is derived for each address (with prefix length) of an interface.
func VPPInterfaceAddressKey(iface, source, addr string) string {
	return VPPInterfaceAddressPrefix(iface) + source + "/" + addr
}

// VPPInterfaceHasAddressKey is derived from interfaces that have an address.
func VPPInterfaceHasAddressKey(iface string) string { return vppIf + iface + "/has-IP-address" }

// VPPInterfaceVRFPrefix is the prefix of the VRF assignments of an interface.
func VPPInterfaceVRFPrefix(iface string) string { return vppIf + iface + "/vrf/" }

// VPPInterfaceVRFKey assigns an interface to a VRF; version is v4, v6 or both.
func VPPInterfaceVRFKey(iface string, vrf uint32, version string) string {
	return fmt.Sprintf("%s%d/ip-version/%s", VPPInterfaceVRFPrefix(iface), vrf, version)
}

// VPPInterfaceInheritedVRFKey assigns an unnumbered interface to the VRF of the interface that
// lends its address.
func VPPInterfaceInheritedVRFKey(iface, lender string) string {
	return VPPInterfaceVRFPrefix(iface) + "from-interface/" + lender
}

// UnnumberedInterfaceKey is derived from an interface that borrows an address.
func UnnumberedInterfaceKey(iface string) string { return vppIf + "unnumbered/" + iface }

// DHCPClientKey is derived from an interface that obtains its address by DHCP.
func DHCPClientKey(iface string) string { return vppIf + "dhcp-client/" + iface }

// DHCPLeaseKey exists while an interface has a DHCP lease.
func DHCPLeaseKey(iface string) string { return vppIf + "dhcp-lease/" + iface }

// BDInterfaceKey binds an interface to a bridge domain.
func BDInterfaceKey(bd, iface string) string { return "vpp/bd/" + bd + "/interface/" + iface }

// IP6NDKey is derived from an interface that configures itself by router advertisements.
func IP6NDKey(iface string) string { return vppIf + "ip6nd/" + iface }

// LinkStatePrefix is the prefix of the link states of an interface.
func LinkStatePrefix(iface string) string { return vppIf + iface + "/link-state/" }

// LinkStateKey exists while the link of an interface is up, or down.
func LinkStateKey(iface string, up bool) string {
	if up {
		return LinkStatePrefix(iface) + "UP"
	}
	return LinkStatePrefix(iface) + "DOWN"
}

// InterfaceStatePrefix, after a NodePrefix, is the prefix of interface states; the logical name
// follows.
const InterfaceStatePrefix = "vpp/status/v2/interface/"

// RxModesKey is derived from an interface with receive modes.
func RxModesKey(iface string) string { return vppIf + iface + "/rx-modes" }

// RxPlacementKey is derived for each queue of an interface with an assigned worker.
func RxPlacementKey(iface string, queue uint32) string {
	return fmt.Sprintf("%s%s/rx-placement/queue/%d", vppIf, iface, queue)
}

// BondMemberKey is derived for each member of a bond.
func BondMemberKey(bond, iface string) string {
	return "vpp/bond/" + bond + "/interface/" + iface + "/"
}

// ProxyARPInterfaceKey is derived for each interface with proxy ARP.
func ProxyARPInterfaceKey(iface string) string { return "vpp/proxyarp/interface/" + iface }

// ACLInterfacePrefix is the prefix of keys that bind access lists to interfaces.
const ACLInterfacePrefix = "vpp/acl/"

// ACLInterfaceKey binds an access list to the outgoing (egress) or incoming packets of an
// interface.
func ACLInterfaceKey(acl, iface string, egress bool) string {
	if egress {
		return ACLInterfacePrefix + acl + "/interface/egress/" + iface
	}
	return ACLInterfacePrefix + acl + "/interface/ingress/" + iface
}

// ABFInterfacePrefix is the prefix of keys that attach ABFs to interfaces.
const ABFInterfacePrefix = "vpp/abf/"

// ABFInterfaceKey is derived for each interface of an ABF.
func ABFInterfaceKey(abf uint32, iface string) string {
	return fmt.Sprintf("%s%d/interface/%s", ABFInterfacePrefix, abf, iface)
}

// LinuxHostNameKey exists for each network device in the agent's network namespace that is up.
func LinuxHostNameKey(hostName string) string { return "linux/interface/host-name/" + hostName }

// LinuxHostNameAddressKey exists for each address (with prefix length) of such a device.
func LinuxHostNameAddressKey(hostName, addr string) string {
	return LinuxHostNameKey(hostName) + "/address/" + addr
}

// MicroserviceDescriptor is the name of the descriptor of microservices. Its metadata is the path
// of the microservice's network namespace.
const MicroserviceDescriptor = "microservice"

// LinuxMicroserviceKey exists for each microservice that runs on the node.
func LinuxMicroserviceKey(label string) string { return "linux/microservice/" + label }

// LinuxInterfaceStateKey is derived from enabled (UP) or disabled (DOWN) Linux interfaces.
func LinuxInterfaceStateKey(iface string, up bool) string {
	state := "DOWN"
	if up {
		state = "UP"
	}
	return "linux/interface/state/" + iface + "/" + state
}

// LinuxInterfaceAddressPrefix is the prefix of the address keys of a Linux interface.
func LinuxInterfaceAddressPrefix(iface string) string {
	return "linux/interface/" + iface + "/address/"
}

// LinuxInterfaceAddressKey is derived for each address of a Linux interface.
func LinuxInterfaceAddressKey(iface, source, addr string) string {
	return LinuxInterfaceAddressPrefix(iface) + source + "/" + addr
}

// LinuxLinkLocalRoutePrefix is the prefix of the link-scope routes of an interface.
func LinuxLinkLocalRoutePrefix(iface string) string {
	return "linux/link-local-route/" + iface + "/dest-address/"
}

// LinuxLinkLocalRouteKey is derived from link-scope routes.
func LinuxLinkLocalRouteKey(iface, dst string) string {
	return LinuxLinkLocalRoutePrefix(iface) + dst
}

// TapHostIfName is the default name of a TAP's host end in the agent's network namespace, until a
// Linux interface takes it over.
func TapHostIfName(tap string) string {
	h := fnv.New32a()
	h.Write([]byte(tap))
	return fmt.Sprintf("tap-%d", h.Sum32())
}
