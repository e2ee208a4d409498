package cnat

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/ip_types"
)

var classifyModule = session.NewModule("", "classifier",
	&classify.ClassifyTableByInterface{}, &classify.ClassifyTableByInterfaceReply{}, &classify.ClassifySessionDump{}, &classify.ClassifySessionDetails{},
	&classify.ClassifyAddDelTable{}, &classify.ClassifyAddDelTableReply{}, &classify.ClassifyAddDelSession{}, &classify.ClassifyAddDelSessionReply{},
	&classify.InputACLSetInterface{}, &classify.InputACLSetInterfaceReply{},
)

// Flows of external clients are silenced by the features ip4-inacl and ip6-inacl, which precede the
// FIB: a classifier table per outside interface and IP version, only while needed. VPP reports an
// interface's table, and our entries have a mark.

const (
	// maxOutside is the maximum number of silenced flows of external clients per IP version.
	maxOutside  = 1024
	silenceMark = 0x5<<28 | markPort
	noTable     = ^uint32(0)
	deny        = 0 // default next nodes of ip4-inacl and ip6-inacl
	vector      = 16
	currentData = 1 // tables begin at the IP header
)

// flowAt holds the offsets of protocol, addresses and ports from the IP header.
var flowAt = [...]struct{ protocol, flow, end, size int }{v4: {9, 12, 24, 2 * vector}, v6: {6, 8, 44, 3 * vector}}

func flowMask(f family) []byte {
	at := flowAt[f]
	mask := make([]byte, at.size)
	mask[at.protocol] = 0xff
	for i := at.flow; i < at.end; i++ {
		mask[i] = 0xff
	}
	return mask
}

func flowMatch(f family, flow subsystem.Flow) []byte {
	at := flowAt[f]
	match := make([]byte, at.size)
	match[at.protocol] = byte(ip_types.IP_API_PROTO_UDP)
	if flow.TCP {
		match[at.protocol] = byte(ip_types.IP_API_PROTO_TCP)
	}
	from, to := flow.From, flow.To
	copy(match[at.flow:], slices.Concat(from.Addr().AsSlice(), to.Addr().AsSlice(), []byte{byte(from.Port() >> 8), byte(from.Port()), byte(to.Port() >> 8), byte(to.Port())}))
	return match
}

// silenceOutside sets the flows that are dropped at outside interfaces, and returns their number.
func (v *Translations) silenceOutside(ctx context.Context, flows []subsystem.Flow) (total int, err error) {
	v.notes.silencing.Lock()
	defer v.notes.silencing.Unlock()
	all, err := v.ownInterfaces(ctx)
	if err != nil {
		return 0, err
	}
	questions := make([]api.Message, len(all))
	for n, d := range all {
		questions[n] = &classify.ClassifyTableByInterface{SwIfIndex: d.SwIfIndex}
	}
	answers, errs := session.CallAll[classify.ClassifyTableByInterfaceReply](ctx, v.vpp, classifyModule, questions)
	for n, d := range all {
		if errs[n] != nil {
			continue // it is gone
		}
		for f, table := range [...]uint32{v4: answers[n].IP4TableID, v6: answers[n].IP6TableID} {
			var wanted []subsystem.Flow
			if v.isOutside(ownership.LogicalName(d)) {
				wanted = slices.DeleteFunc(slices.Clone(flows), func(flow subsystem.Flow) bool { return familyOf(flow.From.Addr()) != family(f) })
			}
			n, err := v.silenceInterface(ctx, d.SwIfIndex, family(f), table, wanted)
			if err != nil {
				return 0, fmt.Errorf("silencing flows of clients outside by %s: %w", ownership.LogicalName(d), err)
			}
			total += n
		}
	}
	return total, nil
}

// silenceInterface makes an interface drop at most maxOutside of the flows, by its present table or
// a new one. It returns their number.
func (v *Translations) silenceInterface(ctx context.Context, i ownership.Index, f family, table uint32, flows []subsystem.Flow) (int, error) {
	if table == noTable && len(flows) == 0 {
		return 0, nil
	}
	have := map[string]bool{}
	fresh := table == noTable
	if fresh {
		id, err := v.newTable(ctx, f)
		if err != nil {
			return 0, err
		}
		table = id
	} else {
		entries, err := session.Dump[classify.ClassifySessionDetails](ctx, v.vpp, classifyModule, &classify.ClassifySessionDump{TableID: table})
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if e.OpaqueIndex != silenceMark {
				return 0, nil // a foreign table
			}
			have[string(e.Match)] = true
		}
		if len(entries) == 0 {
			return 0, nil
		}
	}
	wanted := map[string]bool{}
	for _, flow := range subsystem.FirstFlows(flows, maxOutside, func(flow subsystem.Flow) bool { return have[string(flowMatch(f, flow))] }) {
		wanted[string(flowMatch(f, flow))] = true
	}
	l, err := v.vpp.Use(classifyModule)
	if err != nil {
		return 0, err
	}
	b := session.NewBatch(l)
	binding := &classify.InputACLSetInterface{SwIfIndex: i, IP4TableIndex: noTable, IP6TableIndex: noTable, L2TableIndex: noTable, IsAdd: len(wanted) > 0}
	if f == v4 {
		binding.IP4TableIndex = table
	} else {
		binding.IP6TableIndex = table
	}
	if len(wanted) == 0 {
		removeTable(ctx, b, table, binding)
		return 0, b.Wait(ctx)
	}
	for match := range wanted { // first, because an empty table would not be recognised as ours
		if !have[match] {
			b.Add(ctx, "silencing a flow", flowEntry(table, match, true), &classify.ClassifyAddDelSessionReply{})
		}
	}
	for match := range have {
		if !wanted[match] {
			b.Add(ctx, "no longer silencing a flow", flowEntry(table, match, false), &classify.ClassifyAddDelSessionReply{})
		}
	}
	if fresh {
		b.Add(ctx, "binding the table of flows", binding, &classify.InputACLSetInterfaceReply{})
	}
	if err = b.Wait(ctx); err != nil && fresh { // perhaps the interface is gone, and the table could not be found again
		ctx, binding.IsAdd = context.WithoutCancel(ctx), false
		b = session.NewBatch(l)
		removeTable(ctx, b, table, binding)
		err = errors.Join(err, b.Wait(ctx))
	}
	return len(wanted), err
}

func removeTable(ctx context.Context, b *session.Batch, table uint32, binding *classify.InputACLSetInterface) {
	b.Add(ctx, "unbinding the table of flows", binding, &classify.InputACLSetInterfaceReply{}, api.INVALID_SW_IF_INDEX, api.NO_SUCH_TABLE)
	b.Add(ctx, "deleting the table of flows", &classify.ClassifyAddDelTable{TableIndex: table, MatchNVectors: 1, NextTableIndex: noTable, Mask: make([]byte, vector)}, &classify.ClassifyAddDelTableReply{}, api.NO_SUCH_TABLE)
}

func flowEntry(table uint32, match string, add bool) *classify.ClassifyAddDelSession {
	return &classify.ClassifyAddDelSession{IsAdd: add, TableIndex: table, HitNextIndex: deny, OpaqueIndex: silenceMark, Match: []byte(match)}
}

func (v *Translations) newTable(ctx context.Context, f family) (uint32, error) {
	mask := flowMask(f)
	var reply classify.ClassifyAddDelTableReply
	err := v.vpp.Call(ctx, classifyModule, &classify.ClassifyAddDelTable{
		IsAdd: true, TableIndex: noTable, Nbuckets: 256, MemorySize: 256<<10 + 2<<10*maxOutside, MatchNVectors: uint32(len(mask) / vector),
		NextTableIndex: noTable, MissNextIndex: noTable, CurrentDataFlag: currentData, Mask: mask,
	}, &reply)
	return reply.NewTableIndex, err
}

// InterfaceLeaving removes state that VPP would keep for the next interface with the index. A
// restarted agent does not know yet which interfaces are outside.
func (v *Translations) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	v.notes.silencing.Lock()
	defer v.notes.silencing.Unlock()
	var tables classify.ClassifyTableByInterfaceReply
	err := v.vpp.Call(ctx, classifyModule, &classify.ClassifyTableByInterface{SwIfIndex: i}, &tables)
	switch {
	case errors.Is(err, kvscheduler.ErrUnsupported), vppapi.Refused(err, api.INVALID_SW_IF_INDEX): // there can be none
		return nil
	case err != nil:
		return fmt.Errorf("reading the tables of flows: %w", err)
	}
	for f, table := range [...]uint32{v4: tables.IP4TableID, v6: tables.IP6TableID} {
		if _, err := v.silenceInterface(ctx, i, family(f), table, nil); err != nil {
			return err
		}
	}
	return nil
}
