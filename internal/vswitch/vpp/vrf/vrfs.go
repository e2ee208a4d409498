package vrf

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"google.golang.org/protobuf/proto"
)

var module = session.NewModule("", "VRF tables",
	&ip.IPTableAddDelV2{}, &ip.IPTableAddDelV2Reply{}, &ip.IPTableDump{}, &ip.IPTableDetails{}, &ip.SetIPFlowHashV3{}, &ip.SetIPFlowHashV3Reply{},
	&ip.IPRouteV2Dump{}, &ip.IPRouteV2Details{},
)

// Tables are ours if their name starts with tableTag; the label follows. VPP names a table only at
// creation, so another label is only recorded. Flow hashing is set by CLI, because VPP's API lacks
// it.
type Tables struct {
	subsystem.Base
	vpp *session.Session
}

func New(vpp *session.Session) *Tables {
	return &Tables{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp}
}

const (
	tableTag = "contiv:"
	// maxTableName is VPP's limit of a table name.
	maxTableName = 63
)

// vrfID is a table.
type vrfID struct {
	id   uint32
	ipv6 bool
}

func vrfOf(t *vpp_l3.VrfTable) vrfID {
	return vrfID{t.GetId(), t.GetProtocol() == vpp_l3.VrfTable_IPV6}
}

func (v *Tables) Create(ctx context.Context, t *vpp_l3.VrfTable) error {
	id := vrfOf(t)
	name := tableTag + t.GetLabel()
	table := ip.IPTable{TableID: id.id, IsIP6: id.ipv6, Name: name[:min(len(name), maxTableName)]}
	err := v.vpp.Call(ctx, module, &ip.IPTableAddDelV2{IsAdd: true, CreateMfib: true, Table: table}, &ip.IPTableAddDelV2Reply{})
	if err == nil {
		err = v.setFlowHash(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("creating %v: %w", id, err)
	}
	return nil
}

func (id vrfID) String() string {
	if id.ipv6 {
		return fmt.Sprintf("VRF %d of IPv6", id.id)
	}
	return fmt.Sprintf("VRF %d of IPv4", id.id)
}

func (v *Tables) Update(ctx context.Context, _, t *vpp_l3.VrfTable) error {
	if err := v.setFlowHash(ctx, t); err != nil {
		return fmt.Errorf("changing %v: %w", vrfOf(t), err)
	}
	return nil
}

// Delete removes an empty table. VPP 25.10 crashes if an object such as a tunnel still tracks an
// address in it.
func (v *Tables) Delete(ctx context.Context, t *vpp_l3.VrfTable) error {
	id := vrfOf(t)
	tables, err := v.tables(ctx)
	if err == nil {
		if _, exists := tables[id]; !exists {
			return nil
		}
		reset := proto.CloneOf(t)
		reset.FlowHashSettings = nil
		err = v.setFlowHash(ctx, reset)
	}
	if err == nil && id.id != 0 {
		err = v.empty(ctx, id)
	}
	if err == nil && id.id != 0 {
		err = v.vpp.Call(ctx, module, &ip.IPTableAddDelV2{Table: ip.IPTable{TableID: id.id, IsIP6: id.ipv6}}, &ip.IPTableAddDelV2Reply{})
	}
	if err != nil {
		return fmt.Errorf("deleting %v: %w", id, err)
	}
	return nil
}

// empty returns an error that names routes of a table other than VPP's own.
func (v *Tables) empty(ctx context.Context, id vrfID) error {
	all, err := session.Dump[ip.IPRouteV2Details](ctx, v.vpp, module, &ip.IPRouteV2Dump{Table: ip.IPTable{TableID: id.id, IsIP6: id.ipv6}})
	if err != nil {
		return fmt.Errorf("reading its routes: %w", err)
	}
	var left []string
	for _, d := range all {
		if prefix := convert.NetipPrefix(d.Route.Prefix); !slices.Contains(ofEachTable, prefix.String()) {
			left = append(left, prefix.String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	const few = 5
	slices.Sort(left)
	return fmt.Errorf("it has routes to %s, or tunnels there: remove them", strings.Join(left[:min(len(left), few)], ", "))
}

// ofEachTable lists the networks with routes in every table.
var ofEachTable = []string{"0.0.0.0/0", "0.0.0.0/32", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "::/0", "fe80::/10"}

// tables returns the names of the tables.
func (v *Tables) tables(ctx context.Context) (map[vrfID]string, error) {
	all, err := session.Dump[ip.IPTableDetails](ctx, v.vpp, module, &ip.IPTableDump{})
	if err != nil {
		return nil, fmt.Errorf("reading tables: %w", err)
	}
	tables := make(map[vrfID]string, len(all))
	for _, t := range all {
		if t.Table.TableID != convert.NoTable {
			tables[vrfID{t.Table.TableID, t.Table.IsIP6}] = strings.TrimRight(t.Table.Name, "\x00")
		}
	}
	return tables, nil
}

func (v *Tables) List(ctx context.Context, expected []*vpp_l3.VrfTable) ([]*vpp_l3.VrfTable, error) {
	tables, err := v.tables(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[vrfID]*vpp_l3.VrfTable{}
	for _, t := range expected {
		wanted[vrfOf(t)] = t
	}
	var list []*vpp_l3.VrfTable
	for id, name := range tables {
		label, ours := strings.CutPrefix(name, tableTag)
		want := wanted[id]
		if want == nil && (!ours || id.id == 0) {
			continue
		}
		t := &vpp_l3.VrfTable{Id: id.id, Label: label}
		if id.ipv6 {
			t.Protocol = vpp_l3.VrfTable_IPV6
		}
		if want != nil {
			h, err := v.flowHash(ctx, id)
			if err != nil {
				return nil, err
			}
			t.Label = want.GetLabel()
			switch {
			case h == hashOf(want.GetFlowHashSettings()):
				t.FlowHashSettings = want.GetFlowHashSettings()
			case h != defaultFlowHash:
				t.FlowHashSettings = settingsOf(h)
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// defaultFlowHash is the flow hash of new tables.
const defaultFlowHash = ip.IP_API_V2_FLOW_HASH_SRC_IP | ip.IP_API_V2_FLOW_HASH_DST_IP | ip.IP_API_V2_FLOW_HASH_SRC_PORT |
	ip.IP_API_V2_FLOW_HASH_DST_PORT | ip.IP_API_V2_FLOW_HASH_PROTO | ip.IP_API_V2_FLOW_HASH_FLOW_LABEL

type hash = ip.IPFlowHashConfigV2

func hashOf(s *vpp_l3.VrfTable_FlowHashSettings) (h hash) {
	if s == nil {
		return defaultFlowHash
	}
	for _, f := range hashFlags {
		if *f.field(s) {
			h |= f.flag
		}
	}
	return h
}

func settingsOf(h hash) *vpp_l3.VrfTable_FlowHashSettings {
	s := &vpp_l3.VrfTable_FlowHashSettings{}
	for _, f := range hashFlags {
		*f.field(s) = h&f.flag != 0
	}
	return s
}

type flowHashSettings = vpp_l3.VrfTable_FlowHashSettings

// hashFlags lists the fields of a flow hash with VPP's words.
var hashFlags = []struct {
	flag  hash
	word  string
	field func(*flowHashSettings) *bool
}{
	{ip.IP_API_V2_FLOW_HASH_SRC_IP, "src", func(s *flowHashSettings) *bool { return &s.UseSrcIp }},
	{ip.IP_API_V2_FLOW_HASH_DST_IP, "dst", func(s *flowHashSettings) *bool { return &s.UseDstIp }},
	{ip.IP_API_V2_FLOW_HASH_SRC_PORT, "sport", func(s *flowHashSettings) *bool { return &s.UseSrcPort }},
	{ip.IP_API_V2_FLOW_HASH_DST_PORT, "dport", func(s *flowHashSettings) *bool { return &s.UseDstPort }},
	{ip.IP_API_V2_FLOW_HASH_PROTO, "proto", func(s *flowHashSettings) *bool { return &s.UseProtocol }},
	{ip.IP_API_V2_FLOW_HASH_REVERSE, "reverse", func(s *flowHashSettings) *bool { return &s.Reverse }},
	{ip.IP_API_V2_FLOW_HASH_SYMETRIC, "symmetric", func(s *flowHashSettings) *bool { return &s.Symmetric }},
}

func (v *Tables) setFlowHash(ctx context.Context, t *vpp_l3.VrfTable) error {
	req := &ip.SetIPFlowHashV3{TableID: t.GetId(), Af: ip_types.ADDRESS_IP4, FlowHashConfig: hashOf(t.GetFlowHashSettings())}
	if vrfOf(t).ipv6 {
		req.Af = ip_types.ADDRESS_IP6
	}
	return v.vpp.Call(ctx, module, req, &ip.SetIPFlowHashV3Reply{})
}

// flowHash parses the flow hash from the first line of a table in VPP's CLI:
//
//	contiv:main, fib_index:1, flow hash:[src dst reverse ] epoch:0 flags:none locks:[…]
func (v *Tables) flowHash(ctx context.Context, id vrfID) (h hash, err error) {
	command := fmt.Sprintf("show ip fib table %d 255.255.255.255/32", id.id)
	if id.ipv6 {
		command = fmt.Sprintf("show ip6 fib table %d ::/128", id.id)
	}
	text, err := v.vpp.CLI(ctx, command)
	if err != nil {
		return 0, err
	}
	_, text, ok := strings.Cut(text, "flow hash:[")
	text, _, end := strings.Cut(text, "]")
	if !ok || !end {
		return 0, fmt.Errorf("VPP does not say how flows of %v are hashed, but %.80q", id, text)
	}
	for word := range strings.FieldsSeq(text) {
		if word == "flowlabel" {
			h |= ip.IP_API_V2_FLOW_HASH_FLOW_LABEL
		}
		for _, f := range hashFlags {
			if f.word == word {
				h |= f.flag
			}
		}
	}
	return h, nil
}
