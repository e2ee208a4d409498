package vswitch

import (
	"slices"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
)

func validateLocalSID(s *vpp_srv6.LocalSID) error {
	if err := validAddrOf("sid", s.GetSid(), true); err != nil {
		return err
	}
	out := func(field, iface string) error {
		return required(field+".outgoing_interface", iface, "name the interface that packets leave by")
	}
	switch f := s.GetEndFunction().(type) {
	case nil:
		return invalid("end_function", "a local SID needs an end function, for example base_end_function")
	case *vpp_srv6.LocalSID_EndFunctionX:
		return firstError(out("end_function_x", f.EndFunctionX.GetOutgoingInterface()),
			validAddrOf("end_function_x.next_hop", f.EndFunctionX.GetNextHop(), true))
	case *vpp_srv6.LocalSID_EndFunctionDx2:
		return out("end_function_dx2", f.EndFunctionDx2.GetOutgoingInterface())
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		return firstError(out("end_function_dx4", f.EndFunctionDx4.GetOutgoingInterface()),
			validAddrOf("end_function_dx4.next_hop", f.EndFunctionDx4.GetNextHop(), false))
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		return firstError(out("end_function_dx6", f.EndFunctionDx6.GetOutgoingInterface()),
			validAddrOf("end_function_dx6.next_hop", f.EndFunctionDx6.GetNextHop(), true))
	case *vpp_srv6.LocalSID_EndFunctionAd:
		if addr := f.EndFunctionAd.GetL3ServiceAddress(); addr != "" {
			if err := validAddr("end_function_ad.l3_service_address", addr); err != nil {
				return err
			}
		}
		return firstError(out("end_function_ad", f.EndFunctionAd.GetOutgoingInterface()),
			required("end_function_ad.incoming_interface", f.EndFunctionAd.GetIncomingInterface(), "name the interface that packets come back by"))
	}
	return nil
}

func validatePolicy(p *vpp_srv6.Policy) error {
	if err := validAddrOf("bsid", p.GetBsid(), true); err != nil {
		return err
	}
	if len(p.GetSegmentLists()) == 0 {
		return invalid("segment_lists", "a policy needs a list of segments")
	}
	for i, list := range p.GetSegmentLists() {
		if len(list.GetSegments()) == 0 {
			return invalid("segment_lists.segments", "list %d has no segments", i+1)
		}
		for _, s := range list.GetSegments() {
			if err := validAddrOf("segment_lists.segments", s, true); err != nil {
				return err
			}
		}
		for j, other := range p.GetSegmentLists()[:i] {
			if slices.EqualFunc(list.GetSegments(), other.GetSegments(), sameAddrText) {
				return invalid("segment_lists", "lists %d and %d have the same segments: make one of them, with the sum of the weights", j+1, i+1)
			}
		}
	}
	return nil
}

func validateSteering(s *vpp_srv6.Steering) error {
	switch ref := s.GetPolicyRef().(type) {
	case nil:
		return invalid("policy_bsid", "name the policy by its binding SID")
	case *vpp_srv6.Steering_PolicyIndex:
		return invalid("policy_index", "policies have no numbers here: name the policy by its binding SID (policy_bsid)")
	case *vpp_srv6.Steering_PolicyBsid:
		if err := validAddrOf("policy_bsid", ref.PolicyBsid, true); err != nil {
			return err
		}
	}
	switch traffic := s.GetTraffic().(type) {
	case nil:
		return invalid("traffic", "say which traffic is steered: l2_traffic or l3_traffic")
	case *vpp_srv6.Steering_L2Traffic_:
		return required("l2_traffic.interface_name", traffic.L2Traffic.GetInterfaceName(), "name the interface that frames enter by")
	case *vpp_srv6.Steering_L3Traffic_:
		return validPrefix("l3_traffic.prefix_address", traffic.L3Traffic.GetPrefixAddress())
	}
	return nil
}

func validateSRv6Global(g *vpp_srv6.SRv6Global) error {
	if addr := g.GetEncapSourceAddress(); addr != "" {
		return validAddrOf("encap_source_address", addr, true)
	}
	return nil
}
