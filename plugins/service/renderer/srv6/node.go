package srv6

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// PodSID returns the segment that ends at a pod.
func PodSID(pod netip.Addr, o Options) netip.Addr {
	return sid(o.SIDs.ServicePodLocalSIDSubnetCIDR, pod)
}

// NodeSID returns the segment that ends at a node.
func NodeSID(node netip.Addr, o Options) netip.Addr {
	return sid(o.SIDs.ServiceNodeLocalSIDSubnetCIDR, node)
}

// Node is what the services of a node have in common.
type Node struct {
	// Addr is the IPv6 address of the node, and Others has those of the other nodes.
	Addr   netip.Addr
	Others []netip.Addr
	// Pods has the interfaces of this node's pods by address. A pod has its segment whether a service
	// leads to it or not: so none goes while another service needs it.
	Pods map[netip.Addr]string
}

// Render returns the values of a node, by key.
func (n Node) Render(o Options) map[string]proto.Message {
	values := map[string]proto.Message{}
	add := func(value proto.Message) { values[models.Key(value)] = value }
	add(&vpp_srv6.SRv6Global{EncapSourceAddress: n.Addr.String()})
	add(&vpp_srv6.LocalSID{Sid: NodeSID(n.Addr, o).String(), InstallationVrfId: o.MainVRF,
		EndFunction: &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{}}})
	for _, other := range n.Others {
		add(&vpp_l3.Route{VrfId: o.MainVRF, DstNetwork: host(NodeSID(other, o)), NextHopAddr: other.String()})
	}
	for pod, iface := range n.Pods {
		end := &vpp_srv6.LocalSID{Sid: PodSID(pod, o).String(), InstallationVrfId: o.PodVRF}
		if pod.Is4() {
			end.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx4{EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: pod.String()}}
		} else {
			end.EndFunction = &vpp_srv6.LocalSID_EndFunctionDx6{EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: iface, NextHop: pod.String()}}
		}
		add(end)
		if o.PodVRF != o.MainVRF {
			add(&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: o.MainVRF, ViaVrfId: o.PodVRF, DstNetwork: host(PodSID(pod, o))})
		}
	}
	return values
}
