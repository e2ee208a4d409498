package record

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// fill sets all fields to nonzero values.
func fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		*value = time.Date(2026, 11, 26, 13, 30, 0, 1000, time.UTC)
		return
	case *time.Duration:
		*value = 1500 * time.Microsecond
		return
	case *proto.Message:
		*value = &pb.ValueStatus{Key: "config/x"}
		return
	case *error:
		*value = errors.New("no <route> to \"x\"")
		return
	case *any:
		*value = map[string]any{"SwIfIndex": 7.0}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a \"b\" <c> ä\n" + path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(2)
	case reflect.Uint64:
		v.SetUint(1 << 60)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(t, v.Field(i), path+"."+f.Name)
			}
		}
	default:
		t.Fatalf("%s: nothing fills %v", path, v.Type())
	}
}

// same compares the contents of errors and messages.
func same(a, b reflect.Value) bool {
	switch x := a.Interface().(type) {
	case proto.Message:
		y, _ := b.Interface().(proto.Message)
		return proto.Equal(x, y)
	case error:
		y, is := b.Interface().(error)
		return is && x.Error() == y.Error()
	case time.Time:
		return x.Equal(b.Interface().(time.Time))
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// Each field of each record is written and read. The test fails for new fields that are not.
func TestAllFieldsAreWrittenAndRead(t *testing.T) {
	for _, record := range []any{
		&Txn{}, &Op{}, &Retrieve{}, &KeyValue{}, &Value{}, &Revision{}, &Diff{}, &Change{}, &Dumped{},
	} {
		kind := reflect.TypeOf(record).Elem()
		want := reflect.ValueOf(record)
		fill(t, want.Elem(), kind.Name())
		data, err := json.Marshal(record)
		if err != nil {
			t.Errorf("%v: %v", kind, err)
			continue
		}
		got := reflect.New(kind)
		if err := json.Unmarshal(data, got.Interface()); err != nil {
			t.Errorf("%v: %v in %s", kind, err, data)
			continue
		}
		differs(t, kind.Name(), want.Elem(), got.Elem())
	}
}

// differs reports the first different fields.
func differs(t *testing.T, path string, want, got reflect.Value) {
	t.Helper()
	if same(want, got) {
		return
	}
	if want.Kind() == reflect.Slice && want.Len() == got.Len() {
		for i := range want.Len() {
			differs(t, path, want.Index(i), got.Index(i))
		}
		return
	}
	if _, isTime := want.Interface().(time.Time); want.Kind() == reflect.Struct && !isTime {
		for i := range want.NumField() {
			if f := want.Type().Field(i); f.IsExported() {
				differs(t, path+"."+f.Name, want.Field(i), got.Field(i))
			}
		}
		return
	}
	t.Errorf("%s: wrote %v, read %v", path, want.Interface(), got.Interface())
}

// ReadJSON reads the same lists as UnmarshalJSON.
func TestListsAreReadFromTexts(t *testing.T) {
	var dumped Dumped
	fill(t, reflect.ValueOf(&dumped).Elem(), "Dumped")
	value := &Value{}
	fill(t, reflect.ValueOf(value).Elem(), "Value")
	status := Status{&pb.BaseValueStatus{Value: &pb.ValueStatus{Key: "a", State: pb.ValueState_FAILED, Error: "no \"way\""}}}
	type list interface {
		UnmarshalJSON([]byte) error
		ReadJSON(string) error
	}
	for _, c := range []struct {
		written     any
		first, then list
	}{
		{Dump{dumped, dumped}, &Dump{}, &Dump{}},
		{Values{value}, &Values{}, &Values{}},
		{Diffs{{Key: "a", From: value}, {Key: "b", To: value}}, &Diffs{}, &Diffs{}},
		{Statuses{status}, &Statuses{}, &Statuses{}},
	} {
		data, err := json.Marshal(c.written)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.first.UnmarshalJSON(data); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if err := c.then.ReadJSON(string(data)); err != nil || reflect.ValueOf(c.then).Elem().Len() == 0 || !same(reflect.ValueOf(c.first), reflect.ValueOf(c.then)) {
			t.Errorf("%v: %+v, not %+v", err, c.then, c.first)
		}
		if err := c.then.ReadJSON(string(data[1:])); err == nil {
			t.Errorf("%s is read", data[1:])
		}
	}
}
