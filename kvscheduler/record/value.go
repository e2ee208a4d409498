package record

import (
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"google.golang.org/protobuf/proto"
)

// Value is a value at one moment.
type Value struct {
	Key        string
	Descriptor string // empty for properties
	Base       string // for derived values
	// Want is the requested version, Have the existing one as far as known. Either may be nil.
	Want, Have    proto.Message
	Metadata      any
	State         pb.ValueState
	Origin        Origin
	LastOperation pb.TxnOperation
	Error         string
	Details       []string
	Derived       []string
	// Needs are the dependencies in the order of the descriptor.
	Needs []Need
	// Matching are the first 16 existing keys that match each AnyOf of Needs, by its label. They are
	// only set in graphs.
	Matching []Need
	// Txn is the transaction that last changed the value.
	Txn uint64
}

// Need is a dependency in a snapshot.
type Need struct{ Label, Target string }

// Name returns the needed key, or the first prefix of an AnyOf.
func (n Need) Name() string {
	rest, several := strings.CutPrefix(n.Target, AnyOf)
	if !several {
		return n.Target
	}
	first, _, _ := strings.Cut(rest, "* ")
	return strings.TrimSuffix(first, "*")
}

// AnyOf is the prefix of the Target of an AnyOf dependency.
const AnyOf = "any of "

// Revision is a value during a time in which it did not change.
type Revision struct {
	// Txn is the transaction that created the revision.
	Txn uint64
	// Since is the end of that transaction, Until the end of the transaction that created the next
	// revision. Until is zero for the current revision.
	Since, Until time.Time
	// Value is nil if the value did not exist.
	Value *Value
}

// Diff is the difference of a value between two moments.
type Diff struct {
	Key string
	// From is nil if the value did not exist at first, To if it did not exist later.
	From, To *Value
}

// Change is the effect of a transaction on a value.
type Change struct {
	Key string
	// Value is nil if the value was removed.
	Value *Value `json:",omitempty"`
	// Silent changes are irrelevant to users: the value was read back in an equivalent form.
	Silent bool `json:",omitempty"`
}

// AppendJSON appends the result of MarshalJSON.
func (v *Value) AppendJSON(b []byte) []byte {
	o := object{b}
	o.text(`{"Key":`, v.Key)
	o.some(`,"Descriptor":`, v.Descriptor)
	o.some(`,"Base":`, v.Base)
	begin := len(o.b) + len(`,"Want":`)
	o.value(`,"Want":`, v.Want)
	if want := o.b[begin:]; v.Have == v.Want { // usually
		o.b = append(append(o.b, `,"Have":`...), want...)
	} else {
		o.value(`,"Have":`, v.Have)
	}
	o.metadata(`,"Metadata":`, v.Metadata)
	o.text(`,"State":`, v.State.String())
	o.text(`,"Origin":`, v.Origin.String())
	o.text(`,"LastOperation":`, v.LastOperation.String())
	o.some(`,"Error":`, v.Error)
	o.texts(`,"Details":`, v.Details)
	o.texts(`,"Derived":`, v.Derived)
	o.needs(`,"Needs":`, v.Needs)
	o.needs(`,"Matching":`, v.Matching)
	o.unsigned(`,"Txn":`, v.Txn)
	return o.end()
}

func (o *object) needs(name string, needs []Need) {
	if len(needs) == 0 {
		return
	}
	o.b = AppendList(append(o.b, name...), needs, func(b []byte, n *Need) []byte {
		b = jsontext.AppendString(append(b, `{"Label":`...), n.Label)
		return append(jsontext.AppendString(append(b, `,"Target":`...), n.Target), '}')
	})
}

func (v *Value) read(r *jsontext.Reader, value reading) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "Key":
			v.Key = r.String()
		case "Descriptor":
			v.Descriptor = r.String()
		case "Base":
			v.Base = r.String()
		case "Want":
			v.Want = value(r)
		case "Have":
			v.Have = value(r)
		case "Metadata":
			v.Metadata = r.Any()
		case "State":
			v.State = readState(r)
		case "Origin":
			v.Origin = readName(r, originNames, "origin")
		case "LastOperation":
			v.LastOperation = pb.TxnOperation(pb.TxnOperation_value[r.String()])
		case "Error":
			v.Error = r.String()
		case "Details":
			v.Details = r.Strings()
		case "Derived":
			v.Derived = r.Strings()
		case "Needs":
			v.Needs = readNeeds(r)
		case "Matching":
			v.Matching = readNeeds(r)
		case "Txn":
			v.Txn = r.Uint()
		default:
			r.Skip()
		}
	})
}

func readNeeds(r *jsontext.Reader) (needs []Need) {
	r.Array(func() {
		var n Need
		r.Object(func(name []byte) {
			switch string(name) {
			case "Label":
				n.Label = r.String()
			case "Target":
				n.Target = r.String()
			default:
				r.Skip()
			}
		})
		needs = append(needs, n)
	})
	return needs
}

// MarshalJSON encodes states as strings, and values like KeyValue.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(b []byte) error {
	return unmarshal(b, v, func(r *jsontext.Reader, v *Value) { v.read(r, readMessage) })
}

// Values is a list of values. Decoding returns each Want and Have as a RawValue.
type Values []*Value

// AppendJSON appends the result of MarshalJSON.
func (l Values) AppendJSON(b []byte) []byte {
	return AppendList(b, l, func(b []byte, v **Value) []byte { return (*v).AppendJSON(b) })
}

// MarshalJSON returns the form in REST responses.
func (l Values) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Values) UnmarshalJSON(b []byte) error { return unmarshal(b, l, readValues) }

// ReadJSON is UnmarshalJSON, but retains the text instead of copying its parts.
func (l *Values) ReadJSON(text string) error {
	return whole(jsontext.NewTextReader(text), l, readValues)
}

func readValues(r *jsontext.Reader, l *Values) {
	*l = longList(r, func(r *jsontext.Reader, v **Value) { *v = readValueText(r) })
}

// readValueText reads a value with RawValues, or returns nil for null.
func readValueText(r *jsontext.Reader) *Value {
	if r.Null() {
		return nil
	}
	v := &Value{}
	v.read(r, readText)
	return v
}

// Diffs is a list of differences. Decoding returns RawValues, as for Values.
type Diffs []Diff

// AppendJSON appends the result of MarshalJSON.
func (l Diffs) AppendJSON(b []byte) []byte {
	return AppendList(b, l, func(b []byte, d *Diff) []byte {
		o := object{b}
		o.text(`{"Key":`, d.Key)
		o.b = appendOptional(append(o.b, `,"From":`...), d.From)
		o.b = appendOptional(append(o.b, `,"To":`...), d.To)
		return o.end()
	})
}

func appendOptional(b []byte, v *Value) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return v.AppendJSON(b)
}

// MarshalJSON returns the form in REST responses.
func (l Diffs) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Diffs) UnmarshalJSON(b []byte) error { return unmarshal(b, l, readDiffs) }

// ReadJSON is UnmarshalJSON, but retains the text instead of copying its parts.
func (l *Diffs) ReadJSON(text string) error { return whole(jsontext.NewTextReader(text), l, readDiffs) }

func readDiffs(r *jsontext.Reader, l *Diffs) {
	*l = longList(r, func(r *jsontext.Reader, d *Diff) {
		r.Object(func(name []byte) {
			switch string(name) {
			case "Key":
				d.Key = r.String()
			case "From":
				d.From = readValueText(r)
			case "To":
				d.To = readValueText(r)
			default:
				r.Skip()
			}
		})
	})
}

// Dumped is one value of a dump.
type Dumped struct {
	Key        string
	Descriptor string
	Value      proto.Message
	Metadata   any
	Origin     Origin
	State      pb.ValueState
}
