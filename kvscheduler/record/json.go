package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
)

// RawValue stands for a decoded value whose message type is not linked into
// the program that decodes it.
type RawValue struct {
	emptypb.Empty
	Name string // of the message type
	JSON string // its protojson
}

// jsonValue is a value in JSON: the name of its message and its protojson text.
type jsonValue struct{ proto.Message }

type jsonValueForm struct {
	ProtoMsgName string
	ProtoMsgData json.RawMessage
}

func (v jsonValue) MarshalJSON() ([]byte, error) {
	if v.Message == nil {
		return []byte("null"), nil
	}
	if raw, ok := v.Message.(*RawValue); ok {
		if strings.HasPrefix(raw.JSON, "{") && json.Valid([]byte(raw.JSON)) && protoreflect.FullName(raw.Name).IsValid() {
			return namedValue(raw.Name, raw.JSON), nil
		}
		return textValue(raw.Name, raw.JSON)
	}
	name, text := string(v.ProtoReflect().Descriptor().FullName()), Compact(v.Message)
	if !strings.HasPrefix(text, "{") {
		return textValue(name, text)
	}
	return namedValue(name, text), nil
}

// namedValue is what jsonValueForm looks like without spaces.
func namedValue(name, object string) []byte {
	return slices.Concat([]byte(nameBegin+name+dataBegin), []byte(object), []byte("}"))
}

// What jsonValueForm looks like without spaces.
const (
	nameBegin = `{"ProtoMsgName":"`
	dataBegin = `","ProtoMsgData":`
)

// textValue is for what is no JSON object.
func textValue(name, text string) ([]byte, error) {
	data, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(jsonValueForm{name, data})
}

// cutValue takes JSON without spaces apart, as long answers have it, without another look at all of it.
func cutValue(b []byte) (form jsonValueForm, ok bool) {
	rest, begins := bytes.CutPrefix(b, []byte(nameBegin))
	name, data, found := bytes.Cut(rest, []byte(dataBegin))
	data, ends := bytes.CutSuffix(data, []byte("}"))
	return jsonValueForm{string(name), data}, begins && found && ends
}

func (v *jsonValue) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		v.Message = nil
		return nil
	}
	form, ok := cutValue(b)
	if !ok {
		if err := json.Unmarshal(b, &form); err != nil {
			return err
		}
	}
	text := []byte(form.ProtoMsgData)
	if len(text) > 0 && text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		text = []byte(s)
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(form.ProtoMsgName))
	if err != nil {
		v.Message = &RawValue{Name: form.ProtoMsgName, JSON: string(text)}
		return nil
	}
	m := mt.New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m); err != nil {
		return fmt.Errorf("value of type %s: %w", form.ProtoMsgName, err)
	}
	v.Message = m
	return nil
}

type keyValueForm struct {
	Key   string
	Value jsonValue
	// Origin is that of the values of transactions, a number as in dumps.
	Origin Origin `json:",omitempty"`
}

// MarshalJSON writes {"Key", "Value": {"ProtoMsgName", "ProtoMsgData"}}.
func (kv KeyValue) MarshalJSON() ([]byte, error) {
	return json.Marshal(keyValueForm{Key: kv.Key, Value: jsonValue{kv.Value}})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (kv *KeyValue) UnmarshalJSON(b []byte) error {
	var form keyValueForm
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	kv.Key, kv.Value = form.Key, form.Value.Message
	return nil
}

type opForm struct {
	Operation  string
	Key        string
	Descriptor string `json:",omitempty"`
	NewState   string
	NewValue   jsonValue
	NewErrMsg  string `json:",omitempty"`
	PrevState  string
	PrevValue  jsonValue
	PrevErrMsg string        `json:",omitempty"`
	NOOP       bool          `json:",omitempty"`
	IsDerived  bool          `json:",omitempty"`
	IsProperty bool          `json:",omitempty"`
	IsRevert   bool          `json:",omitempty"`
	IsRetry    bool          `json:",omitempty"`
	IsRecreate bool          `json:",omitempty"`
	Duration   time.Duration `json:",omitempty"`
}

func (op Op) form() opForm {
	return opForm{
		Operation: op.Operation.String(), Key: op.Key, Descriptor: op.Descriptor,
		NewState: op.NewState.String(), NewValue: jsonValue{op.NewValue}, NewErrMsg: message(op.NewErr),
		PrevState: op.PrevState.String(), PrevValue: jsonValue{op.PrevValue}, PrevErrMsg: message(op.PrevErr),
		NOOP: op.NOOP, IsDerived: op.IsDerived, IsProperty: op.IsProperty, IsRevert: op.IsRevert,
		IsRetry: op.IsRetry, IsRecreate: op.IsRecreate, Duration: op.Duration,
	}
}

// MarshalJSON writes states and operations as strings, values as KeyValue does.
func (op Op) MarshalJSON() ([]byte, error) { return json.Marshal(op.form()) }

// UnmarshalJSON reads what MarshalJSON writes. Errors keep their text only.
func (op *Op) UnmarshalJSON(b []byte) error {
	var f opForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	operation, ok := pb.TxnOperation_value[f.Operation]
	if !ok {
		return fmt.Errorf("unknown operation %q", f.Operation)
	}
	newState, err := ParseState(f.NewState)
	if err != nil {
		return err
	}
	prevState, err := ParseState(f.PrevState)
	if err != nil {
		return err
	}
	*op = Op{
		Operation: pb.TxnOperation(operation), Key: f.Key, Descriptor: f.Descriptor,
		NewState: newState, NewValue: f.NewValue.Message, NewErr: errorOf(f.NewErrMsg),
		PrevState: prevState, PrevValue: f.PrevValue.Message, PrevErr: errorOf(f.PrevErrMsg),
		NOOP: f.NOOP, IsDerived: f.IsDerived, IsProperty: f.IsProperty, IsRevert: f.IsRevert,
		IsRetry: f.IsRetry, IsRecreate: f.IsRecreate, Duration: f.Duration,
	}
	return nil
}

type retrieveForm struct {
	Descriptor string
	Keys       []string `json:",omitempty"` // none: all
	MoreKeys   int      `json:",omitempty"`
	Found      int
	After      int
	Duration   time.Duration
	ErrMsg     string `json:",omitempty"`
}

// MarshalJSON writes the form in which REST serves the record.
func (r Retrieve) MarshalJSON() ([]byte, error) {
	return json.Marshal(retrieveForm{r.Descriptor, r.Keys, r.MoreKeys, r.Found, r.After, r.Duration, message(r.Err)})
}

// UnmarshalJSON reads what MarshalJSON writes. Errors keep their text only.
func (r *Retrieve) UnmarshalJSON(b []byte) error {
	var f retrieveForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = Retrieve{f.Descriptor, f.Keys, f.MoreKeys, f.Found, f.After, f.Duration, errorOf(f.ErrMsg)}
	return nil
}

type txnHead struct {
	SeqNum         uint64
	TxnType        string
	ResyncType     string
	Description    string
	RetryForTxn    uint64 `json:",omitempty"`
	RetryAttempt   int    `json:",omitempty"`
	Start, Stop    time.Time
	SouthboundTime time.Duration
}

// txnForm is a transaction, with operations as O.
type txnForm[O any] struct {
	txnHead
	Values    []keyValueForm
	Planned   []O `json:",omitempty"`
	Executed  []O
	Retrieved []Retrieve `json:",omitempty"`
}

// MarshalJSON writes the form in which REST serves the record.
func (t *Txn) MarshalJSON() ([]byte, error) {
	// In forms, since encoding/json looks through the output of each MarshalJSON once more.
	f := txnForm[opForm]{
		txnHead: txnHead{
			SeqNum: t.SeqNum, TxnType: t.Type.String(), ResyncType: t.Resync.String(), Description: t.Description,
			RetryForTxn: t.RetryForTxn, RetryAttempt: t.RetryAttempt, Start: t.Start, Stop: t.Stop, SouthboundTime: t.SouthboundTime,
		},
		Values: []keyValueForm{}, Planned: forms(t.Planned), Executed: forms(t.Executed), Retrieved: t.Retrieved,
	}
	origin := FromNB
	if t.Type == SBNotification {
		origin = FromSB
	}
	for _, kv := range t.Values {
		f.Values = append(f.Values, keyValueForm{kv.Key, jsonValue{kv.Value}, origin})
	}
	return json.Marshal(f)
}

func forms(ops []Op) []opForm {
	list := make([]opForm, len(ops))
	for i, op := range ops {
		list[i] = op.form()
	}
	return list
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Txn) UnmarshalJSON(b []byte) error {
	var f txnForm[Op]
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	head, err := f.txn()
	if err != nil {
		return err
	}
	for _, v := range f.Values {
		head.Values = append(head.Values, KeyValue{Key: v.Key, Value: v.Value.Message})
	}
	*t = head
	t.Planned, t.Executed, t.Retrieved = f.Planned, f.Executed, f.Retrieved
	return nil
}

// txn returns a transaction without values and operations.
func (f txnHead) txn() (t Txn, err error) {
	typ, err := parseName(txnTypeNames, f.TxnType, "transaction type")
	if err != nil {
		return t, err
	}
	resync, err := parseName(resyncNames, f.ResyncType, "resync type")
	return Txn{
		SeqNum: f.SeqNum, Type: typ, Resync: resync, Description: f.Description,
		RetryForTxn: f.RetryForTxn, RetryAttempt: f.RetryAttempt, Start: f.Start, Stop: f.Stop, SouthboundTime: f.SouthboundTime,
	}, err
}

// Outline is a transaction without the operations, and without values but, if it is a notification, their keys.
type Outline struct {
	Txn
	// Operations were executed; Failed of them failed.
	Operations, Failed int
}

// UnmarshalJSON reads what MarshalJSON of Txn writes, in a fraction of the time.
func (o *Outline) UnmarshalJSON(b []byte) error {
	var f struct {
		txnHead
		Values []struct {
			Key   string
			Value *struct{ ProtoMsgName string }
		}
		Executed []struct{ NewErrMsg string }
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	head, err := f.txn()
	if err != nil {
		return err
	}
	*o = Outline{Txn: head, Operations: len(f.Executed)}
	for _, op := range f.Executed {
		if op.NewErrMsg != "" {
			o.Failed++
		}
	}
	if head.Type != SBNotification {
		return nil
	}
	for _, v := range f.Values {
		kv := KeyValue{Key: v.Key}
		if v.Value != nil {
			kv.Value = &RawValue{Name: v.Value.ProtoMsgName, JSON: "{}"}
		}
		o.Values = append(o.Values, kv)
	}
	return nil
}

// String names the origin, as people know it.
func (o Origin) String() string {
	if name, ok := originNames[o]; ok {
		return name
	}
	return fmt.Sprintf("Origin(%d)", int(o))
}

var originNames = map[Origin]string{UnknownOrigin: "unknown", FromNB: "NB", FromSB: "SB"}

type dumpForm struct {
	Key        string
	Descriptor string
	Value      jsonValue
	Metadata   any
	Origin     Origin
	State      string
}

// MarshalJSON writes the form in which REST serves dumped values. The origin is
// a number, which is what agentctl reads; metadata that JSON cannot express is
// written as text.
func (d Dumped) MarshalJSON() ([]byte, error) {
	f := dumpForm{d.Key, d.Descriptor, jsonValue{d.Value}, d.Metadata, d.Origin, d.State.String()}
	if _, err := json.Marshal(f.Metadata); err != nil {
		f.Metadata = fmt.Sprintf("%+v", d.Metadata)
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON writes; Metadata becomes plain JSON.
func (d *Dumped) UnmarshalJSON(b []byte) error {
	var f dumpForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	state, err := ParseState(f.State)
	if err != nil {
		return err
	}
	*d = Dumped{f.Key, f.Descriptor, f.Value.Message, f.Metadata, f.Origin, state}
	return nil
}

// Status is a BaseValueStatus whose JSON is protojson.
type Status struct{ *pb.BaseValueStatus }

// Keys returns the keys of the value and of its derived values.
func (s Status) Keys() []string {
	keys := []string{s.GetValue().GetKey()}
	for _, d := range s.GetDerivedValues() {
		keys = append(keys, d.GetKey())
	}
	return keys
}

// StatusForm is the JSON of a Status. Long lists are written and read in this form: what a MarshalJSON returns is looked
// at once more, and what an UnmarshalJSON is given as well.
type StatusForm struct {
	Value         *valueStatusForm   `json:"value,omitempty"`
	DerivedValues []*valueStatusForm `json:"derived_values,omitempty"`
}

type valueStatusForm struct {
	Key           string   `json:"key,omitempty"`
	State         string   `json:"state,omitempty"`
	Error         string   `json:"error,omitempty"`
	LastOperation string   `json:"last_operation,omitempty"`
	Details       []string `json:"details,omitempty"`
}

// MarshalJSON writes what protojson would write with the names of the proto fields, in less time: there are many.
func (s Status) MarshalJSON() ([]byte, error) { return json.Marshal(s.Form()) }

// Form returns what MarshalJSON writes.
func (s Status) Form() (f StatusForm) {
	if s.BaseValueStatus.GetValue() != nil {
		f.Value = newValueStatusForm(s.Value)
	}
	for _, d := range s.GetDerivedValues() {
		f.DerivedValues = append(f.DerivedValues, newValueStatusForm(d))
	}
	return f
}

func newValueStatusForm(v *pb.ValueStatus) *valueStatusForm {
	f := &valueStatusForm{Key: v.GetKey(), Error: v.GetError(), Details: v.GetDetails()}
	if v.GetState() != 0 {
		f.State = v.GetState().String()
	}
	if v.GetLastOperation() != 0 {
		f.LastOperation = v.GetLastOperation().String()
	}
	return f
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Status) UnmarshalJSON(b []byte) error {
	var f StatusForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*s = f.Status()
	return nil
}

// Status returns what the form is of.
func (f StatusForm) Status() Status {
	s := Status{&pb.BaseValueStatus{}}
	if f.Value != nil {
		s.Value = f.Value.status()
	}
	for _, d := range f.DerivedValues {
		s.DerivedValues = append(s.DerivedValues, d.status())
	}
	return s
}

func (f *valueStatusForm) status() *pb.ValueStatus {
	return &pb.ValueStatus{
		Key: f.Key, State: pb.ValueState(pb.ValueState_value[f.State]), Error: f.Error,
		LastOperation: pb.TxnOperation(pb.TxnOperation_value[f.LastOperation]), Details: f.Details,
	}
}

// ParseState returns the state with the name.
func ParseState(name string) (pb.ValueState, error) {
	if n, ok := pb.ValueState_value[name]; ok {
		return pb.ValueState(n), nil
	}
	return 0, fmt.Errorf("unknown state %q", name)
}

// ParseResync returns the type of resync with the name that records have.
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
