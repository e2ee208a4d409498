package acl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
)

// policyTag starts the tags of package policies' lists. They come first on an interface: a packet
// that matches one meets no other list.
const policyTag = "contiv:policy/"

// PutPolicy creates a list or replaces its rules atomically.
func (v *ACLs) PutPolicy(ctx context.Context, name string, rules []acl_types.ACLRule) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	_, err := v.putRules(ctx, policyTag+name, rules)
	return err
}

// DeletePolicy removes a list from all interfaces and deletes it.
func (v *ACLs) DeletePolicy(ctx context.Context, name string) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	key := aclKey{tag: policyTag + name}
	id, err := v.find(ctx, key)
	if err != nil || id == noACL {
		return err
	}
	if err := v.unbindEverywhere(ctx, id); err != nil {
		return err
	}
	if err := v.vpp.Call(ctx, module, &acl.ACLDel{ACLIndex: id}, &acl.ACLDelReply{}); err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return err
	}
	v.ids.remove(key)
	return nil
}

// BindPolicies sets an interface's policy lists, in order, for packets entering VPP and for packets
// leaving VPP. The first list creates no sessions.
func (v *ACLs) BindPolicies(ctx context.Context, iface ownership.Index, in, out []string) error {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	found, err := session.Dump[acl.ACLInterfaceListDetails](ctx, v.vpp, module, &acl.ACLInterfaceListDump{SwIfIndex: iface})
	if err != nil || len(found) == 0 {
		return err
	}
	now := found[0]
	if !v.ids.known(false, now.Acls) {
		if err := v.learnACLs(ctx); err != nil {
			return err
		}
	}
	arrange := func(names []string, have []uint32) (ids []uint32, err error) {
		for _, name := range names {
			id, err := v.find(ctx, aclKey{tag: policyTag + name})
			if err != nil {
				return nil, err
			}
			if id == noACL {
				return nil, fmt.Errorf("VPP has no list %s of policies", name)
			}
			ids = append(ids, id)
		}
		for _, id := range have {
			if !v.ids.isPolicy(id) {
				ids = append(ids, id)
			}
		}
		return ids, nil
	}
	enters, err := arrange(in, now.Acls[:now.NInput])
	if err != nil {
		return err
	}
	leaves, err := arrange(out, now.Acls[now.NInput:])
	if err != nil {
		return err
	}
	ids := append(slices.Clone(enters), leaves...)
	if int(now.NInput) == len(enters) && slices.Equal(now.Acls, ids) {
		return nil
	}
	if len(ids) > maxACLs {
		return fmt.Errorf("the interface would have %d lists, and VPP takes %d", len(ids), maxACLs)
	}
	first := noACL
	if len(in) > 0 {
		first = enters[0]
	}
	return v.setLists(ctx, now, enters, leaves, first)
}

// PolicyMatches returns the match counts of each rule of policy lists since it was set, by name.
func (v *ACLs) PolicyMatches(ctx context.Context) (map[string][]uint64, error) {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	if !v.ids.known(false, nil) {
		if err := v.learnACLs(ctx); err != nil {
			return nil, err
		}
	}
	counted, err := v.counters.Matches()
	if err != nil {
		return nil, err
	}
	matches := map[string][]uint64{}
	v.ids.state.Lock()
	defer v.ids.state.Unlock()
	for id, tag := range v.ids.tags[false] {
		if name, ok := strings.CutPrefix(tag, policyTag); ok {
			matches[name] = counted[id]
		}
	}
	return matches, nil
}

func (x *aclIDs) isPolicy(id uint32) bool {
	x.state.Lock()
	defer x.state.Unlock()
	return strings.HasPrefix(x.tags[false][id], policyTag)
}

// Policies reads the policy lists and their bindings to interfaces, for entering and for leaving
// packets.
func (v *ACLs) Policies(ctx context.Context) (lists map[string][]acl_types.ACLRule, bound map[ownership.Index][2][]string, err error) {
	v.ids.mu.Lock()
	defer v.ids.mu.Unlock()
	rules := session.StartDump[acl.ACLDetails](ctx, v.vpp, module, &acl.ACLDump{ACLIndex: noACL})
	sequences := session.StartDump[acl.ACLInterfaceListDetails](ctx, v.vpp, module, &acl.ACLInterfaceListDump{SwIfIndex: ^ownership.Index(0)})
	all, err := rules.Wait(ctx)
	where, err2 := sequences.Wait(ctx)
	if err == nil {
		err = err2
	}
	if err != nil {
		return nil, nil, err
	}
	lists, bound = map[string][]acl_types.ACLRule{}, map[ownership.Index][2][]string{}
	names := map[uint32]string{}
	for _, d := range all {
		if name, ok := strings.CutPrefix(d.Tag, policyTag); ok {
			lists[name], names[d.ACLIndex] = d.R, name
		}
	}
	first := func(ids []uint32) (list []string) {
		for _, id := range ids {
			if names[id] == "" {
				break
			}
			list = append(list, names[id])
		}
		return list
	}
	for _, s := range where {
		bound[s.SwIfIndex] = [2][]string{first(s.Acls[:s.NInput]), first(s.Acls[s.NInput:])}
	}
	return lists, bound, nil
}
