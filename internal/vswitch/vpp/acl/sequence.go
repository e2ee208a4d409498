package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
	"go.fd.io/govpp/binapi/ip_types"

	"github.com/contiv/contiv/internal/vswitch"
)

// neighbourTag marks our helper list that permits neighbour discovery. It comes first on every
// interface with lists.
const neighbourTag = "contiv:neighbour-discovery"

// Solicitations and advertisements of routers and neighbours.
const firstNDType, lastNDType = 133, 136

var neighbourRules = []acl_types.ACLRule{{
	IsPermit:  acl_types.ACL_ACTION_API_PERMIT,
	SrcPrefix: convert.Prefix(vswitch.AnyNetwork(true)), DstPrefix: convert.Prefix(vswitch.AnyNetwork(true)),
	Proto:                  ip_types.IPProto(vswitch.ProtocolICMPv6),
	SrcportOrIcmptypeFirst: firstNDType, SrcportOrIcmptypeLast: lastNDType,
	DstportOrIcmpcodeLast: 255,
}}

// maxACLs is the message's limit of lists in both directions together.
const maxACLs = 255

// change edits the lists of an interface in one direction.
func (v *ACLs) change(ctx context.Context, iface ownership.Index, egress bool, edit func(ids []uint32) []uint32) error {
	found, err := session.Dump[acl.ACLInterfaceListDetails](ctx, v.vpp, module, &acl.ACLInterfaceListDump{SwIfIndex: iface})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("VPP has no such interface any more")
	}
	return v.set(ctx, found[0], func(ids []uint32, out bool) []uint32 {
		if out != egress {
			return ids
		}
		return edit(ids)
	})
}

// unbindEverywhere takes a list off all interfaces.
func (v *ACLs) unbindEverywhere(ctx context.Context, id uint32) error {
	all, err := session.Dump[acl.ACLInterfaceListDetails](ctx, v.vpp, module, &acl.ACLInterfaceListDump{SwIfIndex: ^ownership.Index(0)})
	if err != nil {
		return err
	}
	for _, now := range all {
		if !slices.Contains(now.Acls, id) {
			continue
		}
		if err := v.set(ctx, now, func(ids []uint32, _ bool) []uint32 { return without(ids, id) }); err != nil {
			return fmt.Errorf("taking it off the interface with index %d: %w", now.SwIfIndex, err)
		}
	}
	return nil
}

// set sets the edited lists of an interface, in order.
func (v *ACLs) set(ctx context.Context, now *acl.ACLInterfaceListDetails, edit func(ids []uint32, egress bool) []uint32) error {
	if !v.ids.known(false, now.Acls) {
		if err := v.learnACLs(ctx); err != nil {
			return err
		}
	}
	in, out := edit(slices.Clone(now.Acls[:now.NInput]), false), edit(slices.Clone(now.Acls[now.NInput:]), true)
	helper, err := v.neighbourList(ctx, append(slices.Clone(in), out...))
	if err != nil {
		return err
	}
	in, out = v.ids.arrange(in, helper), v.ids.arrange(out, helper)
	ids := append(in, out...)
	if int(now.NInput) == len(in) && slices.Equal(now.Acls, ids) {
		return nil
	}
	if len(ids) > maxACLs {
		return fmt.Errorf("it would be list %d of the interface, and VPP takes %d: put rules of several lists into one", len(ids), maxACLs)
	}
	return v.setLists(ctx, now, in, out, helper)
}

// neighbourList returns the helper's index, and creates it if one of the lists is ours.
func (v *ACLs) neighbourList(ctx context.Context, ids []uint32) (uint32, error) {
	ours := slices.ContainsFunc(ids, func(id uint32) bool { _, ours := v.ids.own(false, id); return ours })
	if !ours {
		return noACL, nil
	}
	id, err := v.find(ctx, aclKey{tag: neighbourTag})
	if err != nil || id == noACL {
		return v.putRules(ctx, neighbourTag, neighbourRules)
	}
	found, err := session.Dump[acl.ACLDetails](ctx, v.vpp, module, &acl.ACLDump{ACLIndex: id})
	if err == nil && (len(found) == 0 || !slices.Equal(found[0].R, neighbourRules)) {
		return v.putRules(ctx, neighbourTag, neighbourRules)
	}
	return id, err
}

// putRules creates an IP list or replaces its rules atomically.
func (v *ACLs) putRules(ctx context.Context, tag string, rules []acl_types.ACLRule) (uint32, error) {
	id, err := v.find(ctx, aclKey{tag: tag})
	if err != nil {
		return 0, err
	}
	var reply acl.ACLAddReplaceReply
	err = v.vpp.Call(ctx, module, &acl.ACLAddReplace{ACLIndex: id, Tag: tag, R: rules}, &reply)
	if err == nil {
		v.ids.put(aclKey{tag: tag}, reply.ACLIndex)
	}
	return reply.ACLIndex, err
}

// arrange orders the lists of a direction: ours by name, behind the helper. Foreign lists before
// all of ours stay there; the rest follow.
func (x *aclIDs) arrange(ids []uint32, helper uint32) []uint32 {
	x.state.Lock()
	defer x.state.Unlock()
	var before, ours, after []uint32
	for _, id := range ids {
		tag := x.tags[false][id]
		switch {
		case tag == neighbourTag:
		case ownership.IsOwnTag(tag):
			if !slices.Contains(ours, id) {
				ours = append(ours, id)
			}
		case len(ours) == 0:
			before = append(before, id)
		default:
			after = append(after, id)
		}
	}
	slices.SortFunc(ours, func(a, b uint32) int {
		return cmp.Compare(x.long.Name(x.tags[false][a]), x.long.Name(x.tags[false][b]))
	})
	if len(ours) > 0 && helper != noACL {
		ours = append([]uint32{helper}, ours...)
	}
	return append(append(before, ours...), after...)
}

func without(ids []uint32, id uint32) []uint32 {
	return slices.DeleteFunc(ids, func(other uint32) bool { return other == id })
}
