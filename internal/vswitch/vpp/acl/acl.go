package acl

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/vlib"
)

var module = session.NewModule("acl_plugin.so", "access lists",
	&acl.ACLAddReplace{}, &acl.ACLAddReplaceReply{}, &acl.ACLDel{}, &acl.ACLDelReply{}, &acl.ACLDump{}, &acl.ACLDetails{},
	&acl.ACLInterfaceSetACLList{}, &acl.ACLInterfaceSetACLListReply{}, &acl.ACLStatsIntfCountersEnable{},
	&acl.ACLInterfaceListDump{}, &acl.ACLInterfaceListDetails{},
	&acl.MacipACLAddReplace{}, &acl.MacipACLAddReplaceReply{}, &acl.MacipACLDel{}, &acl.MacipACLDelReply{},
	&acl.MacipACLDump{}, &acl.MacipACLDetails{}, &acl.MacipACLInterfaceAddDel{}, &acl.MacipACLInterfaceAddDelReply{},
	&acl.MacipACLInterfaceListDump{}, &acl.MacipACLInterfaceListDetails{},
)

// reclassify applies changed rules to existing connections. VPP has no API message for that.
const reclassify = "set acl-plugin reclassify-sessions 1"

// ACLs drives VPP's access lists, identified by tags. An interface's lists are set as a whole; see
// sequence.go.
type ACLs struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
	ids aclIDs
	// counters are of VPP's statistics.
	counters Counters
}

// Counters provides the rules' match counts.
type Counters interface {
	// Matches returns the match counts of each rule since its list was set, by list index.
	Matches() (map[uint32][]uint64, error)
}

var _ vswitch.ACLs = (*ACLs)(nil)

func New(vpp *session.Session, ifs *ownership.Registry, counters Counters) *ACLs {
	return &ACLs{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs, counters: counters}
}

// Opened enables reclassification of existing connections and rule counters, and clears the cached
// indexes.
func (v *ACLs) Opened(ctx context.Context, l *session.Link) error {
	v.ids.forget()
	if l.Lacking(module) != nil {
		return nil
	}
	if err := l.Call(ctx, &vlib.CliInband{Cmd: reclassify}, &vlib.CliInbandReply{}); err != nil {
		return fmt.Errorf("making changed access lists count for connections that exist: %w", err)
	}
	// VPP 25.10 answers with another request's reply, which has the same fields.
	if err := l.Call(ctx, &acl.ACLStatsIntfCountersEnable{Enable: true}, &acl.ACLDelReply{}); err != nil {
		return fmt.Errorf("making access lists count: %w", err)
	}
	return nil
}

func (v *ACLs) Create(ctx context.Context, list *vpp_acl.ACL) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	if err := v.put(ctx, list); err != nil {
		return fmt.Errorf("setting access list %q: %w", list.GetName(), err)
	}
	return nil
}

func (v *ACLs) Update(ctx context.Context, _, list *vpp_acl.ACL) error { return v.Create(ctx, list) }

// put creates the list or replaces its rules atomically.
func (v *ACLs) put(ctx context.Context, list *vpp_acl.ACL) error {
	key := aclKey{macip: vswitch.IsMACIP(list), tag: v.ids.tag(list.GetName())}
	if !key.macip {
		rules, err := ipACLRules(list)
		if err != nil {
			return err
		}
		_, err = v.putRules(ctx, key.tag, rules)
		return err
	}
	rules, err := macipACLRules(list)
	if err != nil {
		return err
	}
	id, err := v.find(ctx, key)
	if err != nil {
		return err
	}
	var reply acl.MacipACLAddReplaceReply
	err = v.vpp.Call(ctx, module, &acl.MacipACLAddReplace{ACLIndex: id, Tag: key.tag, R: rules}, &reply)
	if err == nil {
		v.ids.put(key, reply.ACLIndex)
	}
	return err
}

func (v *ACLs) Delete(ctx context.Context, list *vpp_acl.ACL) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	if err := v.remove(ctx, aclKey{macip: vswitch.IsMACIP(list), tag: ownership.TagOf(list.GetName())}); err != nil {
		return fmt.Errorf("deleting access list %q: %w", list.GetName(), err)
	}
	return nil
}

func (v *ACLs) remove(ctx context.Context, key aclKey) error {
	id, err := v.find(ctx, key)
	if err != nil || id == noACL {
		return err
	}
	if key.macip { // VPP removes it from the interfaces
		err = v.vpp.Call(ctx, module, &acl.MacipACLDel{ACLIndex: id}, &acl.MacipACLDelReply{})
	} else if err = v.unbindEverywhere(ctx, id); err == nil {
		err = v.vpp.Call(ctx, module, &acl.ACLDel{ACLIndex: id}, &acl.ACLDelReply{})
	}
	if err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return err
	}
	v.ids.remove(key)
	if key.macip || key.tag == neighbourTag || v.ids.hasOwn() {
		return nil
	}
	return v.remove(ctx, aclKey{tag: neighbourTag})
}

func (v *ACLs) Bind(ctx context.Context, b vswitch.ACLBinding) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	if err := v.bind(ctx, b); err != nil {
		return fmt.Errorf("binding access list %q to interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

func (v *ACLs) bind(ctx context.Context, b vswitch.ACLBinding) error {
	iface, err := v.ifs.Index(ctx, b.Interface)
	if err != nil {
		return err
	}
	tag := v.ids.tag(b.ACL)
	id, err := v.find(ctx, aclKey{tag: tag})
	if err == nil && id != noACL {
		return v.change(ctx, iface, b.Egress, func(ids []uint32) []uint32 { return append(ids, id) })
	}
	if err == nil {
		id, err = v.find(ctx, aclKey{macip: true, tag: tag})
	}
	switch {
	case err != nil:
		return err
	case id == noACL:
		return errors.New("the list does not exist")
	case b.Egress:
		return errors.New("a list of MAC-IP rules is about packets that enter")
	}
	return v.bindMACIP(ctx, iface, id)
}

func (v *ACLs) Unbind(ctx context.Context, b vswitch.ACLBinding) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	if err := v.unbind(ctx, b); err != nil {
		return fmt.Errorf("unbinding access list %q from interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

func (v *ACLs) unbind(ctx context.Context, b vswitch.ACLBinding) error {
	iface, err := v.ifs.Index(ctx, b.Interface)
	var gone *ownership.NoInterfaceError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := v.find(ctx, aclKey{tag: ownership.TagOf(b.ACL)})
	if err != nil {
		return err
	}
	if id != noACL {
		return v.change(ctx, iface, b.Egress, func(ids []uint32) []uint32 { return without(ids, id) })
	}
	if id, err = v.find(ctx, aclKey{macip: true, tag: ownership.TagOf(b.ACL)}); err != nil || id == noACL {
		return err
	}
	if now, err := v.macipOn(ctx, iface); err != nil || now != id {
		return err
	}
	return v.vpp.Call(ctx, module, &acl.MacipACLInterfaceAddDel{SwIfIndex: iface, ACLIndex: id}, &acl.MacipACLInterfaceAddDelReply{})
}

// bindMACIP: VPP allows one MAC-IP list per interface and would replace it.
func (v *ACLs) bindMACIP(ctx context.Context, iface ownership.Index, id uint32) error {
	now, err := v.macipOn(ctx, iface)
	switch {
	case err != nil:
		return err
	case now == id:
		return nil
	case now != noACL:
		if tag, ours := v.ids.own(true, now); ours {
			return vswitch.Unsupported("VPP allows one list of MAC-IP rules per interface, and %q is bound: merge the lists", v.ids.name(tag))
		}
		return fmt.Errorf("a foreign list of MAC-IP rules (index %d) is bound: remove it", now)
	}
	return v.vpp.Call(ctx, module, &acl.MacipACLInterfaceAddDel{IsAdd: true, SwIfIndex: iface, ACLIndex: id}, &acl.MacipACLInterfaceAddDelReply{})
}

// macipOn returns the MAC-IP list on an interface.
func (v *ACLs) macipOn(ctx context.Context, iface ownership.Index) (uint32, error) {
	bound, err := session.Dump[acl.MacipACLInterfaceListDetails](ctx, v.vpp, module, &acl.MacipACLInterfaceListDump{SwIfIndex: iface})
	if err != nil || len(bound) == 0 || len(bound[0].Acls) == 0 {
		return noACL, err
	}
	return bound[0].Acls[0], nil
}
