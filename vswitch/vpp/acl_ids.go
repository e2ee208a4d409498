package vpp

import (
	"context"
	"fmt"
	"sync"

	"go.fd.io/govpp/binapi/acl"
)

// noACL stands for no list, and in dumps for all.
const noACL = ^uint32(0)

// aclKey identifies a list for us; VPP numbers the two kinds apart.
type aclKey struct {
	macip bool
	tag   string
}

// aclIDs knows VPP's indexes of lists. mu is held while a list, or what is bound to an
// interface, changes: VPP has no way to change the latter but to read and set it.
type aclIDs struct {
	mu sync.Mutex

	state   sync.Mutex // of what follows
	learned bool
	ids     map[aclKey]uint32
	tags    map[bool]map[uint32]string // by kind; also those of others
	long    tagNames                   // names that tags do not hold
}

func (x *aclIDs) forget() {
	x.state.Lock()
	defer x.state.Unlock()
	x.learned = false
}

func (x *aclIDs) put(key aclKey, id uint32) {
	x.state.Lock()
	defer x.state.Unlock()
	x.ids[key], x.tags[key.macip][id] = id, key.tag
}

func (x *aclIDs) remove(key aclKey) {
	x.state.Lock()
	defer x.state.Unlock()
	delete(x.tags[key.macip], x.ids[key])
	delete(x.ids, key)
}

// tag is tagOf; the name is remembered.
func (x *aclIDs) tag(name string) string {
	tag := tagOf(name)
	if isLongTag(tag) {
		x.state.Lock()
		defer x.state.Unlock()
		if x.long == nil {
			x.long = tagNames{}
		}
		x.long[tag] = name
	}
	return tag
}

func (x *aclIDs) name(tag string) string {
	x.state.Lock()
	defer x.state.Unlock()
	return x.long.name(tag)
}

// own returns the tag of a list, and if it is one of ours.
func (x *aclIDs) own(macip bool, id uint32) (tag string, ours bool) {
	x.state.Lock()
	defer x.state.Unlock()
	tag = x.tags[macip][id]
	return tag, isOwnTag(tag)
}

// hasOwn tells if there is a list of IP rules of ours.
func (x *aclIDs) hasOwn() bool {
	x.state.Lock()
	defer x.state.Unlock()
	for key := range x.ids {
		if !key.macip && isOwnTag(key.tag) {
			return true
		}
	}
	return false
}

func (x *aclIDs) known(macip bool, ids []uint32) bool {
	x.state.Lock()
	defer x.state.Unlock()
	for _, id := range ids {
		if _, ok := x.tags[macip][id]; !ok {
			return false
		}
	}
	return x.learned
}

// find returns the index of a list, or noACL. That the index is still that of the list
// is asked of VPP.
func (v acls) find(ctx context.Context, key aclKey) (uint32, error) {
	x := &v.aclIDs
	x.state.Lock()
	id, ok := x.ids[key]
	learned := x.learned
	x.state.Unlock()
	if learned && !ok {
		return noACL, nil
	}
	if learned {
		tag, err := v.tagNow(ctx, key.macip, id)
		if err != nil || tag == key.tag {
			return id, err
		}
	}
	if err := v.learnACLs(ctx); err != nil {
		return 0, err
	}
	x.state.Lock()
	defer x.state.Unlock()
	if id, ok := x.ids[key]; ok {
		return id, nil
	}
	return noACL, nil
}

func (v acls) tagNow(ctx context.Context, macip bool, id uint32) (string, error) {
	if macip {
		found, err := dump[acl.MacipACLDetails](ctx, v.VSwitch, aclModule, &acl.MacipACLDump{ACLIndex: id})
		if err != nil || len(found) == 0 {
			return "", err
		}
		return found[0].Tag, nil
	}
	found, err := dump[acl.ACLDetails](ctx, v.VSwitch, aclModule, &acl.ACLDump{ACLIndex: id})
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].Tag, nil
}

// learnACLs reads all lists.
func (v acls) learnACLs(ctx context.Context) error {
	ip := startDump[acl.ACLDetails](ctx, v.VSwitch, aclModule, &acl.ACLDump{ACLIndex: noACL})
	macip := startDump[acl.MacipACLDetails](ctx, v.VSwitch, aclModule, &acl.MacipACLDump{ACLIndex: noACL})
	ipLists, err := ip.wait(ctx)
	macipLists, err2 := macip.wait(ctx)
	if err == nil {
		err = err2
	}
	if err != nil {
		return fmt.Errorf("listing access lists: %w", err)
	}
	v.aclIDs.learn(ipLists, macipLists)
	return nil
}

func (x *aclIDs) learn(ip []*acl.ACLDetails, macip []*acl.MacipACLDetails) {
	x.state.Lock()
	defer x.state.Unlock()
	x.learned = true
	x.ids, x.tags = map[aclKey]uint32{}, map[bool]map[uint32]string{false: {}, true: {}}
	for _, d := range ip {
		x.ids[aclKey{tag: d.Tag}], x.tags[false][d.ACLIndex] = d.ACLIndex, d.Tag
	}
	for _, d := range macip {
		x.ids[aclKey{macip: true, tag: d.Tag}], x.tags[true][d.ACLIndex] = d.ACLIndex, d.Tag
	}
}
