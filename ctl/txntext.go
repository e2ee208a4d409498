package ctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
)

// writeTxn shows a transaction: what it was for, what it was given, and what was
// done, each value with its content below.
func (p printer) writeTxn(node string, txn causedTxn, name string) {
	t := txn.RecordedTxn
	kind, _, _ := strings.Cut(txnText(&kvscheduler.RecordedTxn{Type: t.Type, Resync: t.Resync, RetryForTxn: t.RetryForTxn, RetryAttempt: t.RetryAttempt}), ":")
	p.printf("%s: transaction #%d%s  %s  took %s, of which %s in the vswitch\n",
		node, t.SeqNum, prefixed(", ", kind), stamp(t.Start), took(t.Stop.Sub(t.Start)), took(t.SouthboundTime))
	for line := range strings.SplitSeq(t.Description, "\n") {
		if line != "" {
			p.printf("  %s\n", line)
		}
	}
	if len(t.Values) > 0 && t.Resync != kvscheduler.DownstreamResync {
		p.printf("\n")
		p.writeValuesOf(t)
	}
	p.printf("\n")
	if len(t.Executed) == 0 {
		p.printf("No operation was needed.\n")
	} else {
		shown := make(map[string]bool)
		for _, kv := range t.Values {
			shown[kv.Key] = kv.Value != nil && t.Resync != kvscheduler.DownstreamResync
		}
		p.writeOperations(t.Executed, shown)
	}
	p.writeRetrieved(t.Retrieved)
	if len(txn.events) > 0 {
		p.printf("\n")
		events := p.table("EVENT", "WHAT HAPPENED")
		for _, e := range txn.events {
			events.add(strconv.FormatUint(e.SeqNum, 10), eventText(e))
		}
		events.write()
		p.printf("More: %s events %s --seq %d\n", name, node, txn.events[0].SeqNum)
	}
	if t.Type == kvscheduler.RetryFailedOps {
		p.printf("\nWhat failed before: %s txns %d --node %s\n", name, t.RetryForTxn, node)
	}
}

// prefixed is empty for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (p printer) writeValuesOf(t *kvscheduler.RecordedTxn) {
	values := p.table("REQUESTED")
	for _, kv := range t.Values {
		if kv.Value == nil {
			values.add(kv.Key + "  is removed")
			continue
		}
		values.add(kv.Key)
		values.add("  " + fieldsText(kv.Value))
	}
	values.write()
}

// writeOperations shows operations; values that were shown are not repeated when
// they are created. Without any durations, there is no column for them.
func (p printer) writeOperations(ops []kvscheduler.RecordedOp, shown map[string]bool) {
	header := []string{"NR", "OPERATION", "STATE", "TOOK", "KEY"}
	timed := slices.ContainsFunc(ops, func(op kvscheduler.RecordedOp) bool { return op.Duration > 0 })
	row := func(cells ...string) []string {
		if timed {
			return cells
		}
		return slices.Delete(cells, 3, 4)
	}
	t := p.table(row(header...)...)
	for i, op := range ops {
		duration := ""
		if op.Duration > 0 {
			duration = took(op.Duration)
		}
		t.add(row(strconv.Itoa(i+1), operationName(op), op.NewState.String(), duration, op.Key)...)
		if text := operationText(op, shown[op.Key]); text != "" {
			t.add(row(" ", " ", " ", " ", "  "+text)...)
		}
	}
	t.write()
}

// writeRetrieved shows what was read from the vswitch, one line each.
func (p printer) writeRetrieved(reads []kvscheduler.RecordedRetrieve) {
	if len(reads) == 0 {
		return
	}
	p.printf("\n")
	t := p.table("READ", "AFTER NR", "FOUND", "TOOK", "KEYS")
	for _, r := range reads {
		keys := "all"
		if len(r.Keys) > 0 {
			keys = strings.Join(r.Keys, " ")
		}
		if r.MoreKeys > 0 {
			keys += fmt.Sprintf(" and %d more", r.MoreKeys)
		}
		if r.Err != nil {
			keys += fmt.Sprintf("  error: %v", r.Err)
		}
		t.add(r.Descriptor, strconv.Itoa(r.After), strconv.Itoa(r.Found), took(r.Duration), keys)
	}
	t.write()
}

// operationName is "-" if the vswitch was not changed.
func operationName(op kvscheduler.RecordedOp) string {
	switch {
	case op.NOOP:
		return "-"
	case op.IsRevert:
		return "revert: " + op.Operation.String()
	case op.IsRetry:
		return "retry: " + op.Operation.String()
	case op.IsRecreate:
		return "recreate: " + op.Operation.String()
	}
	return op.Operation.String()
}

// operationText is the value of what is created unless it was shown, what is
// updated of it, and the error.
func operationText(op kvscheduler.RecordedOp, shown bool) string {
	var texts []string
	switch {
	case op.Operation == pb.TxnOperation_CREATE && op.NewValue != nil && !op.NOOP && !shown:
		texts = append(texts, fieldsText(op.NewValue))
	case op.Operation == pb.TxnOperation_UPDATE:
		texts = changes(op.PrevValue, op.NewValue)
	}
	if op.NewErr != nil {
		texts = append(texts, fmt.Sprintf("error: %v", op.NewErr))
	} else if op.PrevErr != nil {
		texts = append(texts, fmt.Sprintf("before: %v", op.PrevErr))
	}
	return strings.TrimSpace(strings.Join(texts, "  "))
}
