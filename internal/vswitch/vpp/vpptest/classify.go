package vpptest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/policer"
	"go.fd.io/govpp/binapi/vlib"
)

// classifyState is the classifier: tables by index, tables of layer 2 interfaces, and requested
// next nodes.
type classifyState struct {
	tables   pool[*classifyTable]
	bound    map[index][3]uint32
	inputs   map[index][2]uint32 // tables before the IPv4 and IPv6 FIB
	policed  map[index][3]uint32 // tables that lead to policers: IPv4, IPv6, layer 2; ^0 without
	policers pool[string]        // their names
	nexts    map[string][]string
}

type classifyTable struct {
	classify.ClassifyTableInfoReply
	entries map[string]*classify.ClassifySessionDetails
}

// nextsOfClassify is the number of default next nodes of l2-input-classify.
const nextsOfClassify = 4

func newClassifyState() classifyState {
	return classifyState{bound: map[index][3]uint32{}, inputs: map[index][2]uint32{}, policed: map[index][3]uint32{}, nexts: map[string][]string{}}
}

func handleClassify() {
	on(func(c *call, req *vlib.AddNodeNext, reply *vlib.AddNodeNextReply) api.VPPApiError {
		if req.NodeName != "l2-input-classify" {
			return api.NO_SUCH_NODE
		}
		nexts := c.classify.nexts[req.NodeName]
		n := slices.Index(nexts, req.NextName)
		if n < 0 {
			n = len(nexts)
			c.classify.nexts[req.NodeName] = append(nexts, req.NextName)
		}
		reply.NextIndex = uint32(nextsOfClassify + n)
		return 0
	})
	on(func(c *call, req *classify.ClassifyAddDelTable, reply *classify.ClassifyAddDelTableReply) api.VPPApiError {
		reply.NewTableIndex, reply.SkipNVectors, reply.MatchNVectors = none, none, none
		t, exists := c.classify.tables.get(req.TableIndex)
		switch {
		case len(req.Mask) != int(req.MatchNVectors)*16:
			return api.INVALID_VALUE
		case !req.IsAdd && !exists:
			return api.NO_SUCH_TABLE
		case !req.IsAdd:
			c.classify.tables.remove(req.TableIndex)
			return 0
		case exists: // nothing else changes
			t.NextTableIndex = req.NextTableIndex
			reply.NewTableIndex = req.TableIndex
		case req.MemorySize == 0:
			return api.INVALID_MEMORY_SIZE
		case req.Nbuckets == 0 || req.MatchNVectors < 1 || req.MatchNVectors > 5:
			return api.INVALID_VALUE
		default:
			t = &classifyTable{entries: map[string]*classify.ClassifySessionDetails{}, ClassifyTableInfoReply: classify.ClassifyTableInfoReply{
				Nbuckets: req.Nbuckets, MatchNVectors: req.MatchNVectors, SkipNVectors: req.SkipNVectors,
				NextTableIndex: req.NextTableIndex, MissNextIndex: req.MissNextIndex, Mask: req.Mask,
			}}
			reply.NewTableIndex = c.classify.tables.add(t)
			t.TableID = reply.NewTableIndex
		}
		reply.SkipNVectors, reply.MatchNVectors = t.SkipNVectors, t.MatchNVectors
		return 0
	})
	on(func(c *call, req *classify.ClassifyAddDelSession, _ *classify.ClassifyAddDelSessionReply) api.VPPApiError {
		t, exists := c.classify.tables.get(req.TableIndex)
		if !exists {
			return api.NO_SUCH_TABLE
		}
		if len(req.Match) != int(t.SkipNVectors+t.MatchNVectors)*16 {
			return api.INVALID_VALUE
		}
		key := slices.Clone(req.Match[t.SkipNVectors*16:])
		for i := range key {
			key[i] &= t.Mask[i]
		}
		if !req.IsAdd {
			if t.entries[string(key)] == nil {
				return api.NO_SUCH_ENTRY
			}
			delete(t.entries, string(key))
			return 0
		}
		t.entries[string(key)] = &classify.ClassifySessionDetails{
			TableID: req.TableIndex, HitNextIndex: req.HitNextIndex, Advance: req.Advance, OpaqueIndex: req.OpaqueIndex, Match: key,
		}
		return 0
	})
	on(func(c *call, _ *classify.ClassifyTableIds, reply *classify.ClassifyTableIdsReply) api.VPPApiError {
		reply.Ids = slices.Sorted(maps.Keys(c.classify.tables.items))
		return 0
	})
	on(func(c *call, req *classify.ClassifyTableInfo, reply *classify.ClassifyTableInfoReply) api.VPPApiError {
		t, exists := c.classify.tables.get(req.TableID)
		if !exists {
			return api.CLASSIFY_TABLE_NOT_FOUND
		}
		*reply = t.ClassifyTableInfoReply
		reply.ActiveSessions = uint32(len(t.entries))
		return 0
	})
	onDump(func(c *call, req *classify.ClassifySessionDump, send func(*classify.ClassifySessionDetails)) {
		if t, exists := c.classify.tables.get(req.TableID); exists {
			for _, key := range slices.Sorted(maps.Keys(t.entries)) {
				send(t.entries[key])
			}
		}
	})
	on(func(c *call, req *classify.ClassifySetInterfaceL2Tables, _ *classify.ClassifySetInterfaceL2TablesReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		tables := [3]uint32{req.IP4TableIndex, req.IP6TableIndex, req.OtherTableIndex}
		for i, id := range tables {
			if _, exists := c.classify.tables.get(id); !exists && id != none {
				return []api.VPPApiError{api.NO_SUCH_TABLE, api.NO_SUCH_TABLE2, api.NO_SUCH_TABLE3}[i]
			}
		}
		if c.classify.bound[req.SwIfIndex] = tables; tables == [3]uint32{none, none, none} {
			delete(c.classify.bound, req.SwIfIndex)
		}
		return 0
	})
	on(func(c *call, req *classify.InputACLSetInterface, _ *classify.InputACLSetInterfaceReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		tables, bound := c.classify.inputs[req.SwIfIndex]
		if !bound {
			tables = [2]uint32{none, none}
		}
		for n, id := range []uint32{req.IP4TableIndex, req.IP6TableIndex} {
			switch {
			case id == none:
			case !req.IsAdd:
				tables[n] = none
			case tables[n] == none: // a real VPP leaves a stale one and reports success
				tables[n] = id
			}
		}
		c.classify.inputs[req.SwIfIndex] = tables
		return 0
	})
	on(func(c *call, req *classify.ClassifyTableByInterface, reply *classify.ClassifyTableByInterfaceReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		reply.SwIfIndex, reply.L2TableID, reply.IP4TableID, reply.IP6TableID = req.SwIfIndex, none, none, none
		if tables, bound := c.classify.inputs[req.SwIfIndex]; bound {
			reply.IP4TableID, reply.IP6TableID = tables[0], tables[1]
		}
		return 0
	})
	on(func(c *call, req *policer.PolicerAdd, reply *policer.PolicerAddReply) api.VPPApiError {
		for _, name := range c.classify.policers.items {
			if name == req.Name {
				return api.VALUE_EXIST
			}
		}
		reply.PolicerIndex = c.classify.policers.add(req.Name)
		return 0
	})
	onDump(func(c *call, req *policer.PolicerDumpV2, send func(*policer.PolicerDetails)) {
		if name, exists := c.classify.policers.get(req.PolicerIndex); exists {
			send(&policer.PolicerDetails{Name: name})
		}
	})
	on(func(c *call, req *classify.PolicerClassifySetInterface, _ *classify.PolicerClassifySetInterfaceReply) api.VPPApiError {
		if c.ifs.iface(req.SwIfIndex) == nil {
			return api.INVALID_SW_IF_INDEX
		}
		now, bound := c.classify.policed[req.SwIfIndex]
		if !bound {
			now = [3]uint32{^uint32(0), ^uint32(0), ^uint32(0)}
		}
		for i, table := range [3]uint32{req.IP4TableIndex, req.IP6TableIndex, req.L2TableIndex} {
			if table == ^uint32(0) {
				continue
			}
			if _, exists := c.classify.tables.get(table); !exists || !req.IsAdd && now[i] != table {
				return api.NO_SUCH_TABLE
			}
			if req.IsAdd && now[i] != ^uint32(0) {
				return 0 // a real VPP leaves another one and reports success
			}
			now[i] = ^uint32(0)
			if req.IsAdd {
				now[i] = table
			}
			c.classify.policed[req.SwIfIndex] = now
		}
		return 0
	})
	commandsAbout["show classify tables index "] = func(c *call, args string) string {
		id, _ := strconv.ParseUint(strings.TrimSuffix(args, " verbose"), 10, 32)
		t, exists := c.classify.tables.get(uint32(id))
		if !exists {
			return "No classifier tables configured\n"
		}
		text := fmt.Sprintf("%10d%10d%10d%10d\n", id, len(t.entries), int32(t.NextTableIndex), int32(t.MissNextIndex))
		for _, key := range slices.Sorted(maps.Keys(t.entries)) {
			e := t.entries[key]
			text += fmt.Sprintf("    [0]: next_index %d advance %d opaque %d action 0 metadata 0\n        k: %x\n        hits 0, last_heard 0.00\n",
				int32(e.HitNextIndex), e.Advance, int32(e.OpaqueIndex), e.Match)
		}
		return text
	}
}
