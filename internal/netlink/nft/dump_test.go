package nft

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listings answers each dump of a set with the next list of keys.
type listings struct{ lists [][]string }

func (l *listings) Commit([]netlink.Message) error { return nil }
func (l *listings) Close()                         {}

func (l *listings) Ask(_, _ uint16, _ []byte, each func([]byte)) error {
	elements := nl.NewRtAttr(unix.NLA_F_NESTED|nftaListElements, nil)
	for _, key := range l.lists[0] {
		element := elements.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, nil)
		element.AddRtAttr(unix.NLA_F_NESTED|nftaElementKey, nil).AddRtAttr(nftaDataValue, []byte(key))
		counter := element.AddRtAttr(unix.NLA_F_NESTED|nftaElementExpr, nil)
		counter.AddRtAttr(unix.NFTA_EXPR_NAME, nl.ZeroTerminated("counter"))
		counter.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_EXPR_DATA, nil).
			AddRtAttr(unix.NFTA_COUNTER_PACKETS, binary.BigEndian.AppendUint64(nil, 7))
	}
	l.lists = l.lists[1:]
	each(append(make([]byte, sizeofNfgenmsg), elements.Serialize()...))
	return nil
}

// A set that is being resized is listed with some elements twice, and without as many others.
func TestSetsAreListedUntilComplete(t *testing.T) {
	lists := [][]string{{"aaaa", "bbbb", "aaaa"}, {"aaaa", "cccc", "bbbb"}}
	want := []string{"aaaa", "bbbb", "cccc"}
	elements, err := New(&listings{lists}).Elements(unix.NFPROTO_INET, "t", "s")
	must(t, err)
	var keys []string
	for _, e := range elements {
		keys = append(keys, e.Key)
	}
	if !slices.Equal(keys, want) {
		t.Errorf("elements %v, want %v", keys, want)
	}
	counters, err := New(&listings{lists}).Packets(unix.NFPROTO_INET, "t", "s")
	must(t, err)
	if !slices.Equal(slices.Sorted(maps.Keys(counters)), want) || counters["cccc"] != 7 {
		t.Errorf("counters %v, want 7 of each of %v", counters, want)
	}
}
