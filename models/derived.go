package models

import (
	"fmt"
	"hash/fnv"
)

// AgentPrefix starts all keys of Contiv in etcd.
const AgentPrefix = "/vnf-agent/"

// KSRPrefix starts the keys of the reflected Kubernetes state in etcd.
const KSRPrefix = AgentPrefix + "contiv-ksr/"

// NodePrefix starts the keys of a node's configuration in etcd; an NB key follows.
func NodePrefix(node string) string { return AgentPrefix + node + "/" }

// Behind a NodePrefix, beside the configuration.
const (
	// StatusPrefix starts the keys of what the agent answers. The status of the value
	// with an NB key is under StatusPrefix and that key.
	StatusPrefix = "status/"
	// PolicyStatusPrefix and ClusterPolicyStatusPrefix start the keys of what became of network
	// policies, <namespace>/<name> or <name>.
	PolicyStatusPrefix        = StatusPrefix + "policy/"
	ClusterPolicyStatusPrefix = StatusPrefix + "clusternetworkpolicy/"
	// LigatoStatusPrefix starts the keys of statuses in the vpp-agent's form; the rest of
	// the key of the value, behind "config/", follows.
	LigatoStatusPrefix = "config-status/"
	// ResyncPrefix starts the keys of requests for a resync.
	ResyncPrefix = "resync/"
	// CheckPrefix starts the keys in which the agent publishes its state for programs that are no clients
	// of its values.
	CheckPrefix = "check/"
	// AgentKey is there as long as the agent lives, and says which one it is.
	AgentKey = CheckPrefix + "agent"
)

// Address sources, a part of the keys of interface addresses.
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

// VRFTableKey is the key of a VRF table.
func VRFTableKey(id uint32, ipv6 bool) string {
	protocol := "IPV4"
	if ipv6 {
		protocol = "IPV6"
	}
	return fmt.Sprintf("%sid/%d/protocol/%s", VRFTable.KeyPrefix(), id, protocol)
}

// vppIf starts the keys of values derived from VPP interfaces.
const vppIf = "vpp/interface/"

// VPPInterfaceAddressPrefix is common to the addresses of an interface.
func VPPInterfaceAddressPrefix(iface string) string { return vppIf + iface + "/address/" }

// VPPInterfaceAddressKey is derived for each address (with prefix length) of an
// interface.
func VPPInterfaceAddressKey(iface, source, addr string) string {
	return VPPInterfaceAddressPrefix(iface) + source + "/" + addr
}

// VPPInterfaceHasAddressKey is derived from interfaces that have an address.
func VPPInterfaceHasAddressKey(iface string) string { return vppIf + iface + "/has-IP-address" }

// VPPInterfaceVRFPrefix is common to the VRF assignments of an interface.
func VPPInterfaceVRFPrefix(iface string) string { return vppIf + iface + "/vrf/" }

// VPPInterfaceVRFKey assigns an interface to a VRF; version is v4, v6 or both.
func VPPInterfaceVRFKey(iface string, vrf uint32, version string) string {
	return fmt.Sprintf("%s%d/ip-version/%s", VPPInterfaceVRFPrefix(iface), vrf, version)
}

// VPPInterfaceInheritedVRFKey assigns an unnumbered interface to the VRF of the
// interface that lends it an address.
func VPPInterfaceInheritedVRFKey(iface, lender string) string {
	return VPPInterfaceVRFPrefix(iface) + "from-interface/" + lender
}

// UnnumberedInterfaceKey is derived from an interface that borrows an address.
func UnnumberedInterfaceKey(iface string) string { return vppIf + "unnumbered/" + iface }

// DHCPClientKey is derived from an interface that obtains its address by DHCP.
func DHCPClientKey(iface string) string { return vppIf + "dhcp-client/" + iface }

// DHCPLeaseKey is obtained for an interface while it has a DHCP lease.
func DHCPLeaseKey(iface string) string { return vppIf + "dhcp-lease/" + iface }

// BDInterfaceKey binds an interface to a bridge domain.
func BDInterfaceKey(bd, iface string) string { return "vpp/bd/" + bd + "/interface/" + iface }

// IP6NDKey is derived from an interface that configures itself by router
// advertisements.
func IP6NDKey(iface string) string { return vppIf + "ip6nd/" + iface }

// LinkStatePrefix is common to the link states of an interface.
func LinkStatePrefix(iface string) string { return vppIf + iface + "/link-state/" }

// LinkStateKey is obtained for an interface while its link is up, or down.
func LinkStateKey(iface string, up bool) string {
	if up {
		return LinkStatePrefix(iface) + "UP"
	}
	return LinkStatePrefix(iface) + "DOWN"
}

// InterfaceStatePrefix starts the keys, behind a NodePrefix, of the states of
// interfaces; the logical name follows.
const InterfaceStatePrefix = "vpp/status/v2/interface/"

// RxModesKey is derived from an interface with modes of reception.
func RxModesKey(iface string) string { return vppIf + iface + "/rx-modes" }

// RxPlacementKey is derived for each queue of an interface that has its worker given.
func RxPlacementKey(iface string, queue uint32) string {
	return fmt.Sprintf("%s%s/rx-placement/queue/%d", vppIf, iface, queue)
}

// BondMemberKey is derived for each member of a bond.
func BondMemberKey(bond, iface string) string {
	return "vpp/bond/" + bond + "/interface/" + iface + "/"
}

// ProxyARPInterfaceKey is derived for each interface that answers for others.
func ProxyARPInterfaceKey(iface string) string { return "vpp/proxyarp/interface/" + iface }

// ACLInterfacePrefix starts the keys that bind access lists to interfaces.
const ACLInterfacePrefix = "vpp/acl/"

// ACLInterfaceKey binds an access list to an interface, for the packets that leave
// through it (egress) or enter.
func ACLInterfaceKey(acl, iface string, egress bool) string {
	if egress {
		return ACLInterfacePrefix + acl + "/interface/egress/" + iface
	}
	return ACLInterfacePrefix + acl + "/interface/ingress/" + iface
}

// ABFInterfacePrefix starts the keys that attach ABFs to interfaces.
const ABFInterfacePrefix = "vpp/abf/"

// ABFInterfaceKey is derived for each interface that an ABF is attached to.
func ABFInterfaceKey(abf uint32, iface string) string {
	return fmt.Sprintf("%s%d/interface/%s", ABFInterfacePrefix, abf, iface)
}

// LinuxHostNameKey is obtained for each network device of the agent's own network
// namespace that is up.
func LinuxHostNameKey(hostName string) string { return "linux/interface/host-name/" + hostName }

// LinuxHostNameAddressKey is obtained for each address (with prefix length) of
// such a device.
func LinuxHostNameAddressKey(hostName, addr string) string {
	return LinuxHostNameKey(hostName) + "/address/" + addr
}

// MicroserviceDescriptor is the name of the descriptor of microservices. Its metadata is
// the path of the microservice's network namespace.
const MicroserviceDescriptor = "microservice"

// LinuxMicroserviceKey is obtained for each microservice that runs on the node.
func LinuxMicroserviceKey(label string) string { return "linux/microservice/" + label }

// LinuxInterfaceStateKey is a property of enabled (UP) and disabled (DOWN)
// Linux interfaces.
func LinuxInterfaceStateKey(iface string, up bool) string {
	state := "DOWN"
	if up {
		state = "UP"
	}
	return "linux/interface/state/" + iface + "/" + state
}

// LinuxInterfaceAddressPrefix is common to the addresses of a Linux interface.
func LinuxInterfaceAddressPrefix(iface string) string {
	return "linux/interface/" + iface + "/address/"
}

// LinuxInterfaceAddressKey is derived for each address of a Linux interface.
func LinuxInterfaceAddressKey(iface, source, addr string) string {
	return LinuxInterfaceAddressPrefix(iface) + source + "/" + addr
}

// LinuxLinkLocalRoutePrefix is common to the link-scope routes of an interface.
func LinuxLinkLocalRoutePrefix(iface string) string {
	return "linux/link-local-route/" + iface + "/dest-address/"
}

// LinuxLinkLocalRouteKey is a property of link-scope routes.
func LinuxLinkLocalRouteKey(iface, dst string) string {
	return LinuxLinkLocalRoutePrefix(iface) + dst
}

// TapHostIfName is the name that the far end of a TAP interface has in the
// agent's network namespace until a Linux interface takes it over, unless the
// TAP's host_if_name says otherwise.
func TapHostIfName(tap string) string {
	h := fnv.New32a()
	h.Write([]byte(tap))
	return fmt.Sprintf("tap-%d", h.Sum32())
}
