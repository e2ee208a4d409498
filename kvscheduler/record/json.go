package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/internal/lib/parallel"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
)

// RawValue is a decoded value of a message type that is not linked into the program.
type RawValue struct {
	emptypb.Empty
	Name string // name of the message type
	JSON string // its protojson

	object bool // JSON is a valid JSON object
}

// A value is encoded as {"ProtoMsgName", "ProtoMsgData"}. ProtoMsgData is protojson with proto field names,
// or a string if the value has no JSON object.

// IsJSON reports whether the JSON field is valid JSON.
func (v *RawValue) IsJSON() bool { return v.object || json.Valid([]byte(v.JSON)) }

func appendValue(b []byte, v proto.Message) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	name := ""
	raw, isRaw := v.(*RawValue)
	if isRaw {
		name = raw.Name
	} else {
		name = string(v.ProtoReflect().Descriptor().FullName())
	}
	b = append(b, `{"ProtoMsgName":`...)
	b = jsontext.AppendString(b, name)
	b = append(b, `,"ProtoMsgData":`...)
	begin := len(b)
	b, object := appendCompact(b, v)
	if !object {
		object = isRaw && (raw.object || strings.HasPrefix(raw.JSON, "{") && json.Valid(b[begin:]))
	}
	if !object {
		text := string(b[begin:])
		b = jsontext.AppendString(b[:begin], text)
	}
	return append(b, '}')
}

// Text returns the encoded form of a value, for callers that encode it several times.
func Text(v proto.Message) *RawValue {
	text, object := appendCompact(nil, v)
	return &RawValue{Name: string(v.ProtoReflect().Descriptor().FullName()), JSON: string(text), object: object}
}

// readText reads a value as a RawValue, or returns nil for null.
func readText(r *jsontext.Reader) proto.Message {
	if r.Null() {
		return nil
	}
	raw := &RawValue{}
	r.Object(func(name []byte) {
		switch string(name) {
		case "ProtoMsgName":
			raw.Name = r.String()
		case "ProtoMsgData":
			if raw.object = r.Kind() != jsontext.StringKind; raw.object {
				raw.JSON = r.RawText()
			} else {
				raw.JSON = r.String()
			}
		default:
			r.Skip()
		}
	})
	return raw
}

// readMessage reads a value as a message, or as a RawValue if its type is not linked into the program.
func readMessage(r *jsontext.Reader) proto.Message {
	raw, _ := readText(r).(*RawValue)
	if raw == nil {
		return nil
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(raw.Name))
	if err != nil {
		return raw
	}
	m := mt.New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(raw.JSON), m); err != nil {
		r.Fail(fmt.Errorf("value of type %s: its JSON does not fit the fields", raw.Name)) // err quotes values, which may be secrets
	}
	return m
}

// reading reads a value: readText or readMessage.
type reading func(*jsontext.Reader) proto.Message

// AppendList appends a list. one appends an element, concurrently for long lists.
func AppendList[T any](b []byte, list []T, one func(b []byte, element *T) []byte) []byte {
	b = append(b, '[')
	if len(list) < parallel.Worth {
		return append(appendListed(b, list, one), ']')
	}
	size := sizeOf(list, one)
	b = slices.Grow(b, size)
	parts := parallel.Collect(len(list), func(begin, end int) []byte {
		if begin == 0 {
			return appendListed(b, list[:end], one)
		}
		return appendListed(make([]byte, 0, size/len(list)*(end-begin)), list[begin:end], one)
	})
	b = parts[0]
	for _, part := range parts[1:] {
		b = append(append(b, ','), part...)
	}
	return append(b, ']')
}

func appendListed[T any](b []byte, list []T, one func(b []byte, element *T) []byte) []byte {
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &list[i])
	}
	return b
}

// sizeOf estimates the encoded size of a long list from a sample, because growing the buffer costs as much as encoding.
func sizeOf[T any](list []T, one func(b []byte, element *T) []byte) int {
	const sample = 32
	var b []byte
	for i := range sample {
		b = one(b, &list[i*(len(list)/sample)])
	}
	return len(b) / sample * len(list) * 9 / 8
}

func unmarshal[T any](data []byte, into *T, read func(r *jsontext.Reader, into *T)) error {
	return whole(jsontext.NewReader(data), into, read)
}

// whole reads the only value of a text.
func whole[T any](r *jsontext.Reader, into *T, read func(r *jsontext.Reader, into *T)) error {
	var value T
	read(r, &value)
	if err := r.End(); err != nil {
		return err
	}
	*into = value
	return nil
}

// longList reads a list like elements, and allocates it by the size of its first elements. Only little text may follow the list.
func longList[T any](r *jsontext.Reader, one func(r *jsontext.Reader, into *T)) []T {
	const sample = 64
	list, all := []T{}, r.Left()
	r.Array(func() {
		if len(list) == sample {
			list = slices.Grow(list, r.Left()/max(1, (all-r.Left())/sample)*9/8)
		}
		list = append(list, *new(T))
		one(r, &list[len(list)-1])
	})
	return list
}

// elements reads a list. one reads an element. null is an empty list.
func elements[T any](r *jsontext.Reader, one func(r *jsontext.Reader, into *T)) []T {
	list := []T{}
	r.Array(func() {
		var element T
		one(r, &element)
		list = append(list, element)
	})
	return list
}

// object appends the members of a JSON object. A name includes the preceding brace or comma; the first member is mandatory.
type object struct{ b []byte }

func (o *object) text(name, text string) {
	o.b = jsontext.AppendString(append(o.b, name...), text)
}

// some appends a text unless it is empty.
func (o *object) some(name, text string) {
	if text != "" {
		o.text(name, text)
	}
}

func (o *object) value(name string, v proto.Message) { o.b = appendValue(append(o.b, name...), v) }

func (o *object) number(name string, n int64) { o.b = strconv.AppendInt(append(o.b, name...), n, 10) }

func (o *object) unsigned(name string, n uint64) {
	o.b = strconv.AppendUint(append(o.b, name...), n, 10)
}

func (o *object) count(name string, n int64) {
	if n != 0 {
		o.number(name, n)
	}
}

func (o *object) flag(name string, on bool) {
	if on {
		o.b = append(append(o.b, name...), "true"...)
	}
}

func (o *object) texts(name string, texts []string) {
	if len(texts) > 0 {
		o.b = jsontext.AppendStrings(append(o.b, name...), texts)
	}
}

func (o *object) time(name string, t time.Time) {
	o.b = append(append(o.b, name...), '"')
	o.b = append(t.AppendFormat(o.b, time.RFC3339Nano), '"')
}

// metadata appends metadata unless it is nil, as a string if it has no JSON form.
func (o *object) metadata(name string, m any) {
	if m == nil {
		return
	}
	o.b = append(o.b, name...)
	b, err := jsontext.AppendAny(o.b, m)
	if err != nil {
		b = jsontext.AppendString(o.b, fmt.Sprintf("%+v", m))
	}
	o.b = b
}

func (o *object) end() []byte { return append(o.b, '}') }

func (kv *KeyValue) appendJSON(b []byte, origin Origin) []byte {
	o := object{b}
	o.text(`{"Key":`, kv.Key)
	o.value(`,"Value":`, kv.Value)
	o.count(`,"Origin":`, int64(origin)) // a number, as in dumps
	return o.end()
}

func (kv *KeyValue) read(r *jsontext.Reader) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "Key":
			kv.Key = r.String()
		case "Value":
			kv.Value = readMessage(r)
		default:
			r.Skip()
		}
	})
}

// MarshalJSON returns {"Key", "Value": {"ProtoMsgName", "ProtoMsgData"}}.
func (kv KeyValue) MarshalJSON() ([]byte, error) { return kv.appendJSON(nil, UnknownOrigin), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (kv *KeyValue) UnmarshalJSON(b []byte) error {
	return unmarshal(b, kv, func(r *jsontext.Reader, kv *KeyValue) { kv.read(r) })
}

// AppendJSON appends the result of MarshalJSON.
func (op *Op) AppendJSON(b []byte) []byte {
	o := object{b}
	o.text(`{"Operation":`, op.Operation.String())
	o.text(`,"Key":`, op.Key)
	o.some(`,"Descriptor":`, op.Descriptor)
	o.text(`,"NewState":`, op.NewState.String())
	o.value(`,"NewValue":`, op.NewValue)
	o.some(`,"NewErrMsg":`, message(op.NewErr))
	o.text(`,"PrevState":`, op.PrevState.String())
	o.value(`,"PrevValue":`, op.PrevValue)
	o.some(`,"PrevErrMsg":`, message(op.PrevErr))
	o.flag(`,"NOOP":`, op.NOOP)
	o.flag(`,"IsDerived":`, op.IsDerived)
	o.flag(`,"IsProperty":`, op.IsProperty)
	o.flag(`,"IsRevert":`, op.IsRevert)
	o.flag(`,"IsRetry":`, op.IsRetry)
	o.flag(`,"IsRecreate":`, op.IsRecreate)
	o.count(`,"Duration":`, int64(op.Duration))
	return o.end()
}

func (op *Op) read(r *jsontext.Reader) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "Operation":
			text := r.String()
			operation, ok := pb.TxnOperation_value[text]
			if !ok {
				r.Fail(fmt.Errorf("unknown operation %q", text))
			}
			op.Operation = pb.TxnOperation(operation)
		case "Key":
			op.Key = r.String()
		case "Descriptor":
			op.Descriptor = r.String()
		case "NewState":
			op.NewState = readState(r)
		case "NewValue":
			op.NewValue = readMessage(r)
		case "NewErrMsg":
			op.NewErr = errorOf(r.String())
		case "PrevState":
			op.PrevState = readState(r)
		case "PrevValue":
			op.PrevValue = readMessage(r)
		case "PrevErrMsg":
			op.PrevErr = errorOf(r.String())
		case "NOOP":
			op.NOOP = r.Bool()
		case "IsDerived":
			op.IsDerived = r.Bool()
		case "IsProperty":
			op.IsProperty = r.Bool()
		case "IsRevert":
			op.IsRevert = r.Bool()
		case "IsRetry":
			op.IsRetry = r.Bool()
		case "IsRecreate":
			op.IsRecreate = r.Bool()
		case "Duration":
			op.Duration = time.Duration(r.Int())
		default:
			r.Skip()
		}
	})
}

// MarshalJSON encodes states and operations as strings, and values like KeyValue.
func (op Op) MarshalJSON() ([]byte, error) { return op.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON, except that errors keep only their text.
func (op *Op) UnmarshalJSON(b []byte) error {
	return unmarshal(b, op, func(r *jsontext.Reader, op *Op) { op.read(r) })
}

// MarshalJSON returns the form in REST responses.
func (r Retrieve) MarshalJSON() ([]byte, error) { return r.appendJSON(nil), nil }

func (r *Retrieve) appendJSON(b []byte) []byte {
	o := object{b}
	o.text(`{"Descriptor":`, r.Descriptor)
	o.texts(`,"Keys":`, r.Keys)
	o.count(`,"MoreKeys":`, int64(r.MoreKeys))
	o.number(`,"Found":`, int64(r.Found))
	o.number(`,"After":`, int64(r.After))
	o.number(`,"Duration":`, int64(r.Duration))
	o.some(`,"ErrMsg":`, message(r.Err))
	return o.end()
}

// UnmarshalJSON is the inverse of MarshalJSON, except that errors keep only their text.
func (r *Retrieve) UnmarshalJSON(b []byte) error {
	return unmarshal(b, r, func(from *jsontext.Reader, r *Retrieve) { r.read(from) })
}

func (r *Retrieve) read(from *jsontext.Reader) {
	from.Object(func(name []byte) {
		switch string(name) {
		case "Descriptor":
			r.Descriptor = from.String()
		case "Keys":
			r.Keys = from.Strings()
		case "MoreKeys":
			r.MoreKeys = int(from.Int())
		case "Found":
			r.Found = int(from.Int())
		case "After":
			r.After = int(from.Int())
		case "Duration":
			r.Duration = time.Duration(from.Int())
		case "ErrMsg":
			r.Err = errorOf(from.String())
		default:
			from.Skip()
		}
	})
}

// AppendJSON appends the result of MarshalJSON.
func (t *Txn) AppendJSON(b []byte) []byte {
	o := object{b}
	o.unsigned(`{"SeqNum":`, t.SeqNum)
	o.text(`,"TxnType":`, t.Type.String())
	o.text(`,"ResyncType":`, t.Resync.String())
	o.text(`,"Description":`, t.Description)
	if t.RetryForTxn != 0 {
		o.unsigned(`,"RetryForTxn":`, t.RetryForTxn)
	}
	o.count(`,"RetryAttempt":`, int64(t.RetryAttempt))
	o.time(`,"Start":`, t.Start)
	o.time(`,"Stop":`, t.Stop)
	o.number(`,"SouthboundTime":`, int64(t.SouthboundTime))
	origin := FromNB
	if t.Type == SBNotification {
		origin = FromSB
	}
	o.b = AppendList(append(o.b, `,"Values":`...), t.Values, func(b []byte, kv *KeyValue) []byte { return kv.appendJSON(b, origin) })
	appendOp := func(b []byte, op *Op) []byte { return op.AppendJSON(b) }
	if len(t.Planned) > 0 {
		o.b = AppendList(append(o.b, `,"Planned":`...), t.Planned, appendOp)
	}
	o.b = AppendList(append(o.b, `,"Executed":`...), t.Executed, appendOp)
	if len(t.Retrieved) > 0 {
		o.b = AppendList(append(o.b, `,"Retrieved":`...), t.Retrieved, func(b []byte, r *Retrieve) []byte { return r.appendJSON(b) })
	}
	return o.end()
}

// MarshalJSON returns the form in REST responses.
func (t *Txn) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *Txn) UnmarshalJSON(b []byte) error {
	return unmarshal(b, t, func(r *jsontext.Reader, t *Txn) {
		r.Object(func(name []byte) {
			switch string(name) {
			case "Values":
				r.Array(func() {
					var kv KeyValue
					kv.read(r)
					t.Values = append(t.Values, kv)
				})
			case "Planned":
				t.Planned = readOps(r)
			case "Executed":
				t.Executed = readOps(r)
			case "Retrieved":
				if !r.Null() {
					t.Retrieved = elements(r, func(from *jsontext.Reader, r *Retrieve) { r.read(from) })
				}
			default:
				t.readHead(r, name)
			}
		})
	})
}

// Txns is a list of transactions.
type Txns []*Txn

// AppendJSON appends the JSON of the list.
func (l Txns) AppendJSON(b []byte) []byte {
	return AppendList(b, l, func(b []byte, t **Txn) []byte { return (*t).AppendJSON(b) })
}

func readOps(r *jsontext.Reader) []Op {
	if r.Null() {
		return nil
	}
	return elements(r, func(r *jsontext.Reader, op *Op) { op.read(r) })
}

// readHead reads a member other than values, operations and reads.
func (t *Txn) readHead(r *jsontext.Reader, name []byte) {
	switch string(name) {
	case "SeqNum":
		t.SeqNum = r.Uint()
	case "TxnType":
		t.Type = readName(r, txnTypeNames, "transaction type")
	case "ResyncType":
		t.Resync = readName(r, resyncNames, "resync type")
	case "Description":
		t.Description = r.String()
	case "RetryForTxn":
		t.RetryForTxn = r.Uint()
	case "RetryAttempt":
		t.RetryAttempt = int(r.Int())
	case "Start":
		t.Start = readTime(r)
	case "Stop":
		t.Stop = readTime(r)
	case "SouthboundTime":
		t.SouthboundTime = time.Duration(r.Int())
	default:
		r.Skip()
	}
}

func readTime(r *jsontext.Reader) time.Time {
	text := r.String()
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	r.Fail(err)
	return t
}

func readName[T comparable](r *jsontext.Reader, names map[T]string, what string) T {
	v, err := parseName(names, r.String(), what)
	r.Fail(err)
	return v
}

func readState(r *jsontext.Reader) pb.ValueState {
	state, err := ParseState(r.String())
	r.Fail(err)
	return state
}

// Outline is a transaction without operations. It has no values either, except for the keys of a notification.
type Outline struct {
	Txn
	// Operations and Failed count the executed and the failed operations.
	Operations, Failed int
}

// UnmarshalJSON reads the JSON of a Txn, skipping most of it.
func (o *Outline) UnmarshalJSON(b []byte) error {
	return unmarshal(b, o, func(r *jsontext.Reader, o *Outline) {
		r.Object(func(name []byte) {
			switch string(name) {
			case "Values":
				o.readKeys(r)
			case "Executed":
				o.countOps(r)
			default:
				o.readHead(r, name)
			}
		})
	})
}

// readKeys reads the keys of a notification. The type of the transaction precedes them.
func (o *Outline) readKeys(r *jsontext.Reader) {
	if o.Type != SBNotification {
		r.Skip()
		return
	}
	r.Array(func() {
		var kv KeyValue
		r.Object(func(name []byte) {
			switch string(name) {
			case "Key":
				kv.Key = r.String()
			case "Value":
				if raw, ok := readText(r).(*RawValue); ok {
					kv.Value = &RawValue{Name: raw.Name, JSON: "{}", object: true}
				}
			default:
				r.Skip()
			}
		})
		o.Values = append(o.Values, kv)
	})
}

func (o *Outline) countOps(r *jsontext.Reader) {
	r.Array(func() {
		failed := false
		r.Object(func(name []byte) {
			if string(name) == "NewErrMsg" {
				failed = r.String() != ""
			} else {
				r.Skip()
			}
		})
		o.Operations++
		if failed {
			o.Failed++
		}
	})
}

// String returns the name of the origin.
func (o Origin) String() string {
	if name, ok := originNames[o]; ok {
		return name
	}
	return fmt.Sprintf("Origin(%d)", int(o))
}

var originNames = map[Origin]string{UnknownOrigin: "unknown", FromNB: "NB", FromSB: "SB"}

// AppendJSON appends the result of MarshalJSON.
func (d *Dumped) AppendJSON(b []byte) []byte {
	o := object{b}
	o.text(`{"Key":`, d.Key)
	o.text(`,"Descriptor":`, d.Descriptor)
	o.value(`,"Value":`, d.Value)
	if d.Metadata == nil {
		o.b = append(o.b, `,"Metadata":null`...)
	}
	o.metadata(`,"Metadata":`, d.Metadata)
	o.number(`,"Origin":`, int64(d.Origin))
	o.text(`,"State":`, d.State.String())
	return o.end()
}

func (d *Dumped) read(r *jsontext.Reader, value reading) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "Key":
			d.Key = r.String()
		case "Descriptor":
			d.Descriptor = r.String()
		case "Value":
			d.Value = value(r)
		case "Metadata":
			d.Metadata = r.Any()
		case "Origin":
			d.Origin = Origin(r.Int())
		case "State":
			d.State = readState(r)
		default:
			r.Skip()
		}
	})
}

// MarshalJSON returns the form in REST responses. The origin is a number, as agentctl expects. Metadata
// without a JSON form is a string.
func (d Dumped) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON, except that Metadata becomes plain JSON.
func (d *Dumped) UnmarshalJSON(b []byte) error {
	return unmarshal(b, d, func(r *jsontext.Reader, d *Dumped) { d.read(r, readMessage) })
}

// Dump is a list of dumped values. Decoding returns each Value as a RawValue.
type Dump []Dumped

// AppendJSON appends the result of MarshalJSON.
func (l Dump) AppendJSON(b []byte) []byte {
	return AppendList(b, l, func(b []byte, d *Dumped) []byte { return d.AppendJSON(b) })
}

// MarshalJSON returns the form in REST responses.
func (l Dump) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Dump) UnmarshalJSON(b []byte) error { return unmarshal(b, l, readDump) }

// ReadJSON is UnmarshalJSON, but retains the text instead of copying its parts.
func (l *Dump) ReadJSON(text string) error { return whole(jsontext.NewTextReader(text), l, readDump) }

func readDump(r *jsontext.Reader, l *Dump) {
	*l = longList(r, func(r *jsontext.Reader, d *Dumped) { d.read(r, readText) })
}

// ParseState returns the state with the name.
func ParseState(name string) (pb.ValueState, error) {
	if n, ok := pb.ValueState_value[name]; ok {
		return pb.ValueState(n), nil
	}
	return 0, fmt.Errorf("unknown state %q", name)
}

// ParseResync returns the resync type with the name.
func ParseResync(name string) (ResyncType, error) { return parseName(resyncNames, name, "resync type") }

func parseName[T comparable](names map[T]string, name, what string) (T, error) {
	for v, n := range names {
		if n == name {
			return v, nil
		}
	}
	var zero T
	return zero, fmt.Errorf("unknown %s %q", what, name)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
