package acl

import (
	"context"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/acl"
	"google.golang.org/protobuf/proto"
)

func (v *ACLs) List(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	found, err := v.list(ctx, expected)
	if err != nil {
		return nil, fmt.Errorf("listing access lists: %w", err)
	}
	return found, nil
}

func (v *ACLs) list(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) {
	ip := session.StartDump[acl.ACLDetails](ctx, v.vpp, module, &acl.ACLDump{ACLIndex: noACL})
	macip := session.StartDump[acl.MacipACLDetails](ctx, v.vpp, module, &acl.MacipACLDump{ACLIndex: noACL})
	bound := session.StartDump[acl.ACLInterfaceListDetails](ctx, v.vpp, module, &acl.ACLInterfaceListDump{SwIfIndex: ^ownership.Index(0)})
	macipBound := session.StartDump[acl.MacipACLInterfaceListDetails](ctx, v.vpp, module, &acl.MacipACLInterfaceListDump{SwIfIndex: ^ownership.Index(0)})
	ipLists, err1 := ip.Wait(ctx)
	macipLists, err2 := macip.Wait(ctx)
	sequences, err3 := bound.Wait(ctx)
	macips, err4 := macipBound.Wait(ctx)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return nil, err
		}
	}
	wanted := map[string]*vpp_acl.ACL{}
	for _, list := range expected {
		wanted[v.ids.tag(list.GetName())] = list
	}
	v.ids.learn(ipLists, macipLists)

	var lists []*vpp_acl.ACL
	byID := map[bool]map[uint32]*vpp_acl.ACL{false: {}, true: {}}
	add := func(macip bool, id uint32, tag string, rules []*vpp_acl.ACL_Rule) {
		list := &vpp_acl.ACL{Name: v.ids.name(tag), Rules: rules, Interfaces: &vpp_acl.ACL_Interfaces{}}
		byID[macip][id] = list
		lists = append(lists, list)
	}
	helper := noACL
	for _, d := range ipLists {
		if d.Tag == neighbourTag && slices.Equal(d.R, neighbourRules) {
			helper = d.ACLIndex
		}
		if ownership.IsOwnTag(d.Tag) {
			add(false, d.ACLIndex, d.Tag, foundRules(d, wanted[d.Tag]))
		}
	}
	for _, d := range macipLists {
		if ownership.IsOwnTag(d.Tag) {
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
		name, err := v.ifs.Name(ctx, m.SwIfIndex)
		if err != nil {
			return nil, err
		}
		if list := byID[true][m.Acls[0]]; list != nil && name != "" {
			list.Interfaces.Ingress = append(list.Interfaces.Ingress, name)
		}
	}
	return lists, nil
}

// addBound adds an interface to the lists bound to it. Lists in the wrong order count as not bound.
func (v *ACLs) addBound(ctx context.Context, s *acl.ACLInterfaceListDetails, helper uint32, lists map[uint32]*vpp_acl.ACL) error {
	if len(s.Acls) == 0 {
		return nil
	}
	name, err := v.ifs.Name(ctx, s.SwIfIndex)
	if err != nil || name == "" {
		return err
	}
	in, out := s.Acls[:s.NInput], s.Acls[s.NInput:]
	if helper != noACL && slices.Equal(in, v.ids.arrange(in, helper)) {
		for _, id := range in {
			if list := lists[id]; list != nil {
				list.Interfaces.Ingress = append(list.Interfaces.Ingress, name)
			}
		}
	}
	if helper != noACL && slices.Equal(out, v.ids.arrange(out, helper)) {
		for _, id := range out {
			if list := lists[id]; list != nil {
				list.Interfaces.Egress = append(list.Interfaces.Egress, name)
			}
		}
	}
	return nil
}

// foundRules returns the wanted rules if VPP has exactly these.
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
