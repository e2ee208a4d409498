package fake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Network connects the devices of nodes: a node reaches the addresses of the other nodes.
type Network struct {
	mu    sync.Mutex
	nodes []*Node
}

// NewNetwork returns a network without nodes.
func NewNetwork() *Network { return &Network{} }

// NewNode adds a node with the capabilities and existing devices.
func (n *Network) NewNode(name string, caps vswitch.Capabilities, devices ...string) *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := &Node{name: name, net: n, caps: caps, devices: map[string]*iface{}}
	node.reset()
	for _, d := range devices {
		node.devices[d] = newIface(&vpp_interfaces.Interface{Name: d, Type: vpp_interfaces.Interface_DPDK, Mtu: 1500})
	}
	n.nodes = append(n.nodes, node)
	return node
}

// Node is the state of one vswitch, guarded by its network's lock.
type Node struct {
	name string
	net  *Network
	caps vswitch.Capabilities

	// devices exist independently of the agent; created ones are also in ifaces.
	devices map[string]*iface
	ifaces  map[string]*iface
	bridges map[string]*bridge
	// Other values by northbound key.
	fib        map[string]*vpp_l2.FIBEntry
	routes     map[string]*vpp_l3.Route
	neighbours map[string]*vpp_l3.ARPEntry
	vrfs       map[string]*vpp_l3.VrfTable
	nat        natTables
	nat66      map[string]*contiv_nat.SourceNAT66
	dnat66     map[string]*contiv_nat.DNat66
	network    map[string]*contiv_nat.ServiceNetwork // one at most
	acl        accessLists
	filter     filterValues

	features map[string]proto.Message

	watchers map[*watcher]bool
	opened   []*VSwitch
}

type watcher struct {
	report func(reason string, keys ...string)
}

type iface struct {
	value *vpp_interfaces.Interface // without addresses, VRF, lender, DHCP
	// addrs are the addresses; true: assigned by us.
	addrs  map[netip.Prefix]bool
	v4, v6 uint32 // VRFs
	lender string
	// dhcp: a DHCP client is set; lease is its current lease.
	dhcp  bool
	lease *vpp_interfaces.DHCPLease
	// unplugged: the link is down, even if enabled.
	unplugged bool
}

func newIface(v *vpp_interfaces.Interface) *iface {
	v = proto.CloneOf(v)
	v.IpAddresses, v.Vrf, v.Unnumbered, v.SetDhcpClient = nil, 0, nil, false
	v.Ip6Nd, v.RxModes, v.RxPlacements = nil, nil, nil
	return &iface{value: v, addrs: map[netip.Prefix]bool{}}
}

type bridge struct {
	value *vpp_l2.BridgeDomain
	bound map[string]*vpp_l2.BridgeDomain_Interface
}

func (n *Node) reset() {
	n.ifaces, n.bridges = map[string]*iface{}, map[string]*bridge{}
	n.features = map[string]proto.Message{}
	n.fib, n.routes, n.neighbours = map[string]*vpp_l2.FIBEntry{}, map[string]*vpp_l3.Route{}, map[string]*vpp_l3.ARPEntry{}
	n.vrfs, n.nat = map[string]*vpp_l3.VrfTable{}, newNATTables()
	n.nat66, n.dnat66 = map[string]*contiv_nat.SourceNAT66{}, map[string]*contiv_nat.DNat66{}
	n.network = map[string]*contiv_nat.ServiceNetwork{}
	n.acl = newAccessLists()
	n.filter = filterValues{}
	n.watchers = map[*watcher]bool{}
}

// SetDevice sets foreign addresses on an existing device, and sets it up.
func (n *Node) SetDevice(device string, addrs ...netip.Prefix) {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	d := n.devices[device]
	if d == nil {
		panic(fmt.Sprintf("node %s has no device %s", n.name, device))
	}
	d.value.Enabled = true
	for _, a := range addrs {
		d.addrs[a] = false
	}
}

// Break removes the object of a northbound value and its dependents behind the vswitch's back. It
// returns false if it does not exist.
func (n *Node) Break(key string) bool {
	n.net.mu.Lock()
	before := n.keys()
	n.remove(key)
	var gone []string
	after := n.keys()
	for k := range before {
		if !after[k] {
			gone = append(gone, k)
		}
	}
	watchers := slices.Collect(maps.Keys(n.watchers))
	n.net.mu.Unlock()
	if len(gone) == 0 {
		return false
	}
	slices.Sort(gone)
	for _, w := range watchers {
		w.report(key+" was removed", gone...)
	}
	return true
}

func (n *Node) keys() map[string]bool {
	keys := map[string]bool{}
	for name := range n.ifaces {
		keys[models.VPPInterfaceKey(name)] = true
	}
	for name := range n.bridges {
		keys[models.BridgeDomain.KeyPrefix()+name] = true
	}
	addKeys(keys, n.features)
	addKeys(keys, n.fib)
	addKeys(keys, n.routes)
	addKeys(keys, n.neighbours)
	addKeys(keys, n.vrfs)
	n.nat.keys(keys)
	addKeys(keys, n.nat66)
	addKeys(keys, n.dnat66)
	addKeys(keys, n.network)
	n.aclKeys(keys)
	return keys
}

func addKeys[V any](keys map[string]bool, values map[string]V) {
	for key := range values {
		keys[key] = true
	}
}

func (n *Node) remove(key string) {
	model, ok := models.ForKey(key)
	if !ok {
		return
	}
	switch name := key[min(len(model.KeyPrefix()), len(key)):]; model {
	case models.VPPInterface:
		n.removeInterface(name)
	case models.BridgeDomain:
		n.removeBridge(name)
	case models.ACL:
		n.acl.remove(name)
	case models.NAT44Global:
		n.nat = newNATTables()
	default:
		delete(n.features, key)
		delete(n.fib, key)
		delete(n.routes, key)
		delete(n.neighbours, key)
		delete(n.vrfs, key)
		n.nat.remove(key)
		delete(n.nat66, key)
		delete(n.dnat66, key)
		delete(n.network, key)
	}
}

func (n *Node) removeInterface(name string) {
	i := n.ifaces[name]
	if i == nil {
		return
	}
	delete(n.ifaces, name)
	n.reportState(name)
	n.acl.forget(name)
	for addr, ours := range i.addrs {
		if ours {
			delete(i.addrs, addr)
		}
	}
	for _, b := range n.bridges {
		delete(b.bound, name)
	}
	n.removeProxyARP(name)
	maps.DeleteFunc(n.features, func(_ string, v proto.Message) bool { return slices.Contains(interfacesOf(v), name) })
	maps.DeleteFunc(n.fib, func(_ string, e *vpp_l2.FIBEntry) bool { return e.GetOutgoingInterface() == name })
	maps.DeleteFunc(n.routes, func(_ string, r *vpp_l3.Route) bool { return r.GetOutgoingInterface() == name })
	maps.DeleteFunc(n.neighbours, func(_ string, e *vpp_l3.ARPEntry) bool { return e.GetInterface() == name })
	maps.DeleteFunc(n.nat66, func(_ string, s *contiv_nat.SourceNAT66) bool { return s.GetInterface() == name })
	n.nat.forget(name)
}

func (n *Node) removeBridge(name string) {
	delete(n.bridges, name)
	maps.DeleteFunc(n.fib, func(_ string, e *vpp_l2.FIBEntry) bool { return e.GetBridgeDomain() == name })
}
