package nodesync

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

// Node is an immutable snapshot of a node of the cluster.
type Node struct {
	// ID is unique in the cluster and at least 1, or 0 for a node without one.
	ID   uint32
	Name string
	// VPPIPs are the vswitch's addresses with the prefix lengths of their networks. Other nodes
	// send to the first.
	VPPIPs []netip.Prefix
	// OwnStack reports whether the vswitch has its own network stack, to which the host is
	// connected. It is nil if the node's agent does not publish it.
	OwnStack *bool
	// IPAMOptions are the published options that must be equal on all nodes. May be empty. A change
	// alone causes no NodeUpdate.
	IPAMOptions []string
	// PodAddresses holds service endpoints at other than the main interface of pods, sorted by pod.
	PodAddresses []PodAddresses
	// Host is empty if the node's agent does not publish it. Addresses that another node has in VPPIPs
	// or MgmtIPs are left out.
	Host Host
	// MgmtIPs are the internal and external addresses in Kubernetes.
	MgmtIPs []netip.Addr
	// PodCIDRs are the pod subnets assigned by Kubernetes, at most one per IP version. May be
	// empty. A change alone causes no NodeUpdate.
	PodCIDRs []string

	inKube bool
}

// PodAddresses are the addresses of a custom interface of a pod.
type PodAddresses struct {
	Namespace, Name, Interface string
	// At most one per IP version.
	Addresses []netip.Addr
}

func samePodAddresses(a, b []PodAddresses) bool {
	return slices.EqualFunc(a, b, func(a, b PodAddresses) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name && a.Interface == b.Interface && slices.Equal(a.Addresses, b.Addresses)
	})
}

// maxPodAddresses limits the pods of a node. It exceeds any real number.
const maxPodAddresses = 4096

var (
	podName       = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,252}$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)
)

// podAddresses returns the valid entries of a VppNode, which another node may have written. It
// skips entries without pod, interface or address, second addresses of an IP version, and entries
// after maxPodAddresses.
func podAddresses(v *vppnode.VppNode) (list []PodAddresses) {
	for _, p := range v.GetPodAddresses() {
		entry := PodAddresses{p.GetPodNamespace(), p.GetPodName(), p.GetInterface(), onePerVersion(p.GetAddresses())}
		if len(list) < maxPodAddresses && len(entry.Addresses) > 0 &&
			namespaceName.MatchString(entry.Namespace) && podName.MatchString(entry.Name) && interfaceName.MatchString(entry.Interface) {
			list = append(list, entry)
		}
	}
	return list
}

func onePerVersion(texts []string) (list []netip.Addr) {
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if addr = addr.Unmap(); err != nil || addr.Zone() != "" || slices.ContainsFunc(list, func(a netip.Addr) bool { return a.Is6() == addr.Is6() }) {
			continue
		}
		if list = append(list, addr); len(list) == 2 {
			break
		}
	}
	return list
}

// Nodes maps names to nodes.
type Nodes map[string]*Node

func (n *Node) String() string {
	if n == nil {
		return "none"
	}
	stack := ""
	if n.OwnStack != nil {
		stack = map[bool]string{true: ", own network stack", false: ", the host's network stack"}[*n.OwnStack]
	}
	text := fmt.Sprintf("ID %d, vswitch %v%s, management %v", n.ID, n.VPPIPs, stack, n.MgmtIPs)
	if len(n.Host.Addresses) > 0 {
		text += fmt.Sprintf(", machine %v with %d ports in use", n.Host.Addresses, len(n.Host.InUse))
	}
	if len(n.PodAddresses) > 0 {
		text += fmt.Sprintf(", %d pods reached by services at other interfaces than eth0", len(n.PodAddresses))
	}
	return text
}

func (n *Node) setVPPNode(v *vppnode.VppNode, host Host) {
	n.Host = host
	n.ID, n.VPPIPs, n.OwnStack = v.GetId(), vppAddresses(v), nil
	if v != nil {
		n.OwnStack = v.OwnNetworkStack
	}
	n.IPAMOptions, n.PodAddresses = v.GetIpamOptions(), podAddresses(v)
}

func (n *Node) sameAs(other *Node) bool {
	return n.ID == other.ID && n.Name == other.Name && n.inKube == other.inKube && sameStack(n.OwnStack, other.OwnStack) &&
		slices.Equal(n.VPPIPs, other.VPPIPs) && slices.Equal(n.MgmtIPs, other.MgmtIPs) && slices.Equal(n.PodCIDRs, other.PodCIDRs) &&
		samePodAddresses(n.PodAddresses, other.PodAddresses) && n.Host.equal(other.Host)
}

func sameStack(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }

func (n *Node) setKubeNode(k *node.Node) {
	n.MgmtIPs, n.PodCIDRs, n.inKube = mgmtAddresses(k), PodCIDRs(k), k != nil
}

// PodCIDRs returns the pod subnets in a node's Kubernetes object in canonical form. Invalid texts
// stay unchanged.
func PodCIDRs(k *node.Node) []string {
	texts := slices.Clone(k.GetPod_CIDRs())
	if len(texts) == 0 && k.GetPod_CIDR() != "" {
		texts = []string{k.GetPod_CIDR()} // older versions of KSR
	}
	for i, text := range texts {
		if network, err := kubeaddr.ParseNetwork(text); err == nil {
			texts[i] = network.String()
		}
	}
	return texts
}

func vppAddresses(v *vppnode.VppNode) []netip.Prefix {
	var addresses []netip.Prefix
	for _, text := range append(slices.Clone(v.GetIpAddresses()), v.GetIpAddress()) {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); err != nil && addrErr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err == nil && !slices.Contains(addresses, p) {
			addresses = append(addresses, p)
		}
	}
	return addresses
}

func mgmtAddresses(k *node.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range k.GetAddresses() {
		if t := a.GetType(); t != node.NodeAddress_NodeInternalIP && t != node.NodeAddress_NodeExternalIP {
			continue
		}
		if addr, err := kubeaddr.ParseAddr(a.GetAddress()); err == nil && !slices.Contains(addresses, addr) {
			addresses = append(addresses, addr)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses
}

func (n Nodes) sorted() []*Node {
	list := make([]*Node, 0, len(n))
	for _, node := range n {
		list = append(list, node)
	}
	slices.SortFunc(list, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.ID-1, b.ID-1), cmp.Compare(a.Name, b.Name)) // 0-1 is the maximum
	})
	return list
}

// NodeUpdate reports that a node joined or left the cluster, or a change of its addresses, network
// stack, PodAddresses or Host. For this node, it only reports changes of management addresses,
// PodAddresses and Host.
type NodeUpdate struct {
	controller.NonBlocking
	NodeName string
	// PrevState is nil if the node had no ID before, and NewState if it has none now.
	PrevState, NewState *Node
}

// AboutPodAddresses reports whether the node has or had PodAddresses.
func (e *NodeUpdate) AboutPodAddresses() bool {
	return e.PrevState != nil && len(e.PrevState.PodAddresses) > 0 || e.NewState != nil && len(e.NewState.PodAddresses) > 0
}

func (*NodeUpdate) Name() string                                { return "Node Update" }
func (*NodeUpdate) Method() controller.EventMethod              { return controller.Update }
func (*NodeUpdate) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*NodeUpdate) Direction() controller.Direction             { return controller.Forward }
func (e *NodeUpdate) String() string {
	what := "changed"
	switch {
	case e.PrevState == nil:
		what = "joined"
	case e.NewState == nil:
		what = "left"
	}
	return fmt.Sprintf("Node Update: %s %s\n* before: %v\n* now: %v", e.NodeName, what, e.PrevState, e.NewState)
}
