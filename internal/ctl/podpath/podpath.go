// Package podpath draws the path of a pod's packets through its node.
//
//	web eth0 10.1.1.2 ── vpp-tap-1234 c-9f2 (UP) ── vswitch of node1 ─┬─ vxlanBVI (UP) ── pods of node2, node3
//	                                                                   └─ eth0 (UP) ── outside
//
// or, without enough room:
//
//	web eth0 10.1.1.2
//	└─ vpp-tap-1234 c-9f2 (UP)
//	   └─ vswitch of node1
//	      ├─ vxlanBVI (UP) ── pods of node2, node3
//	      └─ eth0 (UP) ── outside
package podpath

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// overlay is the vswitch interface for pods of other nodes, if tunnels are used.
	overlay = "vxlanBVI"
	// line joins the parts of a drawing.
	line = " ── "
	// namedNodes is the maximum number of named nodes.
	namedNodes = 3
)

// node holds the drawn parts of a pod's node.
type node struct {
	name   string
	nic    string // main interface; "" if none or unknown
	others []string
	states map[string]*vpp_interfaces.InterfaceState
}

// Drawing is a line with one or two ends.
type Drawing struct {
	start string
	ends  []string
}

// Draw asks the agent of a pod's node. The drawing is empty if the agent does not report interface
// states.
func Draw(ctx context.Context, a *target.Agent, pod ipnet.PodReport) (d Drawing) {
	var report ifstate.Report
	if a.Get(ctx, ifstate.URL, nil, &report) != nil {
		return d
	}
	// Unreported parts are omitted.
	var conf contivconf.Report
	_ = a.Get(ctx, contivconf.URL, nil, &conf)
	var nodes nodesync.NodesReport
	_ = a.Get(ctx, nodesync.NodesURL, nil, &nodes)
	n := node{name: cmp.Or(nodes.ThisNode, a.Name), nic: conf.MainInterface.Name, states: statesOf(report.Interfaces)}
	for _, other := range nodes.Nodes {
		if other.Name != nodes.ThisNode && other.ID > 0 {
			n.others = append(n.others, other.Name)
		}
	}
	return n.draw(pod)
}

func statesOf(list []json.RawMessage) map[string]*vpp_interfaces.InterfaceState {
	states := map[string]*vpp_interfaces.InterfaceState{}
	for _, data := range list {
		var s vpp_interfaces.InterfaceState
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &s) == nil {
			states[s.GetName()] = &s
		}
	}
	return states
}

func (n node) draw(pod ipnet.PodReport) (d Drawing) {
	var ips []string
	for _, ip := range pod.IPs {
		host, _, _ := strings.Cut(ip, "/")
		ips = append(ips, host)
	}
	d.start = strings.Join([]string{pod.Name + " " + pod.Interface + " " + strings.Join(ips, ","), n.link(pod.VPPInterface), "vswitch of " + n.name}, line)
	pods, outside := n.podsOfOthers(), "outside"
	switch {
	case pods == "":
	case n.states[overlay] != nil:
		d.ends = append(d.ends, n.link(overlay)+line+pods)
	default:
		outside = pods + ", outside"
	}
	if n.nic != "" {
		d.ends = append(d.ends, n.link(n.nic)+line+outside)
	}
	return d
}

// Lines returns the drawing with identifiers shortened by the function. If it exceeds the width, it
// is drawn downwards.
func (d Drawing) Lines(shorten func(string) string, width int) []string {
	lines := d.across(shorten)
	if !slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > width }) {
		return lines
	}
	lines = nil
	indent := ""
	for i, part := range strings.Split(shorten(d.start), line) {
		if i > 0 {
			part = indent + "└─ " + part
			indent += "   "
		}
		lines = append(lines, part)
	}
	for i, end := range d.ends {
		branch := "├─ "
		if i == len(d.ends)-1 {
			branch = "└─ "
		}
		lines = append(lines, indent+branch+end)
	}
	return lines
}

func (d Drawing) across(shorten func(string) string) []string {
	if d.start == "" {
		return []string{}
	}
	start := shorten(d.start)
	switch len(d.ends) {
	case 0:
		return []string{start}
	case 1:
		return []string{start + line + d.ends[0]}
	}
	return []string{start + " ─┬─ " + d.ends[0], strings.Repeat(" ", utf8.RuneCountInString(start)) + "  └─ " + d.ends[1]}
}

// MarshalJSON writes the lines.
func (d Drawing) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.across(func(text string) string { return text }))
}

func (n node) podsOfOthers() string {
	if len(n.others) == 0 {
		return ""
	}
	text := "pods of " + strings.Join(n.others[:min(namedNodes, len(n.others))], ", ")
	if len(n.others) > namedNodes {
		text += ", …"
	}
	return text
}

// link formats a vswitch interface, its device if that has another name, and its state.
func (n node) link(name string) string {
	s := n.states[name]
	if s == nil {
		return name + " (missing)"
	}
	text := name
	if device := s.GetInternalName(); device != "" && device != name {
		text += " " + device
	}
	if s.GetAdminStatus() == vpp_interfaces.InterfaceState_DOWN {
		return text + " (disabled)"
	}
	return text + " (" + s.GetOperStatus().String() + ")"
}
