package inspect

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// AppendJSON writes all fields as encoding/json does.
func TestExplanationIsWrittenAsByReflection(t *testing.T) {
	full := &Explanation{
		Key: "a <b>", Summary: "it \"waits\"", Value: &record.Value{Key: "a", State: pb.ValueState_PENDING},
		Needs: []ExplainedNeed{{Need: record.Need{Label: "l", Target: "x"}, Waiting: []KeyState{{"x", pb.ValueState_FAILED}}}},
		Cycle: []string{"a"}, NeededBy: []string{"b"}, NextRetry: time.Unix(1, 5).UTC(), Similar: []string{"c"},
	}
	for i := range reflect.TypeFor[Explanation]().NumField() {
		if reflect.ValueOf(full).Elem().Field(i).IsZero() {
			t.Errorf("the test does not fill %s", reflect.TypeFor[Explanation]().Field(i).Name)
		}
	}
	type plain Explanation
	for _, e := range []*Explanation{full, {}} {
		want, err := json.Marshal((*plain)(e))
		if err != nil {
			t.Fatal(err)
		}
		var got, expected plain
		if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want, &expected); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, expected) {
			t.Errorf("%+v, expected %+v", got, expected)
		}
	}
}
