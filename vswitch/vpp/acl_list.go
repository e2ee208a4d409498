package vpp

import (
	"context"
	"fmt"
	"slices"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/binapi/acl"
	"google.golang.org/protobuf/proto"
)

func (v acls) List(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) {
	v.aclIDs.mu.Lock()
	defer v.aclIDs.mu.Unlock()
	found, err := v.list(ctx, expected)
	if err != nil {
		return nil, fmt.Errorf("listing access lists: %w", err)
	}
	return found, nil
}

func (v acls) list(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) {
	ip := startDump[acl.ACLDetails](ctx, v.VSwitch, aclModule, &acl.ACLDump{ACLIndex: noACL})
	macip := startDump[acl.MacipACLDetails](ctx, v.VSwitch, aclModule, &acl.MacipACLDump{ACLIndex: noACL})
	bound := startDump[acl.ACLInterfaceListDetails](ctx, v.VSwitch, aclModule, &acl.ACLInterfaceListDump{SwIfIndex: ^index(0)})
	macipBound := startDump[acl.MacipACLInterfaceListDetails](ctx, v.VSwitch, aclModule, &acl.MacipACLInterfaceListDump{SwIfIndex: ^index(0)})
	ipLists, err1 := ip.wait(ctx)
	macipLists, err2 := macip.wait(ctx)
	sequences, err3 := bound.wait(ctx)
	macips, err4 := macipBound.wait(ctx)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return nil, err
		}
	}
	wanted := map[string]*vpp_acl.ACL{}
	for _, list := range expected {
		wanted[v.aclIDs.tag(list.GetName())] = list
	}
	v.aclIDs.learn(ipLists, macipLists)

	var lists []*vpp_acl.ACL
	byID := map[bool]map[uint32]*vpp_acl.ACL{false: {}, true: {}}
	add := func(macip bool, id uint32, tag string, rules []*vpp_acl.ACL_Rule) {
		list := &vpp_acl.ACL{Name: v.aclIDs.name(tag), Rules: rules, Interfaces: &vpp_acl.ACL_Interfaces{}}
		byID[macip][id] = list
		lists = append(lists, list)
	}
	helper := noACL
	for _, d := range ipLists {
		if d.Tag == neighbourTag && slices.Equal(d.R, neighbourRules) {
			helper = d.ACLIndex
		}
		if isOwnTag(d.Tag) {
			add(false, d.ACLIndex, d.Tag, foundRules(d, wanted[d.Tag]))
		}
	}
	for _, d := range macipLists {
		if isOwnTag(d.Tag) {
			add(true, d.ACLIndex, d.Tag, foundMACIPRules(d, wanted[d.Tag]))
		}
	}
	if len(lists) == 0 {
		return nil, nil
	}
	for _, s := range sequences {
		if err := v.addBound(ctx, s, helper, byID[false]); err != nil {
			return nil, err
		}
	}
	for _, m := range macips {
		name, err := v.ifs.name(ctx, m.SwIfIndex)
		if err != nil {
			return nil, err
		}
		if list := byID[true][m.Acls[0]]; list != nil && name != "" {
			list.Interfaces.Ingress = append(list.Interfaces.Ingress, name)
		}
	}
	return lists, nil
}

// addBound notes an interface in the lists that are bound to it. Lists that are not in
// their order do not do what they should: they are as if they were not bound.
func (v acls) addBound(ctx context.Context, s *acl.ACLInterfaceListDetails, helper uint32, lists map[uint32]*vpp_acl.ACL) error {
	if len(s.Acls) == 0 {
		return nil
	}
	name, err := v.ifs.name(ctx, s.SwIfIndex)
	if err != nil || name == "" {
		return err
	}
	in, out := s.Acls[:s.NInput], s.Acls[s.NInput:]
	if helper != noACL && slices.Equal(in, v.aclIDs.arrange(in, helper)) {
		for _, id := range in {
			if list := lists[id]; list != nil {
				list.Interfaces.Ingress = append(list.Interfaces.Ingress, name)
			}
		}
	}
	if helper != noACL && slices.Equal(out, v.aclIDs.arrange(out, helper)) {
		for _, id := range out {
			if list := lists[id]; list != nil {
				list.Interfaces.Egress = append(list.Interfaces.Egress, name)
			}
		}
	}
	return nil
}

// foundRules returns the rules as they are wanted if VPP has just those.
func foundRules(d *acl.ACLDetails, wanted *vpp_acl.ACL) []*vpp_acl.ACL_Rule {
	if wanted != nil && !vswitch.IsMACIP(wanted) {
		if rules, err := ipACLRules(wanted); err == nil && slices.Equal(rules, d.R) {
			return proto.CloneOf(wanted).GetRules()
		}
	}
	rules := make([]*vpp_acl.ACL_Rule, len(d.R))
	for i, r := range d.R {
		rules[i] = northboundRule(r)
	}
	return rules
}

func foundMACIPRules(d *acl.MacipACLDetails, wanted *vpp_acl.ACL) []*vpp_acl.ACL_Rule {
	if wanted != nil && vswitch.IsMACIP(wanted) {
		if rules, err := macipACLRules(wanted); err == nil && slices.Equal(rules, d.R) {
			return proto.CloneOf(wanted).GetRules()
		}
	}
	rules := make([]*vpp_acl.ACL_Rule, len(d.R))
	for i, r := range d.R {
		rules[i] = northboundMACIPRule(r)
	}
	return rules
}
