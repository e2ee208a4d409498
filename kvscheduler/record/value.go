package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Value is a value at one moment.
type Value struct {
	Key        string
	Descriptor string // empty for properties
	Base       string // for derived values
	// Want is the requested value, Have the existing one as far as known; either may be nil.
	Want, Have    proto.Message
	Metadata      any
	State         pb.ValueState
	Origin        Origin
	LastOperation pb.TxnOperation
	Error         string
	Details       []string
	Derived       []string
	// Needs are the dependencies, by label; an AnyOf is rendered as text.
	Needs []Need
	// Matching are, in a graph, the existing keys that match an AnyOf of Needs, by its label;
	// the first 16 of each.
	Matching []Need
	// Txn is the transaction that changed the value last.
	Txn uint64
}

// Need is a dependency in a snapshot.
type Need struct{ Label, Target string }

// Name is the key that is needed, or the first prefix of those of which any is.
func (n Need) Name() string {
	rest, several := strings.CutPrefix(n.Target, AnyOf)
	if !several {
		return n.Target
	}
	first, _, _ := strings.Cut(rest, "* ")
	return strings.TrimSuffix(first, "*")
}

// AnyOf begins the Target of a Need that one of several keys satisfies.
const AnyOf = "any of "

// Revision is a value over a time during which it did not change.
type Revision struct {
	// Txn is the transaction that led to it.
	Txn uint64
	// Since and Until are the end of that transaction and of the next one that
	// changed the value. Until is zero for the present.
	Since, Until time.Time
	// Value is nil while there was none.
	Value *Value
}

// Diff is a value that differs between two moments.
type Diff struct {
	Key string
	// From is nil if the value did not exist, To if it no longer does.
	From, To *Value
}

// Change is what a transaction made of a value.
type Change struct {
	Key string
	// Value is nil if there is none any more.
	Value *Value `json:",omitempty"`
	// Silent changes are no news: the value was merely read back in another form.
	Silent bool `json:",omitempty"`
}

// ValueForm is the JSON of a Value, for long lists: see StatusForm.
type ValueForm struct {
	Key           string
	Descriptor    string `json:",omitempty"`
	Base          string `json:",omitempty"`
	Want          jsonValue
	Have          jsonValue
	Metadata      any `json:",omitempty"`
	State         string
	Origin        string
	LastOperation string
	Error         string   `json:",omitempty"`
	Details       []string `json:",omitempty"`
	Derived       []string `json:",omitempty"`
	Needs         []Need   `json:",omitempty"`
	Matching      []Need   `json:",omitempty"`
	Txn           uint64
}

// MarshalJSON writes states as strings and values as KeyValue does.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.Form()) }

// Form returns what MarshalJSON writes.
func (v Value) Form() ValueForm {
	f := ValueForm{
		v.Key, v.Descriptor, v.Base, jsonValue{v.Want}, jsonValue{v.Have}, v.Metadata, v.State.String(), v.Origin.String(),
		v.LastOperation.String(), v.Error, v.Details, v.Derived, v.Needs, v.Matching, v.Txn,
	}
	if f.Metadata != nil {
		if _, err := json.Marshal(f.Metadata); err != nil {
			f.Metadata = fmt.Sprintf("%+v", v.Metadata)
		}
	}
	return f
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(b []byte) error {
	var f ValueForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	of, err := f.Value()
	if err != nil {
		return err
	}
	*v = *of
	return nil
}

// Value returns what the form is of.
func (f ValueForm) Value() (*Value, error) {
	state, err := ParseState(f.State)
	if err != nil {
		return nil, err
	}
	origin, err := parseName(originNames, f.Origin, "origin")
	if err != nil {
		return nil, err
	}
	return &Value{
		f.Key, f.Descriptor, f.Base, f.Want.Message, f.Have.Message, f.Metadata, state, origin,
		pb.TxnOperation(pb.TxnOperation_value[f.LastOperation]), f.Error, f.Details, f.Derived, f.Needs, f.Matching, f.Txn,
	}, nil
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
