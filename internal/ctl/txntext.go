package ctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
)

// writeTxn prints a transaction: its purpose, its input and its operations, with values below. run
// is 0 for the current run.
func writeTxn(p printer, node string, run int, txn causedTxn, name string) {
	t := txn.RecordedTxn
	kind, _, _ := strings.Cut(txnText(&kvscheduler.RecordedTxn{Type: t.Type, Resync: t.Resync, RetryForTxn: t.RetryForTxn, RetryAttempt: t.RetryAttempt}), ":")
	if t.Type == kvscheduler.SBNotification {
		kind = noticed(t)
	}
	p.Printf("%s: transaction #%s%s  %s  took %s, of which %s in the vswitch\n",
		node, seq{run, t.SeqNum}, prefixed(", ", kind), stamp(t.Start), took(t.Stop.Sub(t.Start)), took(t.SouthboundTime))
	for line := range strings.SplitSeq(t.Description, "\n") {
		if line != "" {
			p.Printf("  %s\n", line)
		}
	}
	if len(t.Values) > 0 && t.Resync != kvscheduler.DownstreamResync {
		p.Printf("\n")
		writeValuesOf(p, t)
	}
	p.Printf("\n")
	if len(t.Executed) == 0 {
		p.Printf("No operation was needed.\n")
	} else {
		shown := make(map[string]bool)
		for _, kv := range t.Values {
			shown[kv.Key] = kv.Value != nil && t.Resync != kvscheduler.DownstreamResync
		}
		writeOperations(p, t.Executed, shown)
	}
	writeRetrieved(p, t.Retrieved)
	if len(txn.events) > 0 {
		p.Printf("\n")
		events := p.Table("EVENT", "WHAT HAPPENED")
		for _, e := range txn.events {
			events.Add(strconv.FormatUint(e.SeqNum, 10), eventText(e))
		}
		events.Print()
		p.Printf("More: %s events %s --seq %s\n", name, node, seq{run, txn.events[0].SeqNum})
	}
	if t.Type == kvscheduler.RetryFailedOps {
		p.Printf("\nWhat failed before: %s txns %s --node %s\n", name, seq{run, t.RetryForTxn}, node)
	}
}

// prefixed adds a prefix to a non-empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func writeValuesOf(p printer, t *kvscheduler.RecordedTxn) {
	values := p.Table("REQUESTED")
	for _, kv := range t.Values {
		if kv.Value == nil {
			values.Add(kv.Key + "  is removed")
			continue
		}
		values.Add(kv.Key)
		values.Add("  " + fieldsText(kv.Value))
	}
	values.Print()
}

// writeOperations prints operations. It does not repeat values, and omits an empty column of
// durations.
func writeOperations(p printer, ops []kvscheduler.RecordedOp, shown map[string]bool) {
	header := []string{"NR", "OPERATION", "STATE", "TOOK", "KEY"}
	timed := slices.ContainsFunc(ops, func(op kvscheduler.RecordedOp) bool { return op.Duration > 0 })
	row := func(cells ...string) []string {
		if timed {
			return cells
		}
		return slices.Delete(cells, 3, 4)
	}
	t := p.Table(row(header...)...)
	for i, op := range ops {
		duration := ""
		if op.Duration > 0 {
			duration = took(op.Duration)
		}
		t.Add(row(strconv.Itoa(i+1), operationName(op), op.NewState.String(), duration, op.Key)...)
		if text := operationText(op, shown[op.Key]); text != "" {
			t.Add(row(" ", " ", " ", " ", "  "+text)...)
		}
	}
	t.Print()
}

// writeRetrieved prints the reads from the vswitch, one per line.
func writeRetrieved(p printer, reads []kvscheduler.RecordedRetrieve) {
	if len(reads) == 0 {
		return
	}
	p.Printf("\n")
	t := p.Table("READ", "AFTER NR", "FOUND", "TOOK", "KEYS")
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
		t.Add(r.Descriptor, strconv.Itoa(r.After), strconv.Itoa(r.Found), took(r.Duration), keys)
	}
	t.Print()
}

// operationName returns the name of an operation, "-" if it did not change the vswitch.
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

// operationText describes an operation: the created value, unless already shown, or the updated
// fields, and the error.
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

// noticed describes a southbound notification, such as "eth0 went down".
func noticed(t *kvscheduler.RecordedTxn) string {
	const most = 3
	var texts []string
	more := 0
	there := map[string]bool{}
	for _, kv := range t.Values {
		there[kv.Key] = kv.Value != nil
	}
	for _, kv := range t.Values {
		text := noticedValue(kv.Key, kv.Value != nil, there)
		switch {
		case text == "":
		case len(texts) == most:
			more++
		default:
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return "notification of the southbound"
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// noticedValue describes the appearance or disappearance of a value; "" if the text for another
// value covers it.
func noticedValue(key string, is bool, others map[string]bool) string {
	if rest, ok := strings.CutPrefix(key, "vpp/interface/"); ok {
		if name, state, ok := strings.Cut(rest, "/link-state/"); ok {
			if !is { // the text for the other state covers it, unless the interface is gone
				for other, there := range others {
					if there && strings.HasPrefix(other, "vpp/interface/"+name+"/link-state/") {
						return ""
					}
				}
				return name + " has no link any more"
			}
			return name + " went " + strings.ToLower(state)
		}
	}
	if rest, ok := strings.CutPrefix(key, "linux/interface/host-name/"); ok {
		name, address, hasAddress := strings.Cut(rest, "/address/")
		device, known := others["linux/interface/host-name/"+name]
		switch {
		case hasAddress && known && device == is: // a device appears and disappears with its addresses
			return ""
		case hasAddress && is:
			return "address " + address + " appeared on device " + name
		case hasAddress:
			return "address " + address + " is gone from device " + name
		case is:
			return "device " + name + " is up"
		}
		return "device " + name + " is down or gone" // the value exists while the device is up
	}
	if is {
		return key + " appeared"
	}
	return key + " is gone"
}
