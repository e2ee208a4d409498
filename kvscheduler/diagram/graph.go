// Package diagram draws the data of package record: transactions as sequence diagrams, and values with
// their dependencies as graphs. It writes Mermaid, Graphviz and SVG without external programs.
package diagram

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// stateColours are the colours of the ligato vpp-agent.
var stateColours = map[pb.ValueState]string{
	pb.ValueState_NONEXISTENT: "black", pb.ValueState_MISSING: "dimgray", pb.ValueState_UNIMPLEMENTED: "darkkhaki",
	pb.ValueState_REMOVED: "black", pb.ValueState_CONFIGURED: "palegreen", pb.ValueState_OBTAINED: "lightcyan",
	pb.ValueState_DISCOVERED: "lime", pb.ValueState_PENDING: "pink", pb.ValueState_INVALID: "maroon",
	pb.ValueState_FAILED: "orangered", pb.ValueState_RETRYING: "deeppink",
}

// WriteDOT writes the values as a Graphviz graph, coloured by state and grouped by descriptor. Edges lead
// to dependencies (solid), matches of AnyOf dependencies (dotted), and derived values (dashed). Values
// that transaction txn changed have a gold border.
func WriteDOT(w io.Writer, values []*record.Value, txn uint64) error {
	var b strings.Builder
	// add writes the texts and quotes every second one. It avoids Fprintf, because a graph may have 10,000 edges per value.
	var quoted []byte
	add := func(texts ...string) {
		for i, text := range texts {
			if i%2 == 0 {
				b.WriteString(text)
				continue
			}
			quoted = strconv.AppendQuote(quoted[:0], text)
			b.Write(quoted)
		}
	}
	add("digraph kvscheduler {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n")
	groups := map[string][]*record.Value{}
	known := map[string]bool{}
	for _, v := range values {
		groups[v.Descriptor] = append(groups[v.Descriptor], v)
		known[v.Key] = true
	}
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		label := name
		if label == "" {
			label = "properties"
		}
		add("  subgraph cluster_"+strconv.Itoa(i)+" {\n    label=", label, ";\n")
		for _, v := range groups[name] {
			style, border := "filled", ""
			switch v.State {
			case pb.ValueState_MISSING, pb.ValueState_UNIMPLEMENTED, pb.ValueState_REMOVED, pb.ValueState_PENDING:
				style = "filled,dashed"
			}
			if v.Base != "" {
				style += ",rounded"
			}
			if v.Txn == txn {
				border = ", color=gold, penwidth=3"
			}
			add("    ", v.Key, " [fillcolor=", stateColours[v.State], ", style=", style, ", tooltip=", v.State.String()+" "+record.FirstLine(v.Error), border+"];\n")
		}
		add("  }\n")
	}
	for _, v := range values {
		for _, d := range v.Derived {
			add("  ", v.Key, " -> ", d, " [style=dashed];\n")
		}
		several := map[string]bool{}
		for _, m := range v.Matching {
			several[m.Label] = true
			if known[m.Target] {
				add("  ", v.Key, " -> ", m.Target, " [label=", m.Label, ", fontsize=9, style=dotted];\n")
			}
		}
		for _, need := range v.Needs {
			if several[need.Label] {
				continue
			}
			if !known[need.Target] {
				add("  ", need.Target, " [style=\"dashed\", color=gray];\n")
			}
			add("  ", v.Key, " -> ", need.Target, " [label=", need.Label, ", fontsize=9];\n")
		}
	}
	add("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSVG draws the values like WriteDOT, but as SVG: each dependency is in a column to the left of its
// dependents. The members of a cycle are placed by their other dependencies.
func WriteSVG(w io.Writer, values []*record.Value, txn uint64) error {
	const (
		rowHeight = 30
		boxHeight = 20
		perChar   = 7
		gap       = 90
		margin    = 10
	)
	byKey := make(map[string]*record.Value, len(values))
	for _, v := range values {
		byKey[v.Key] = v
	}
	columns := columnsOf(values, byKey)
	type box struct{ x, y, width int }
	boxes := make(map[string]box, len(values))
	x, height := margin, 0
	for _, column := range columns {
		width := 0
		for _, v := range column {
			width = max(width, len(v.Key)*perChar+10)
		}
		for i, v := range column {
			boxes[v.Key] = box{x, margin + i*rowHeight, width}
			height = max(height, margin+(i+1)*rowHeight)
		}
		x += width + gap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="11">`+"\n",
		max(x-gap, 0)+margin, height+margin)
	b.WriteString(`<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>` + "\n")
	edge := func(from, to, dashes, label string) {
		f, ok := boxes[from]
		t, found := boxes[to]
		if !ok || !found {
			return
		}
		x1, y1, x2, y2 := f.x, f.y+boxHeight/2, t.x+t.width, t.y+boxHeight/2
		bend := gap / 2
		if x2 > x1 { // within a cycle
			x1 += f.width
			bend = -gap / 2
		}
		fmt.Fprintf(&b, `<path d="M%d,%d C%d,%d %d,%d %d,%d" fill="none" stroke="black" stroke-dasharray="%s" marker-end="url(#to)"><title>%s</title></path>`+"\n",
			x1, y1, x1-bend, y1, x2+bend, y2, x2, y2, dashes, html.EscapeString(label))
	}
	for _, v := range values {
		for _, need := range v.Needs {
			edge(v.Key, need.Target, "none", need.Label)
		}
		for _, one := range v.Matching {
			edge(v.Key, one.Target, "1 3", one.Label)
		}
		for _, key := range v.Derived {
			edge(key, v.Key, "5 3", "derived")
		}
	}
	for _, v := range values {
		at := boxes[v.Key]
		border, stroke, radius := "black", 1, 0
		if v.Txn == txn {
			border, stroke = "gold", 3
		}
		if v.Base != "" {
			radius = boxHeight / 2
		}
		text := "black"
		if colour := stateColours[v.State]; colour == "black" || colour == "maroon" {
			text = "white"
		}
		fmt.Fprintf(&b, `<g><title>%s is %v</title><rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s" stroke-width="%d"/>`+
			`<text x="%d" y="%d" fill="%s">%s</text></g>`+"\n", html.EscapeString(v.Key), v.State, at.x, at.y, at.width, boxHeight, radius,
			cmp.Or(stateColours[v.State], "white"), border, stroke, at.x+5, at.y+boxHeight-6, text, html.EscapeString(v.Key))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// columnsOf puts each value one column to the right of its rightmost dependency.
func columnsOf(values []*record.Value, byKey map[string]*record.Value) [][]*record.Value {
	column, visiting := map[string]int{}, map[string]bool{}
	var place func(v *record.Value) int
	place = func(v *record.Value) int {
		if at, known := column[v.Key]; known || visiting[v.Key] {
			return at
		}
		visiting[v.Key] = true
		at := 0
		below := func(key string) {
			if t := byKey[key]; t != nil && t != v {
				at = max(at, place(t)+1)
			}
		}
		for _, need := range v.Needs {
			below(need.Target)
		}
		for _, one := range v.Matching {
			below(one.Target)
		}
		below(v.Base)
		column[v.Key] = at
		return at
	}
	var columns [][]*record.Value
	for _, v := range values {
		at := place(v)
		for len(columns) <= at {
			columns = append(columns, nil)
		}
		columns[at] = append(columns[at], v)
	}
	return slices.DeleteFunc(columns, func(c []*record.Value) bool { return len(c) == 0 })
}
