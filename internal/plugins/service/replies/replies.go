// Package replies leads replies of pods to external clients back to the translation. Pods that see
// these clients send replies to them. A vswitch with its own stack translates in VRF 0, in both
// directions, but the VRF of pods routes other nodes and their pods to the overlay, untranslated. An
// access list forwards these replies to VRF 0:
//
//	pod ──> access list: from an endpoint's address and port ──> VRF 0: translated back ──> client
//	    └─> everything else ───────────────────────────────────> VRF of pods
//
// A removed endpoint keeps serving its connections as long as its pod lives. A restarted agent
// knows only endpoints that are still listed, ready or not.
//
// Masqueraded clients have an address that always leads to VRF 0 (package proxy).
package replies

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/accesslist"
	"github.com/contiv/contiv/internal/plugins/service/hostports"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

const (
	listName = "service-answers"
	// ABF indexes and priority. ABFs of other owners come first.
	abf4, abf6 = 0x53564304, 0x53564306
	priority   = 1 << 16
)

// Replies requests the values of direct endpoints.
type Replies struct {
	node      *localnode.Node
	ports     *podports.Ports
	hostPorts *hostports.HostPorts
	proxy     *proxy.Proxy // nil without service proxy

	endpoints map[proxy.DirectEndpoint]bool // current and removed ones
	requested map[string]proto.Message      // last values by key
}

// New returns the part for a node. The proxy may be nil.
func New(node *localnode.Node, ports *podports.Ports, hostPorts *hostports.HostPorts, services *proxy.Proxy) *Replies {
	return &Replies{node: node, ports: ports, hostPorts: hostPorts, proxy: services, endpoints: map[proxy.DirectEndpoint]bool{}}
}

// HandlesEvent reports whether an event changes interfaces of pods.
func (r *Replies) HandlesEvent(event controller.Event) bool {
	_, changed := event.(*podmanager.PodCustomIfUpdate)
	return changed && r.node.RepliesBypassVRF0()
}

// Resync requests all values.
func (r *Replies) Resync(txn controller.ResyncOperations) {
	r.requested = r.wanted(podmanager.PodID{})
	for key, value := range r.requested {
		txn.Put(key, value)
	}
}

// Update requests the values that differ after an event.
func (r *Replies) Update(event controller.Event, txn controller.UpdateOperations) {
	var deleted podmanager.PodID
	if e, ok := event.(*podmanager.DeletePod); ok {
		deleted = e.Pod
	}
	wanted := r.wanted(deleted)
	for key := range r.requested {
		if wanted[key] == nil {
			txn.Delete(key)
		}
	}
	for key, value := range wanted {
		if !proto.Equal(r.requested[key], value) {
			txn.Put(key, value)
		}
	}
	r.requested = wanted
}

// wanted returns all values. A pod being deleted sends no replies.
func (r *Replies) wanted(deleted podmanager.PodID) map[string]proto.Message {
	if !r.node.RepliesBypassVRF0() {
		return nil
	}
	for e := range r.proxy.DirectEndpoints() {
		r.endpoints[e] = true
	}
	for _, pod := range r.ports.Local() {
		open, _ := r.hostPorts.Open(pod)
		for _, f := range open.Frontends {
			for _, e := range f.Outside {
				r.endpoints[proxy.DirectEndpoint{Protocol: f.Protocol, Addr: e.Addr}] = true
			}
		}
	}
	if len(r.endpoints) == 0 {
		return nil
	}
	interfaces := map[netip.Addr][]string{}
	for name, pod := range r.node.Network.PodInterfaces() {
		for _, ip := range r.podAddresses(pod) {
			if pod != deleted {
				interfaces[ip] = append(interfaces[ip], name)
			}
		}
	}
	maps.DeleteFunc(r.endpoints, func(e proxy.DirectEndpoint, _ bool) bool { return len(interfaces[e.Addr.Addr()]) == 0 })
	return r.render(slices.SortedFunc(maps.Keys(r.endpoints), compare), interfaces)
}

func (r *Replies) render(endpoints []proxy.DirectEndpoint, interfaces map[netip.Addr][]string) map[string]proto.Message {
	if len(endpoints) == 0 {
		return nil
	}
	list := &vpp_acl.ACL{Name: listName}
	abfs := map[bool]*vpp_abf.ABF{}
	for _, e := range endpoints {
		ipv6 := e.Addr.Addr().Is6()
		if abfs[ipv6] == nil {
			abfs[ipv6] = abf(ipv6)
		}
		// The pod's routes select the interface of a reply.
		for _, name := range slices.Sorted(slices.Values(interfaces[e.Addr.Addr()])) {
			at := &vpp_abf.ABF_AttachedInterface{InputInterface: name, Priority: priority, IsIpv6: ipv6}
			if attached := &abfs[ipv6].AttachedInterfaces; !slices.ContainsFunc(*attached, func(o *vpp_abf.ABF_AttachedInterface) bool { return proto.Equal(o, at) }) {
				*attached = append(*attached, at)
			}
		}
		list.Rules = append(list.Rules, fromEndpoint(e))
	}
	values := map[string]proto.Message{models.Key(list): list}
	for _, abf := range abfs {
		values[models.Key(abf)] = abf
	}
	maps.Copy(values, r.overlayRoutes())
	return values
}

func abf(ipv6 bool) *vpp_abf.ABF {
	index, everything := uint32(abf4), netip.IPv4Unspecified()
	if ipv6 {
		index, everything = abf6, netip.IPv6Unspecified()
	}
	return &vpp_abf.ABF{Index: index, AclName: listName, ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{NextHopIp: everything.String()}}}
}

func fromEndpoint(e proxy.DirectEndpoint) *vpp_acl.ACL_Rule {
	ip := &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: netip.PrefixFrom(e.Addr.Addr(), e.Addr.Addr().BitLen()).String()}
	return accesslist.Rule(vpp_acl.ACL_Rule_PERMIT, ip, e.Protocol, accesslist.OnePort(e.Addr), nil)
}

// overlayRoutes returns routes for the overlay addresses of other nodes from VRF 0 to the VRF of pods,
// the only one that knows them. Processes of other nodes reach endpoints from these addresses.
func (r *Replies) overlayRoutes() map[string]proto.Message {
	values := map[string]proto.Message{}
	routing, plan := r.node.Config.Routing(), r.node.Addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VXLAN.IsValid() {
			continue
		}
		route := &vpp_l3.Route{
			Type: vpp_l3.Route_INTER_VRF, VrfId: routing.MainVRFID, ViaVrfId: routing.PodVRFID,
			DstNetwork: family.Subnets.VXLAN.Masked().String(),
		}
		values[models.Key(route)] = route
	}
	return values
}

// podAddresses includes addresses at other interfaces than eth0 at which services reach the pod.
func (r *Replies) podAddresses(pod podmanager.PodID) []netip.Addr {
	addrs := r.node.Addresses.GetPodIPs(pod)
	if r.proxy == nil {
		return addrs
	}
	own := r.node.PodSubnets()
	for _, redirect := range r.proxy.Services.Redirects()[processor.ID{Namespace: pod.Namespace, Name: pod.Name}] {
		if slices.Contains(own, redirect.Subnet) {
			addrs = append(slices.Clip(addrs), redirect.Addr)
		}
	}
	return addrs
}

func compare(a, b proxy.DirectEndpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol))
}
