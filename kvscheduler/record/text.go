package record

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// String returns the text of WriteText.
func (t *Txn) String() string {
	var b strings.Builder
	_ = t.WriteText(&b)
	return b.String()
}

// WriteText renders the transaction as text: its values, and its operations with their flags.
//
//	#3 NB Transaction "add pod web-1"  11:02:03.123  2.4ms (southbound 2.1ms)
//	  values:
//	    config/vpp/v2/interfaces/tap1  {"name":"tap1"}
//	  executed:
//	    1. CREATE  config/vpp/v2/interfaces/tap1  1.9ms
//	         {"name":"tap1"}
//
// Reads of the southbound have no number.
func (t *Txn) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "#%d %s", t.SeqNum, t.Title())
	if t.Description != "" {
		fmt.Fprintf(b, " %q", t.Description)
	}
	fmt.Fprintf(b, "  %s  %s (southbound %s)\n", t.Start.Format("15:04:05.000"), short(t.Stop.Sub(t.Start)), short(t.SouthboundTime))
	if len(t.Values) > 0 && t.Resync != DownstreamResync {
		b.WriteString("  values:\n")
		for _, kv := range t.Values {
			value := "deleted"
			if kv.Value != nil {
				value = Compact(kv.Value)
			}
			fmt.Fprintf(b, "    %s  %s\n", kv.Key, value)
		}
	}
	if len(t.Planned) > 0 {
		b.WriteString("  planned:\n")
	}
	for i := range t.Planned {
		t.Planned[i].writeText(b, i+1)
	}
	if len(t.Executed) == 0 {
		b.WriteString("  executed: nothing\n")
	} else {
		b.WriteString("  executed:\n")
	}
	t.InOrder(
		func(r *Retrieve) { r.writeText(b) },
		func(i int) { t.Executed[i].writeText(b, i+1) })
	return b.Flush()
}

// Title returns the kind of the transaction.
func (t *Txn) Title() string {
	switch t.Type {
	case SBNotification:
		return "SB Notification"
	case RetryFailedOps:
		return fmt.Sprintf("Retry of #%d (attempt %d)", t.RetryForTxn, t.RetryAttempt)
	case RetryUnimplOps:
		return "Retry of unimplemented values"
	}
	switch t.Resync {
	case FullResync:
		return "Full Resync"
	case UpstreamResync:
		return "Upstream Resync"
	case DownstreamResync:
		return "Downstream Resync"
	}
	return "NB Transaction"
}

func (r *Retrieve) writeText(b *bufio.Writer) {
	fmt.Fprintf(b, "    -  %v", r)
	if r.Duration > 0 {
		fmt.Fprintf(b, "  %s", short(r.Duration))
	}
	b.WriteByte('\n')
}

func (op *Op) writeText(b *bufio.Writer, number int) {
	fmt.Fprintf(b, "    %d. %v", number, op.Operation)
	if flags := op.Flags(); len(flags) > 0 {
		fmt.Fprintf(b, " [%s]", strings.Join(flags, " "))
	}
	fmt.Fprintf(b, "  %s", op.Key)
	if op.Duration > 0 {
		fmt.Fprintf(b, "  %s", short(op.Duration))
	}
	b.WriteByte('\n')
	switch {
	case op.Operation == pb.TxnOperation_UPDATE && op.PrevValue != nil && op.NewValue != nil && !op.NOOP:
		fmt.Fprintf(b, "         %s\n      -> %s\n", Compact(op.PrevValue), Compact(op.NewValue))
	case op.NewValue != nil:
		if text := Compact(op.NewValue); text != "{}" {
			fmt.Fprintf(b, "         %s\n", text)
		}
	case op.PrevValue != nil:
		if text := Compact(op.PrevValue); text != "{}" {
			fmt.Fprintf(b, "         %s\n", text)
		}
	}
	if op.NewErr != nil {
		fmt.Fprintf(b, "         error: %s\n", FirstLine(op.NewErr.Error()))
	} else if op.PrevErr != nil {
		fmt.Fprintf(b, "         before: %s\n", FirstLine(op.PrevErr.Error()))
	}
}

// Flags describe the operation, for example DERIVED, NOOP and WAS-PENDING.
func (op Op) Flags() []string {
	var flags []string
	add := func(on bool, flag string) {
		if on {
			flags = append(flags, flag)
		}
	}
	if op.IsProperty {
		add(true, "PROPERTY")
	} else {
		add(op.IsDerived, "DERIVED")
	}
	add(op.NOOP, "NOOP")
	add(op.IsRevert, "REVERT")
	add(op.IsRetry, "RETRY")
	add(op.IsRecreate, "RECREATE")
	was, is := op.PrevState, op.NewState
	failing := func(s pb.ValueState) bool { return s == pb.ValueState_FAILED || s == pb.ValueState_RETRYING }
	switch {
	case is == pb.ValueState_OBTAINED:
		add(true, "OBTAINED")
	case was == pb.ValueState_OBTAINED:
		add(true, "WAS-OBTAINED")
	}
	switch {
	case is == pb.ValueState_UNIMPLEMENTED:
		add(true, "UNIMPLEMENTED")
	case was == pb.ValueState_UNIMPLEMENTED:
		add(true, "WAS-UNIMPLEMENTED")
	}
	if is == pb.ValueState_REMOVED {
		add(was == pb.ValueState_REMOVED || op.NOOP && failing(was), "ALREADY-REMOVED")
		add(was == pb.ValueState_MISSING, "ALREADY-MISSING")
	} else {
		add(was == pb.ValueState_MISSING, "WAS-MISSING")
	}
	add(was == pb.ValueState_DISCOVERED, "DISCOVERED")
	switch {
	case is == pb.ValueState_PENDING && was == is:
		add(true, "STILL-PENDING")
	case is == pb.ValueState_PENDING:
		add(true, "IS-PENDING")
	case was == pb.ValueState_PENDING:
		add(true, "WAS-PENDING")
	}
	switch {
	case failing(is) && failing(was):
		add(true, "STILL-FAILING")
	case failing(is):
		add(true, "FAILED")
	case failing(was) && is == pb.ValueState_CONFIGURED:
		add(true, "FIXED")
	}
	switch {
	case is == pb.ValueState_INVALID && was == is:
		add(true, "STILL-INVALID")
	case is == pb.ValueState_INVALID:
		add(true, "INVALID")
	}
	return flags
}

// Compact renders a value on one line, without secrets.
func Compact(v proto.Message) string {
	if r, ok := v.(*RawValue); ok {
		return r.JSON
	}
	text, _ := appendCompact(nil, v)
	return string(text)
}

func protojsonOf(v proto.Message) (string, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(v)
	if err != nil {
		return fmt.Sprintf("<%s: %v>", v.ProtoReflect().Descriptor().FullName(), err), err
	}
	return squeeze(string(text)), nil
}

// squeeze removes the spaces that protojson inserts at random.
func squeeze(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	quoted, escaped := false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == ' ' && !quoted {
			continue
		}
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		}
	}
	return b.String()
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// FirstLine returns the first line of s.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
