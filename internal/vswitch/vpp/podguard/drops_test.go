package podguard

import (
	"errors"
	"maps"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
)

// Output of VPP 25.10: keys of more than 32 bytes take several lines.
const shown = `  TableIdx  Sessions   NextTbl  NextNode
         7         5         8         0
  Heap: base 0x7f74199f9000, size 256k, locked, unmap-on-destroy, name 'classify'
          page stats: page-size 4K, total 64, mapped 2, not-mapped 0, unknown 62
            numa 0: 2 pages, 8k bytes
          total: 255.95K, used: 1.94K, free: 254.02K, trimmable: 253.70K
  nbuckets 8, skip 1 match 3 flag 0 offset 0
  mask 00000000: 00000000ff000000000000000000000000000000000000000000000000000000
       00000020: 000000000000ff00ff0000000000ff00
  linear-search buckets 0

[0]: heap offset 1472, elts 2, normal
    0: [1472]: next_index 0 advance 0 opaque 1073741862 action 0 metadata 0
        k: 00000000: 000000002c000000000000000000000000000000000000000000000000000000
           00000020: 0000000000003a000000000000008600
        hits 12, last_heard 0.00
    1: [1472]: next_index 0 advance 0 opaque -1 action 0 metadata 0
        k: 01010101000000000000000000000000
        hits 99, last_heard 17.25

[1]: heap offset 1216, elts 2, normal
    0: [1216]: next_index 2 advance 14 opaque 1073741856 action 0 metadata 0
        k: 01010101000000000000000000000000
        hits 7, last_heard 17.25
    1: [1216]: next_index 0 advance 0 opaque 1073741862 action 0 metadata 0
        k: 01010101000000000000000000000000
        hits 30, last_heard 17.25

    4 active elements
`

func TestCountsAsVPPShowsThem(t *testing.T) {
	counts := map[vswitch.DropReason]uint64{vswitch.DropND: 100}
	if err := addCounts(counts, shown); err != nil {
		t.Fatal(err)
	}
	if want := map[vswitch.DropReason]uint64{vswitch.DropND: 142}; !maps.Equal(counts, want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
	if err := addCounts(counts, "No classifier tables configured\n"); !errors.Is(err, errNoCount) {
		t.Errorf("of an answer without counts: %v, want %v", err, errNoCount)
	}
}
