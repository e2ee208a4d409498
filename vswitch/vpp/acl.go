package vpp

import (
	"context"
	"errors"
	"fmt"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/vlib"
)

var aclModule = newModule("acl_plugin.so", "access lists",
	&acl.ACLAddReplace{}, &acl.ACLAddReplaceReply{}, &acl.ACLDel{}, &acl.ACLDelReply{}, &acl.ACLDump{}, &acl.ACLDetails{},
	&acl.ACLInterfaceSetACLList{}, &acl.ACLInterfaceSetACLListReply{}, &acl.ACLInterfaceListDump{}, &acl.ACLInterfaceListDetails{},
	&acl.MacipACLAddReplace{}, &acl.MacipACLAddReplaceReply{}, &acl.MacipACLDel{}, &acl.MacipACLDelReply{},
	&acl.MacipACLDump{}, &acl.MacipACLDetails{}, &acl.MacipACLInterfaceAddDel{}, &acl.MacipACLInterfaceAddDelReply{},
	&acl.MacipACLInterfaceListDump{}, &acl.MacipACLInterfaceListDetails{},
)

// reclassify makes changed rules count for connections that exist. VPP has no API
// message for that.
const reclassify = "set acl-plugin reclassify-sessions 1"

type acls struct{ *VSwitch }

// ACLs are lists of VPP's own, known by their tags. Those on an interface are set as a
// whole, see aclSequence.
func (v *VSwitch) ACLs() vswitch.ACLs { return acls{v} }

// prepareACLs prepares a new connection.
func (v *VSwitch) prepareACLs(ctx context.Context, l *link) error {
	v.aclIDs.forget()
	if l.lacks[aclModule] != nil {
		return nil
	}
	if err := l.Call(ctx, &vlib.CliInband{Cmd: reclassify}, &vlib.CliInbandReply{}); err != nil {
		return fmt.Errorf("making changed access lists count for connections that exist: %w", err)
	}
	return nil
}

func (v acls) Create(ctx context.Context, list *vpp_acl.ACL) error {
	v.aclIDs.mu.Lock()
	defer v.aclIDs.mu.Unlock()
	if err := v.put(ctx, list); err != nil {
		return fmt.Errorf("setting access list %q: %w", list.GetName(), err)
	}
	return nil
}

func (v acls) Update(ctx context.Context, _, list *vpp_acl.ACL) error { return v.Create(ctx, list) }

// put makes the list, or replaces its rules at once.
func (v acls) put(ctx context.Context, list *vpp_acl.ACL) error {
	key := aclKey{macip: vswitch.IsMACIP(list), tag: v.aclIDs.tag(list.GetName())}
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
	err = v.call(ctx, aclModule, &acl.MacipACLAddReplace{ACLIndex: id, Tag: key.tag, R: rules}, &reply)
	if err == nil {
		v.aclIDs.put(key, reply.ACLIndex)
	}
	return err
}

func (v acls) Delete(ctx context.Context, list *vpp_acl.ACL) error {
	v.aclIDs.mu.Lock()
	defer v.aclIDs.mu.Unlock()
	if err := v.remove(ctx, aclKey{macip: vswitch.IsMACIP(list), tag: tagOf(list.GetName())}); err != nil {
		return fmt.Errorf("deleting access list %q: %w", list.GetName(), err)
	}
	return nil
}

func (v acls) remove(ctx context.Context, key aclKey) error {
	id, err := v.find(ctx, key)
	if err != nil || id == noACL {
		return err
	}
	if key.macip { // VPP takes it off the interfaces itself
		err = v.call(ctx, aclModule, &acl.MacipACLDel{ACLIndex: id}, &acl.MacipACLDelReply{})
	} else if err = v.unbindEverywhere(ctx, id); err == nil {
		err = v.call(ctx, aclModule, &acl.ACLDel{ACLIndex: id}, &acl.ACLDelReply{})
	}
	if err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return err
	}
	v.aclIDs.remove(key)
	if key.macip || key.tag == neighbourTag || v.aclIDs.hasOwn() {
		return nil
	}
	return v.remove(ctx, aclKey{tag: neighbourTag})
}

func (v acls) Bind(ctx context.Context, b vswitch.ACLBinding) error {
	v.aclIDs.mu.Lock()
	defer v.aclIDs.mu.Unlock()
	if err := v.bind(ctx, b); err != nil {
		return fmt.Errorf("binding access list %q to interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

func (v acls) bind(ctx context.Context, b vswitch.ACLBinding) error {
	iface, err := v.ifs.index(ctx, b.Interface)
	if err != nil {
		return err
	}
	tag := v.aclIDs.tag(b.ACL)
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

func (v acls) Unbind(ctx context.Context, b vswitch.ACLBinding) error {
	v.aclIDs.mu.Lock()
	defer v.aclIDs.mu.Unlock()
	if err := v.unbind(ctx, b); err != nil {
		return fmt.Errorf("unbinding access list %q from interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

func (v acls) unbind(ctx context.Context, b vswitch.ACLBinding) error {
	iface, err := v.ifs.index(ctx, b.Interface)
	var gone *noInterfaceError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := v.find(ctx, aclKey{tag: tagOf(b.ACL)})
	if err != nil {
		return err
	}
	if id != noACL {
		return v.change(ctx, iface, b.Egress, func(ids []uint32) []uint32 { return without(ids, id) })
	}
	if id, err = v.find(ctx, aclKey{macip: true, tag: tagOf(b.ACL)}); err != nil || id == noACL {
		return err
	}
	if now, err := v.macipOn(ctx, iface); err != nil || now != id {
		return err
	}
	return v.call(ctx, aclModule, &acl.MacipACLInterfaceAddDel{SwIfIndex: iface, ACLIndex: id}, &acl.MacipACLInterfaceAddDelReply{})
}

// bindMACIP: VPP has one MAC-IP list on an interface, and would replace it.
func (v acls) bindMACIP(ctx context.Context, iface index, id uint32) error {
	now, err := v.macipOn(ctx, iface)
	switch {
	case err != nil:
		return err
	case now == id:
		return nil
	case now != noACL:
		if tag, ours := v.aclIDs.own(true, now); ours {
			return vswitch.Unsupported("VPP has one list of MAC-IP rules on an interface, and there is %q: make one list of both", v.aclIDs.name(tag))
		}
		return fmt.Errorf("there is a list of MAC-IP rules of somebody else (index %d): take it off", now)
	}
	return v.call(ctx, aclModule, &acl.MacipACLInterfaceAddDel{IsAdd: true, SwIfIndex: iface, ACLIndex: id}, &acl.MacipACLInterfaceAddDelReply{})
}

// macipOn returns the MAC-IP list on an interface.
func (v acls) macipOn(ctx context.Context, iface index) (uint32, error) {
	bound, err := dump[acl.MacipACLInterfaceListDetails](ctx, v.VSwitch, aclModule, &acl.MacipACLInterfaceListDump{SwIfIndex: iface})
	if err != nil || len(bound) == 0 || len(bound[0].Acls) == 0 {
		return noACL, err
	}
	return bound[0].Acls[0], nil
}
