package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
)

// aclState is the plugin acl: lists by index, and the lists of interfaces.
type aclState struct {
	lists  pool[*acl.ACLDetails]
	macips pool[*acl.MacipACLDetails]
	in     map[index][]uint32
	out    map[index][]uint32
	macip  map[index]uint32
}

func newACLState() aclState {
	return aclState{
		in: map[index][]uint32{}, out: map[index][]uint32{}, macip: map[index]uint32{},
	}
}

func (s *aclState) used(id uint32, lists map[index][]uint32) bool {
	for _, ids := range lists {
		if slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

const maxACLTag = 63

func aclRulesError(rules []acl_types.ACLRule) api.VPPApiError {
	for _, r := range rules {
		switch {
		case r.SrcPrefix.Address.Af != r.DstPrefix.Address.Af || hasHostBits(r.SrcPrefix):
			return api.INVALID_SRC_ADDRESS
		case hasHostBits(r.DstPrefix):
			return api.INVALID_DST_ADDRESS
		case r.SrcportOrIcmptypeFirst > r.SrcportOrIcmptypeLast || r.DstportOrIcmpcodeFirst > r.DstportOrIcmpcodeLast:
			return api.INVALID_VALUE_2
		}
	}
	return 0
}

func handleACL() {
	commands["set acl-plugin reclassify-sessions 1"] = func(*call) string { return "" }
	commands["show acl-plugin sessions"] = func(*call) string { return "Sessions total: add 0 - del 0 = 0\n" }
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		delete(c.acl.in, i)
		delete(c.acl.out, i)
		delete(c.acl.macip, i)
	})
	on(func(c *call, req *acl.ACLAddReplace, reply *acl.ACLAddReplaceReply) api.VPPApiError {
		reply.ACLIndex = req.ACLIndex
		if len(req.Tag) > maxACLTag {
			return api.INVALID_VALUE
		}
		if code := aclRulesError(req.R); code != 0 {
			return code
		}
		if req.ACLIndex == none {
			reply.ACLIndex = c.acl.lists.add(&acl.ACLDetails{})
		}
		list, ok := c.acl.lists.get(reply.ACLIndex)
		if !ok {
			return api.NO_SUCH_ENTRY
		}
		*list = acl.ACLDetails{ACLIndex: reply.ACLIndex, Tag: req.Tag, Count: req.Count, R: req.R}
		return 0
	})
	on(func(c *call, req *acl.ACLDel, _ *acl.ACLDelReply) api.VPPApiError {
		switch _, ok := c.acl.lists.get(req.ACLIndex); {
		case !ok:
			return api.NO_SUCH_ENTRY
		case c.acl.used(req.ACLIndex, c.acl.in):
			return api.ACL_IN_USE_INBOUND
		case c.acl.used(req.ACLIndex, c.acl.out):
			return api.ACL_IN_USE_OUTBOUND
		}
		c.acl.lists.remove(req.ACLIndex)
		return 0
	})
	on(func(*call, *acl.ACLStatsIntfCountersEnable, *acl.ACLDelReply) api.VPPApiError { // as VPP 25.10
		return 0
	})
	onDump(func(c *call, req *acl.ACLDump, send func(*acl.ACLDetails)) {
		c.acl.lists.each(func(id uint32, list *acl.ACLDetails) {
			if req.ACLIndex == none || req.ACLIndex == id {
				send(list)
			}
		})
	})
	on(func(c *call, req *acl.ACLInterfaceSetACLList, _ *acl.ACLInterfaceSetACLListReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		for _, id := range req.Acls {
			if _, ok := c.acl.lists.get(id); !ok {
				return api.NO_SUCH_ENTRY
			}
		}
		in, out := req.Acls[:req.NInput], req.Acls[req.NInput:]
		for _, ids := range [][]uint32{out, in} {
			if twice(ids) {
				return api.ENTRY_ALREADY_EXISTS
			}
		}
		c.acl.in[req.SwIfIndex], c.acl.out[req.SwIfIndex] = in, out
		return 0
	})
	onDump(func(c *call, req *acl.ACLInterfaceListDump, send func(*acl.ACLInterfaceListDetails)) {
		for i := range index(len(c.ifs.list)) {
			if c.ifs.iface(i) == nil || req.SwIfIndex != noIndex && i != req.SwIfIndex {
				continue
			}
			ids := append(slices.Clone(c.acl.in[i]), c.acl.out[i]...)
			send(&acl.ACLInterfaceListDetails{SwIfIndex: i, Count: uint8(len(ids)), NInput: uint8(len(c.acl.in[i])), Acls: ids})
		}
	})
	initMACIP()
}

func initMACIP() {
	on(func(c *call, req *acl.MacipACLAddReplace, reply *acl.MacipACLAddReplaceReply) api.VPPApiError {
		reply.ACLIndex = req.ACLIndex
		if len(req.Tag) > maxACLTag {
			return api.INVALID_VALUE
		}
		if req.ACLIndex == none {
			reply.ACLIndex = c.acl.macips.add(&acl.MacipACLDetails{})
		}
		list, ok := c.acl.macips.get(reply.ACLIndex)
		if !ok {
			return api.NO_SUCH_ENTRY
		}
		*list = acl.MacipACLDetails{ACLIndex: reply.ACLIndex, Tag: req.Tag, Count: req.Count, R: req.R}
		return 0
	})
	on(func(c *call, req *acl.MacipACLDel, _ *acl.MacipACLDelReply) api.VPPApiError {
		if _, ok := c.acl.macips.get(req.ACLIndex); !ok {
			return api.NO_SUCH_ENTRY
		}
		for i, id := range c.acl.macip {
			if id == req.ACLIndex {
				delete(c.acl.macip, i)
			}
		}
		c.acl.macips.remove(req.ACLIndex)
		return 0
	})
	onDump(func(c *call, req *acl.MacipACLDump, send func(*acl.MacipACLDetails)) {
		c.acl.macips.each(func(id uint32, list *acl.MacipACLDetails) {
			if req.ACLIndex == none || req.ACLIndex == id {
				send(list)
			}
		})
	})
	on(func(c *call, req *acl.MacipACLInterfaceAddDel, _ *acl.MacipACLInterfaceAddDelReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		if !req.IsAdd {
			if _, ok := c.acl.macip[req.SwIfIndex]; !ok {
				return api.NO_SUCH_ENTRY
			}
			delete(c.acl.macip, req.SwIfIndex)
			return 0
		}
		if _, ok := c.acl.macips.get(req.ACLIndex); !ok {
			return api.NO_SUCH_ENTRY
		}
		c.acl.macip[req.SwIfIndex] = req.ACLIndex
		return 0
	})
	onDump(func(c *call, req *acl.MacipACLInterfaceListDump, send func(*acl.MacipACLInterfaceListDetails)) {
		for i := range index(len(c.ifs.list)) {
			if id, ok := c.acl.macip[i]; ok && (req.SwIfIndex == noIndex || req.SwIfIndex == i) {
				send(&acl.MacipACLInterfaceListDetails{SwIfIndex: i, Count: 1, Acls: []uint32{id}})
			}
		}
	})
}

func twice(ids []uint32) bool {
	ids = slices.Sorted(slices.Values(ids))
	return len(slices.Compact(slices.Clone(ids))) < len(ids)
}
