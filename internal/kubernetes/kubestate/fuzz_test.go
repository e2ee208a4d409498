package kubestate

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// A value is refused, or unchanged after it was stored again.
func FuzzUnmarshal(f *testing.F) {
	f.Add(0, []byte(`{"name":"a","namespace":"b"}`))
	f.Add(1, []byte(`{"name":`))
	f.Add(2, []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		r := resources[uint(which)%uint(len(resources))]
		value, err := r.Unmarshal(data)
		if err != nil {
			return
		}
		stored, err := Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.Unmarshal(stored); err != nil || !proto.Equal(value, again) {
			t.Errorf("%s is read again as %v, %v", stored, again, err)
		}
	})
}
