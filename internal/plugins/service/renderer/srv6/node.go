package srv6

import (
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// PodSID returns the SID of a pod.
func PodSID(pod netip.Addr, o Options) netip.Addr {
	return sid(o.SIDs.ServicePodLocalSIDSubnetCIDR, pod)
}

// NodeSID returns the SID of a node.
func NodeSID(node netip.Addr, o Options) netip.Addr {
	return sid(o.SIDs.ServiceNodeLocalSIDSubnetCIDR, node)
}

// Node contains the state that all services of a node share.
type Node struct {
	// Addr is the IPv6 address of the node. Others contains the addresses of all other nodes.
	Addr   netip.Addr
	Others []netip.Addr
	// Pods maps local pod addresses to interfaces. Every pod has a SID, so that removing a service
	// does not remove the SID that another one needs.
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
