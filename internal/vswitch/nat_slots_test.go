package vswitch

import (
	"fmt"
	"slices"
	"testing"
)

func TestSlots(t *testing.T) {
	for _, test := range []struct {
		probabilities []uint32
		want          map[int]int // slots of backends
	}{
		{nil, map[int]int{}},
		{[]uint32{0}, map[int]int{0: 1}},
		{[]uint32{0, 0}, map[int]int{0: 1, 1: 1}},
		{[]uint32{5, 5, 5}, map[int]int{0: 1, 1: 1, 2: 1}},
		{[]uint32{100, 300, 0}, map[int]int{0: 1, 1: 3}},
		{[]uint32{1, 1 << 31}, map[int]int{0: 1, 1: 1023}},
		{[]uint32{1 << 31, 1<<31 + 1}, map[int]int{0: 512, 1: 512}},
	} {
		got := map[int]int{}
		for _, backend := range Slots(test.probabilities) {
			got[backend]++
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v: got %v, want %v", test.probabilities, got, test.want)
		}
	}
	if many := Slots(slices.Repeat([]uint32{3, 1 << 30}, 1000)); len(many) != 2000 {
		t.Errorf("2000 backends share %d slots", len(many))
	}
}
