package acl

import (
	"context"
	"fmt"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/binapi/acl"
)

// noACL means no list, and in dumps all.
const noACL = ^uint32(0)

// aclKey identifies a list; VPP numbers the two kinds separately.
type aclKey struct {
	macip bool
	tag   string
}

// aclIDs caches VPP's indexes of lists. mu is held while a list or an interface's lists change,
// because VPP can only read and set the latter as a whole.
type aclIDs struct {
	mu sync.Mutex

	state   sync.Mutex // guards the fields below
	learned bool
	ids     map[aclKey]uint32
	tags    map[bool]map[uint32]string // by kind; includes foreign ones
	long    ownership.TagNames         // names that tags do not hold
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

// tag is tagOf, and records the name.
func (x *aclIDs) tag(name string) string {
	tag := ownership.TagOf(name)
	if ownership.IsLongTag(tag) {
		x.state.Lock()
		defer x.state.Unlock()
		if x.long == nil {
			x.long = ownership.TagNames{}
		}
		x.long[tag] = name
	}
	return tag
}

func (x *aclIDs) name(tag string) string {
	x.state.Lock()
	defer x.state.Unlock()
	return x.long.Name(tag)
}

// own returns the tag of a list, and whether it is ours.
func (x *aclIDs) own(macip bool, id uint32) (tag string, ours bool) {
	x.state.Lock()
	defer x.state.Unlock()
	tag = x.tags[macip][id]
	return tag, ownership.IsOwnTag(tag)
}

// hasOwn reports whether an IP list of ours exists.
func (x *aclIDs) hasOwn() bool {
	x.state.Lock()
	defer x.state.Unlock()
	for key := range x.ids {
		if !key.macip && ownership.IsOwnTag(key.tag) {
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

// find returns the index of a list, or noACL. It verifies a cached index with VPP.
func (v *ACLs) find(ctx context.Context, key aclKey) (uint32, error) {
	x := &v.ids
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

func (v *ACLs) tagNow(ctx context.Context, macip bool, id uint32) (string, error) {
	if macip {
		found, err := session.Dump[acl.MacipACLDetails](ctx, v.vpp, module, &acl.MacipACLDump{ACLIndex: id})
		if err != nil || len(found) == 0 {
			return "", err
		}
		return found[0].Tag, nil
	}
	found, err := session.Dump[acl.ACLDetails](ctx, v.vpp, module, &acl.ACLDump{ACLIndex: id})
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].Tag, nil
}

// learnACLs reads all lists.
func (v *ACLs) learnACLs(ctx context.Context) error {
	ip := session.StartDump[acl.ACLDetails](ctx, v.vpp, module, &acl.ACLDump{ACLIndex: noACL})
	macip := session.StartDump[acl.MacipACLDetails](ctx, v.vpp, module, &acl.MacipACLDump{ACLIndex: noACL})
	ipLists, err := ip.Wait(ctx)
	macipLists, err2 := macip.Wait(ctx)
	if err == nil {
		err = err2
	}
	if err != nil {
		return fmt.Errorf("listing access lists: %w", err)
	}
	v.ids.learn(ipLists, macipLists)
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

// Lookup returns the index of our IP list; false if none.
func (v *ACLs) Lookup(ctx context.Context, name string) (id uint32, ok bool, err error) {
	id, err = v.find(ctx, aclKey{tag: v.ids.tag(name)})
	return id, err == nil && id != noACL, err
}

// Names reads all lists and returns the names of our IP lists by index.
func (v *ACLs) Names(ctx context.Context) (map[uint32]string, error) {
	if err := v.learnACLs(ctx); err != nil {
		return nil, err
	}
	x := &v.ids
	x.state.Lock()
	defer x.state.Unlock()
	names := map[uint32]string{}
	for id, tag := range x.tags[false] {
		if ownership.IsOwnTag(tag) {
			names[id] = x.long.Name(tag)
		}
	}
	return names, nil
}
