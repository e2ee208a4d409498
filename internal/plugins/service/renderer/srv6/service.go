// Package srv6 renders services as segment routing: the addresses of a service are steered into a
// policy with a segment list for each endpoint.
//
//	client ─> steering <address>/32 ─> policy ─┬─ [SID of the node, SID of the pod] ─> another node
//	                                           └─ [SID of the pod]                  ─> a local pod
//
//	SID of a node   END        the node processes the next segment
//	SID of a pod    END.DX4/6  the packet leaves through the interface of the pod, which has the
//	                           address of the service on its loopback
//
// Packets are not modified. Services that require it, such as another port at the endpoint, are not
// carried, and Carry reports the reason.
package srv6

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// maxEndpoints limits the segment lists of a policy on any vswitch.
const maxEndpoints = 62

// Options are the settings of the node and its administrator.
type Options struct {
	SIDs contivconf.SRv6Config
	// MainVRF contains the policies. Addresses are steered in both VRFs.
	MainVRF, PodVRF uint32
	// NodeOf returns the IPv6 address of a pod's node, or an invalid one if unknown. isPod is false
	// for addresses outside the pod subnets.
	NodeOf func(endpoint netip.Addr) (node netip.Addr, isPod bool)
	// External allows external addresses. It requires that replies to external clients keep their
	// source.
	External bool
	// LocalWeight is the weight of a local endpoint relative to a remote one, at least 1.
	LocalWeight uint32
}

// Carried contains the SRv6 values of one IP version of a service.
type Carried struct {
	// Addrs contains the carried addresses, in order.
	Addrs []netip.Addr
	// Values contains policies and steerings by key.
	Values map[string]proto.Message
	// Endpoints contains the local endpoints by carried address.
	Endpoints map[netip.Addr][]netip.Addr
	// Why explains why an address is not carried. Addresses of the node are omitted.
	Why map[netip.Addr]string
}

// Has reports whether an address is carried.
func (c Carried) Has(addr netip.Addr) bool { return slices.Contains(c.Addrs, addr) }

// Carry renders the addresses of a service that segments can carry.
func Carry(s *processor.Service, o Options) Carried {
	c := Carried{Values: map[string]proto.Message{}, Endpoints: map[netip.Addr][]netip.Addr{}, Why: map[netip.Addr]string{}}
	var last *vpp_srv6.Policy
	for i := 0; i < len(s.Frontends); {
		addr := s.Frontends[i].Addr.Addr()
		end := i
		for end < len(s.Frontends) && s.Frontends[end].Addr.Addr() == addr {
			end++
		}
		frontends := s.Frontends[i:end]
		i = end
		if kind := frontends[0].Kind; kind == processor.NodePort || kind == processor.Entrance {
			continue
		}
		if why := whyNot(s, frontends, o); why != "" {
			c.Why[addr] = why
			continue
		}
		// Addresses with the same endpoints share the policy of the lowest.
		policy := policyOf(addr, frontends[0].Inside, o)
		if last != nil && proto.Equal(&vpp_srv6.Policy{SegmentLists: last.SegmentLists}, &vpp_srv6.Policy{SegmentLists: policy.SegmentLists}) {
			policy = last
		}
		last = policy
		c.add(policy)
		c.Addrs = append(c.Addrs, addr)
		for _, e := range frontends[0].Inside {
			if e.Local {
				c.Endpoints[addr] = append(c.Endpoints[addr], e.Addr.Addr())
			}
		}
		for _, vrf := range slices.Compact([]uint32{o.MainVRF, o.PodVRF}) {
			c.add(steering(s.ID, addr, policy.GetBsid(), vrf, o))
		}
	}
	return c
}

func (c Carried) add(value proto.Message) { c.Values[models.Key(value)] = value }

// whyNot returns "" if the sorted frontends of an address are carried.
func whyNot(s *processor.Service, frontends []processor.Frontend, o Options) string {
	first := frontends[0]
	switch {
	case first.Kind != processor.ClusterIP && !o.External:
		return "answers to clients outside would get another source (natExternalTraffic)"
	case s.Affinity > 0:
		return "segments know no sessionAffinity"
	case len(first.Inside) == 0 && len(first.Outside) == 0:
		return "it has no endpoint"
	case len(first.Inside) > maxEndpoints:
		return fmt.Sprintf("it has %d endpoints, and segments support at most %d", len(first.Inside), maxEndpoints)
	}
	for _, f := range frontends {
		switch {
		case f.Restricted:
			return "segments know no loadBalancerSourceRanges"
		case !slices.Equal(f.Inside, f.Outside):
			return "clients inside and outside have different endpoints"
		case !slices.Equal(addresses(f.Inside), addresses(first.Inside)):
			return "its ports have different endpoints"
		}
		for _, e := range f.Inside {
			node, isPod := o.NodeOf(e.Addr.Addr())
			switch {
			case e.Interface != "":
				return fmt.Sprintf("endpoint %v is at the interface %s of its pod, and segments lead to eth0", e.Addr.Addr(), e.Interface)
			case e.Addr.Port() != f.Addr.Port():
				return fmt.Sprintf("port %d is port %d of endpoint %v", f.Addr.Port(), e.Addr.Port(), e.Addr.Addr())
			case !isPod:
				return fmt.Sprintf("endpoint %v is no pod", e.Addr.Addr())
			case !e.Local && !node.IsValid():
				return fmt.Sprintf("the node of endpoint %v has no IPv6 address", e.Addr.Addr())
			}
		}
	}
	return ""
}

func addresses(endpoints []processor.Endpoint) (list []netip.Addr) {
	for _, e := range endpoints {
		list = append(list, e.Addr.Addr())
	}
	return slices.Compact(list)
}

func policyOf(addr netip.Addr, endpoints []processor.Endpoint, o Options) *vpp_srv6.Policy {
	p := &vpp_srv6.Policy{Bsid: sid(o.SIDs.ServicePolicyBSIDSubnetCIDR, addr).String(), InstallationVrfId: o.MainVRF, SrhEncapsulation: true}
	for _, e := range endpoints {
		list := &vpp_srv6.Policy_SegmentList{Weight: 1, Segments: []string{PodSID(e.Addr.Addr(), o).String()}}
		if e.Local {
			list.Weight = max(o.LocalWeight, 1)
		} else {
			node, _ := o.NodeOf(e.Addr.Addr())
			list.Segments = slices.Insert(list.Segments, 0, NodeSID(node, o).String())
		}
		p.SegmentLists = append(p.SegmentLists, list)
	}
	return p
}

// The name contains the address, because a service may have several.
func steering(id processor.ID, addr netip.Addr, bsid string, vrf uint32, o Options) *vpp_srv6.Steering {
	name := fmt.Sprintf("forK8sService-%s-%s-%s", id.Namespace, id.Name, strings.ReplaceAll(addr.String(), ":", "."))
	if vrf != o.PodVRF {
		name += "-inMainVRF"
	}
	return &vpp_srv6.Steering{
		Name: name, PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid},
		Traffic: &vpp_srv6.Steering_L3Traffic_{L3Traffic: &vpp_srv6.Steering_L3Traffic{
			PrefixAddress: host(addr), InstallationVrfId: vrf,
		}},
	}
}

func host(addr netip.Addr) string { return netip.PrefixFrom(addr, addr.BitLen()).String() }
