package ipnet

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// Paths of the handlers.
const (
	IPAMURL = "/contiv/v1/ipam"
	PodsURL = "/contiv/v1/pods"
)

// IPAMReport is the response of GET /contiv/v1/ipam.
type IPAMReport struct {
	NodeID            uint32                `json:"nodeId"`
	NodeName          string                `json:"nodeName"`
	NodeIP            string                `json:"nodeIP"`
	PodSubnetThisNode string                `json:"podSubnetThisNode"`
	VppHostNetwork    string                `json:"vppHostNetwork"`
	Config            contivconf.IPAMConfig `json:"config"`

	PodGateway    string `json:"podGateway"`
	VxlanIP       string `json:"vxlanIP,omitempty"`
	NATLoopbackIP string `json:"natLoopbackIP"`
	// PodIPsUsed and PodIPsTotal count the used and all addresses for pods.
	PodIPsUsed  uint64 `json:"podIPsUsed"`
	PodIPsTotal uint64 `json:"podIPsTotal"`

	// Second describes the other IP version of a dual-stack cluster.
	Second *FamilyReport `json:"second,omitempty"`
}

// FamilyReport holds the addresses of one IP version.
type FamilyReport struct {
	// NodeIP is empty if the node has none.
	NodeIP            string `json:"nodeIP,omitempty"`
	PodSubnetThisNode string `json:"podSubnetThisNode"`
	VppHostNetwork    string `json:"vppHostNetwork,omitempty"`
	PodGateway        string `json:"podGateway"`
	VxlanIP           string `json:"vxlanIP,omitempty"`
	NATLoopbackIP     string `json:"natLoopbackIP"`
}

func (node *thisNode) report(f *family) *FamilyReport {
	report := &FamilyReport{PodSubnetThisNode: f.podSubnet.String(), PodGateway: f.podGateway.Addr().String()}
	if ip := node.ipOf(f.isIPv6()); ip.IsValid() {
		report.NodeIP = ip.String()
	}
	if hostSubnet, err := f.plan.VPPHostSubnet(node.id); err == nil {
		report.VppHostNetwork = hostSubnet.String()
	}
	report.NATLoopbackIP = ipam.NATLoopback(f.podSubnet).String()
	if f.vxlanIP.IsValid() {
		report.VxlanIP = f.vxlanIP.String()
	}
	return report
}

// PodsReport is the response of GET /contiv/v1/pods: the pods wired on this node.
type PodsReport struct {
	Node string `json:"node"`
	// Sorted by namespace and name.
	Pods []PodReport `json:"pods"`
}

// PodReport describes the network of a pod.
type PodReport struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	ContainerID string `json:"containerID"`
	NetNS       string `json:"netns"`
	// UID of the pod, or "" if unknown.
	UID string `json:"uid,omitempty"`
	// Former means that another pod has the name in Kubernetes.
	Former bool `json:"former,omitempty"`

	// IPs with prefix lengths.
	IPs []string `json:"ips"`
	// Gateway of the first of IPs.
	Gateway string `json:"gateway"`
	// Interface name inside the pod.
	Interface string `json:"interface"`
	MAC       string `json:"mac"`
	MTU       uint32 `json:"mtu"`

	// Logical names of interfaces.
	VPPInterface   string `json:"vppInterface"`
	LinuxInterface string `json:"linuxInterface"`
	Loopback       string `json:"loopback"`
	// CustomInterfaces are the declared interfaces. Refused lists the rejected declarations.
	CustomInterfaces []CustomIfReport `json:"customInterfaces,omitempty"`
	Refused          []string         `json:"refused,omitempty"`
	// Keys of the pod's northbound values, sorted.
	Keys []string `json:"keys"`
}

// CustomIfReport describes a custom interface of a pod.
type CustomIfReport struct {
	// Name inside the pod.
	Name    string `json:"name"`
	Type    string `json:"type"`
	Network string `json:"network"`
	// IPs without prefix lengths. The network "stub" has none.
	IPs          []string `json:"ips,omitempty"`
	MAC          string   `json:"mac"`
	VPPInterface string   `json:"vppInterface"`
	// ServiceEndpoint means that services reach the pod here.
	ServiceEndpoint bool `json:"serviceEndpoint,omitempty"`
	// Problem is the reason why the interface does not exist, or "".
	Problem string `json:"problem,omitempty"`
}

func (w *podNetwork) reportCustom(declared podmanager.CustomIfs) (list []CustomIfReport) {
	for _, i := range w.custom {
		r := CustomIfReport{Name: i.Name, Type: i.Type, Network: i.Network, MAC: i.mac, VPPInterface: i.vpp, ServiceEndpoint: i.Name == declared.EndpointIf, Problem: i.problem}
		for _, ip := range i.ips {
			r.IPs = append(r.IPs, ip.String())
		}
		if !i.wired() && i.problem == "" {
			r.Problem = "it has no address yet"
		}
		list = append(list, r)
	}
	return list
}

var errNotReady = errors.New("the network of this node is unknown before the startup resync: try again later")

// IPAMReport describes the addresses of this node.
func (n *IPNet) IPAMReport() (IPAMReport, error) {
	node := n.thisNode()
	switch {
	case node == nil:
		return IPAMReport{}, errNotReady
	case len(node.ips) == 0:
		return IPAMReport{}, errors.New("this node has no IP address yet")
	}
	first := node.report(&node.families[0])
	report := IPAMReport{
		NodeID: node.id, NodeName: n.config.NodeName(), NodeIP: node.ip().String(), Config: n.config.EffectiveIPAMConfig(),
		PodSubnetThisNode: first.PodSubnetThisNode, VppHostNetwork: first.VppHostNetwork,
		PodGateway: first.PodGateway, VxlanIP: first.VxlanIP, NATLoopbackIP: first.NATLoopbackIP,
	}
	if len(node.families) > 1 {
		report.Second = node.report(&node.families[1])
	}
	report.PodIPsUsed, report.PodIPsTotal = n.ipam.Usage()
	return report, nil
}

// PodsReport describes this node's pods. It may omit a pod that is being added or removed.
func (n *IPNet) PodsReport() (PodsReport, error) {
	node := n.thisNode()
	if node == nil {
		return PodsReport{}, errNotReady
	}
	report := PodsReport{Node: n.config.NodeName(), Pods: []PodReport{}}
	for id, pod := range n.pods.LocalPods() {
		w, err := n.podNetwork(node, pod)
		if err != nil {
			continue
		}
		report.Pods = append(report.Pods, PodReport{
			Name: id.Name, Namespace: id.Namespace, ContainerID: pod.ContainerID, NetNS: pod.NetNS, UID: pod.UID, Former: n.pods.IsFormer(pod),
			IPs: prefixStrings(w.iface.IPs), Gateway: w.iface.Gateways[0].String(), Interface: w.iface.HostName, MAC: w.iface.MAC, MTU: w.iface.MTU,
			VPPInterface: w.vpp, LinuxInterface: w.linux, Loopback: w.loopback, Keys: w.keys(),
			CustomInterfaces: w.reportCustom(pod.Custom), Refused: pod.Custom.Refused,
		})
	}
	slices.SortFunc(report.Pods, func(a, b PodReport) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return report, nil
}

// IPAMHandler serves GET /contiv/v1/ipam.
func (n *IPNet) IPAMHandler() http.Handler {
	return handler(http.StatusInternalServerError, n.IPAMReport)
}

// PodsHandler serves GET /contiv/v1/pods.
func (n *IPNet) PodsHandler() http.Handler {
	return handler(http.StatusServiceUnavailable, n.PodsReport)
}

func handler[T any](status int, report func() (T, error)) http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		answer, err := report()
		if err != nil {
			rest.Error(w, status, err)
			return
		}
		rest.JSON(w, answer)
	})
}
