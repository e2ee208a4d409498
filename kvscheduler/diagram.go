package kvscheduler

import (
	"fmt"
	"io"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// WriteDiagram draws the transaction as a Mermaid sequence diagram, whose lanes
// are the northbound, the scheduler, the descriptors and the southbound.
func (t *RecordedTxn) WriteDiagram(w io.Writer) error {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	source := "NB"
	switch t.Type {
	case SBNotification:
		source = "SB"
	case RetryFailedOps, RetryUnimplOps:
		source = "S"
	}
	if source == "NB" {
		b.WriteString("    participant NB\n")
	}
	b.WriteString("    participant S as KVScheduler\n")
	lanes := map[string]string{}
	var order []string
	lane := func(name string) {
		if lanes[name] == "" {
			lanes[name] = fmt.Sprintf("D%d", len(lanes)+1)
			order = append(order, name)
		}
	}
	t.inOrder(
		func(r *RecordedRetrieve) { lane(r.Descriptor) },
		func(i int) {
			if t.Executed[i].called() {
				lane(t.Executed[i].Descriptor)
			}
		})
	for _, name := range order {
		fmt.Fprintf(&b, "    participant %s as %s\n", lanes[name], mermaid(name))
	}
	b.WriteString("    participant SB as Southbound\n")
	title := t.title()
	if t.Description != "" {
		title += ": " + t.Description
	}
	fmt.Fprintf(&b, "    Note over S: #35;%d %s\n", t.SeqNum, mermaid(title))
	for _, kv := range t.Values {
		verb := "Put"
		switch {
		case t.Type == SBNotification:
			verb = "PushSBNotification"
		case t.Type != NBTransaction:
			verb = "retry"
		case kv.Value == nil:
			verb = "Delete"
		}
		value := ""
		if kv.Value != nil && verb == "Put" {
			value = " " + compact(kv.Value)
		}
		fmt.Fprintf(&b, "    %s->>S: %s %s%s\n", source, verb, mermaid(kv.Key), mermaid(value))
	}
	if source == "NB" {
		b.WriteString("    NB->>S: Commit\n")
	}
	t.inOrder(
		func(r *RecordedRetrieve) { r.draw(&b, lanes[r.Descriptor]) },
		func(i int) { t.Executed[i].draw(&b, lanes) })
	if source == "NB" {
		result := "done"
		if slices.ContainsFunc(t.Executed, func(op RecordedOp) bool { return op.NewErr != nil }) {
			result = "errors"
		}
		if slices.ContainsFunc(t.Executed, func(op RecordedOp) bool { return op.IsRevert }) {
			result = "reverted"
		}
		fmt.Fprintf(&b, "    S-->>NB: %s\n", result)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// called tells if the descriptor was called for the operation.
func (op *RecordedOp) called() bool {
	return !op.NOOP && op.Descriptor != "" && op.NewState != pb.ValueState_OBTAINED && op.PrevState != pb.ValueState_OBTAINED
}

func (r *RecordedRetrieve) draw(b *strings.Builder, lane string) {
	fmt.Fprintf(b, "    S->>%s: Retrieve %s\n", lane, mermaid(r.asked()))
	arrow := "->>"
	if r.Err != nil {
		arrow = "-x"
	}
	fmt.Fprintf(b, "    %s%sSB: read\n    %s-->>S: %s\n", lane, arrow, lane, mermaid(r.result()))
}

func (op *RecordedOp) draw(b *strings.Builder, lanes map[string]string) {
	flags := ""
	if f := op.Flags(); len(f) > 0 {
		flags = " [" + strings.Join(f, " ") + "]"
	}
	if !op.called() {
		fmt.Fprintf(b, "    Note over S: %v %s%s is %v\n", op.Operation, mermaid(op.Key), flags, op.NewState)
		return
	}
	lane := lanes[op.Descriptor]
	name := op.Operation.String()
	fmt.Fprintf(b, "    S->>%s: %s%s %s%s\n", lane, name[:1], strings.ToLower(name[1:]), mermaid(op.Key), flags)
	verb := strings.ToLower(name)
	if op.NewErr != nil {
		fmt.Fprintf(b, "    %s-xSB: %s\n    %s-->>S: %s\n", lane, verb, lane, mermaid(firstLine(op.NewErr.Error())))
	} else {
		fmt.Fprintf(b, "    %s->>SB: %s\n", lane, verb)
	}
	fmt.Fprintf(b, "    Note over S: %s is %v\n", mermaid(op.Key), op.NewState)
}

// mermaid escapes what has a meaning in a diagram.
func mermaid(text string) string {
	return strings.NewReplacer("#", "#35;", ";", "#59;", "\n", " ", "<", "#lt;", ">", "#gt;", "%", "#37;").Replace(text)
}

// stateColours as the model of this API draws them.
var stateColours = map[pb.ValueState]string{
	pb.ValueState_NONEXISTENT: "black", pb.ValueState_MISSING: "dimgray", pb.ValueState_UNIMPLEMENTED: "darkkhaki",
	pb.ValueState_REMOVED: "black", pb.ValueState_CONFIGURED: "palegreen", pb.ValueState_OBTAINED: "lightcyan",
	pb.ValueState_DISCOVERED: "lime", pb.ValueState_PENDING: "pink", pb.ValueState_INVALID: "maroon",
	pb.ValueState_FAILED: "orangered", pb.ValueState_RETRYING: "deeppink",
}

// WriteDOT draws values in the language of Graphviz: coloured by state, grouped by
// descriptor, with edges to what they need (solid), to what is one of several that
// they need any of (dotted), and to what they derive (dashed). Values changed by the transaction with the sequence number get a gold border.
func WriteDOT(w io.Writer, values []*ValueSnapshot, txn uint64) error {
	var b strings.Builder
	b.WriteString("digraph kvscheduler {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n")
	groups := map[string][]*ValueSnapshot{}
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
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q;\n", i, label)
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
			fmt.Fprintf(&b, "    %q [fillcolor=%q, style=%q, tooltip=%q%s];\n", v.Key, stateColours[v.State], style, v.State.String()+" "+firstLine(v.Error), border)
		}
		b.WriteString("  }\n")
	}
	for _, v := range values {
		for _, d := range v.Derived {
			fmt.Fprintf(&b, "  %q -> %q [style=dashed];\n", v.Key, d)
		}
		several := map[string]bool{}
		for _, m := range v.Matching {
			several[m.Label] = true
			if known[m.Target] {
				fmt.Fprintf(&b, "  %q -> %q [label=%q, fontsize=9, style=dotted];\n", v.Key, m.Target, m.Label)
			}
		}
		for _, need := range v.Needs {
			if several[need.Label] {
				continue
			}
			if !known[need.Target] {
				fmt.Fprintf(&b, "  %q [style=\"dashed\", color=gray];\n", need.Target)
			}
			fmt.Fprintf(&b, "  %q -> %q [label=%q, fontsize=9];\n", v.Key, need.Target, need.Label)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
