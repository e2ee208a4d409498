package ctl

import (
	"fmt"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

const explainKey = "/scheduler/explain"

// keyHelp says how KEY may be written.
const keyHelp = "KEY may be shortened to any part of the key that no other key has, e.g. its end. With the name of\n" +
	"a pod, the keys of its values are listed."

func (c *cli) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain KEY",
		Short: "Why a value is in its state: what it needs, what failed, what needs it",
		Long:  "Explains why a value is in its state, on every node that has it.\n\n" + keyHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.selected(ctx, nil)
			if err != nil {
				return err
			}
			known := func(e *kvscheduler.Explanation) bool { return e.Value != nil }
			return showKey(ctx, c, agents, explainKey, args[0], known, writeExplanations, presentKeys)
		},
	}
}

func writeExplanations(p printer, good []answer[*kvscheduler.Explanation]) {
	for i, a := range good {
		if i > 0 {
			p.printf("\n")
		}
		p.writeExplanation(a.agent.Name, a.value)
	}
}

func (p printer) writeExplanation(node string, e *kvscheduler.Explanation) {
	v := e.Value
	p.printf("%s: %s\n", node, e.Key)
	t := p.table("", "", "")
	section := func(label string) func(texts ...string) {
		return func(texts ...string) {
			if len(texts) == 0 {
				return
			}
			for _, text := range texts {
				t.add(" ", label, text)
				label = " "
			}
		}
	}
	section("state")(v.State.String())
	section("because")(strings.TrimLeft(strings.TrimPrefix(e.Summary, e.Key), ": "))
	if v.Descriptor != "" {
		section("descriptor")(v.Descriptor)
	}
	if v.LastOperation != pb.TxnOperation_UNDEFINED {
		section("operation")(fmt.Sprintf("%v in transaction #%d", v.LastOperation, v.Txn))
	}
	if v.Base != "" {
		section("derived from")(v.Base)
	}
	switch {
	case v.Want == nil && v.Have != nil:
		section("exists as")(fieldsText(v.Have))
	case v.Want != nil && v.Have != nil && v.State != pb.ValueState_CONFIGURED && !proto.Equal(v.Want, v.Have):
		// Of configured values, differences mean nothing, e.g. another order.
		section("wanted")(fieldsText(v.Want))
		section("there is")(changes(v.Want, v.Have)...)
	case v.Want != nil:
		section("value")(fieldsText(v.Want))
	}
	if metadata := metadataText(v.Metadata); metadata != "" {
		section("metadata")(metadata)
	}
	var needs []string
	for _, n := range e.Needs {
		needs = append(needs, needText(n))
	}
	section("needs")(needs...)
	section("derives")(v.Derived...)
	section("needed by")(e.NeededBy...)
	t.write()
}

// needText is a dependency in a line: whether it is met, its label, and by what.
func needText(n kvscheduler.ExplainedNeed) string {
	label := n.Label + ": "
	if n.Label == n.Target {
		label = ""
	}
	if n.Met {
		text := "met   " + label + n.Target
		if len(n.By) > 0 && n.By[0] != n.Target {
			text += "  by " + strings.Join(n.By, ", ")
		}
		return text
	}
	text := "UNMET " + label + n.Target
	for _, w := range n.Waiting {
		if w.Key == n.Target {
			return text + "  which is " + w.State.String()
		}
		text += "  " + w.Key + " is " + w.State.String()
	}
	if len(n.Waiting) == 0 {
		text += "  which does not exist"
	}
	if len(n.Similar) > 0 {
		text += "  did you mean " + strings.Join(n.Similar, " or ") + "?"
	}
	return text
}
