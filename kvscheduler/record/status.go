package record

import (
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/lib/jsontext"
)

// Status is a BaseValueStatus with a fast JSON encoding.
type Status struct{ *pb.BaseValueStatus }

// Keys returns the keys of the value and its derived values.
func (s Status) Keys() []string {
	keys := []string{s.GetValue().GetKey()}
	for _, d := range s.GetDerivedValues() {
		keys = append(keys, d.GetKey())
	}
	return keys
}

// AppendJSON appends the result of MarshalJSON.
func (s *Status) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	begin := len(b)
	if s.GetValue() != nil {
		b = appendStatus(append(b, `"value":`...), s.GetValue())
	}
	if derived := s.GetDerivedValues(); len(derived) > 0 {
		if len(b) > begin {
			b = append(b, ',')
		}
		b = AppendList(append(b, `"derived_values":`...), derived, func(b []byte, v **pb.ValueStatus) []byte { return appendStatus(b, *v) })
	}
	return append(b, '}')
}

func appendStatus(b []byte, v *pb.ValueStatus) []byte {
	begin := len(b)
	o := object{b}
	o.some(`,"key":`, v.GetKey())
	if v.GetState() != 0 {
		o.text(`,"state":`, v.GetState().String())
	}
	o.some(`,"error":`, v.GetError())
	if v.GetLastOperation() != 0 {
		o.text(`,"last_operation":`, v.GetLastOperation().String())
	}
	o.texts(`,"details":`, v.GetDetails())
	if len(o.b) == begin {
		return append(o.b, "{}"...)
	}
	o.b[begin] = '{'
	return o.end()
}

func (s *Status) read(r *jsontext.Reader) {
	s.BaseValueStatus = &pb.BaseValueStatus{}
	r.Object(func(name []byte) {
		switch string(name) {
		case "value":
			s.Value = readStatus(r)
		case "derived_values":
			r.Array(func() { s.DerivedValues = append(s.DerivedValues, readStatus(r)) })
		default:
			r.Skip()
		}
	})
}

func readStatus(r *jsontext.Reader) *pb.ValueStatus {
	v := &pb.ValueStatus{}
	r.Object(func(name []byte) {
		switch string(name) {
		case "key":
			v.Key = r.String()
		case "state":
			v.State = pb.ValueState(pb.ValueState_value[r.String()])
		case "error":
			v.Error = r.String()
		case "last_operation":
			v.LastOperation = pb.TxnOperation(pb.TxnOperation_value[r.String()])
		case "details":
			v.Details = r.Strings()
		default:
			r.Skip()
		}
	})
	return v
}

// MarshalJSON returns the protojson with proto field names.
func (s Status) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Status) UnmarshalJSON(b []byte) error {
	return unmarshal(b, s, func(r *jsontext.Reader, s *Status) { s.read(r) })
}

// Statuses is a list of statuses.
type Statuses []Status

// AppendJSON appends the result of MarshalJSON.
func (l Statuses) AppendJSON(b []byte) []byte {
	return AppendList(b, l, func(b []byte, s *Status) []byte { return s.AppendJSON(b) })
}

// MarshalJSON returns the form in REST responses.
func (l Statuses) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Statuses) UnmarshalJSON(b []byte) error { return unmarshal(b, l, readStatuses) }

// ReadJSON is UnmarshalJSON, but retains the text instead of copying its parts.
func (l *Statuses) ReadJSON(text string) error {
	return whole(jsontext.NewTextReader(text), l, readStatuses)
}

func readStatuses(r *jsontext.Reader, l *Statuses) {
	*l = longList(r, func(r *jsontext.Reader, s *Status) { s.read(r) })
}
