package kvscheduler_test

import (
	"slices"
	"testing"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestUnmet(t *testing.T) {
	_, s := newGarden()
	defer s.Close()
	put := func(key, value string) {
		t.Helper()
		txn := s.NewTransaction()
		txn.Put(key, wrapperspb.String(value))
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("plant/rose", "south")
	if got, want := s.Unmet("plant/rose"), []kvscheduler.Need{{Label: "bed", Target: "bed/south"}}; !slices.Equal(got, want) {
		t.Errorf("a rose without a bed waits for %v, want %v", got, want)
	}
	put("bed/south", "sand")
	for _, key := range []string{"plant/rose", "bed/south", "plant/unknown"} {
		if got := s.Unmet(key); got != nil {
			t.Errorf("%s waits for %v", key, got)
		}
	}
}
