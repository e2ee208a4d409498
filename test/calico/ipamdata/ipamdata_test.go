package ipamdata

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/calico/datastore"
)

func TestDecodes(t *testing.T) {
	for text, key := range map[string]string{
		"10.66.0.64/26": "/calico/ipam/v2/assignment/ipv4/block/10.66.0.64-26",
		"fd66::40/122":  "/calico/ipam/v2/assignment/ipv6/block/fd66::40-122",
	} {
		cidr := netip.MustParsePrefix(text)
		if got := BlockKey(cidr); got != key {
			t.Errorf("key %s, want %s", got, key)
		}
		free, ok := Free(cidr, nil)
		if !ok || Ordinal(cidr, free) != 1 {
			t.Errorf("free address %s, ordinal %d", free, Ordinal(cidr, free))
		}
		b, ok, err := datastore.DecodeBlock(Block{cidr, "w1", map[int]Use{0: {Node: "w1"}, 1: {Node: "w2"}, 63: {Node: "w3"}}}.JSON())
		if err != nil || !ok || b.CIDR != cidr || b.Host != "w1" || len(b.Borrowed) != 2 || b.Borrowed[free] != "w2" {
			t.Errorf("decoded as %+v, %v, %v", b, ok, err)
		}
		state := datastore.NewState()
		tree, err := datastore.ParseTree(datastore.DefaultTree)
		if err != nil {
			t.Fatal(err)
		}
		if !state.Apply(tree, AffinityKey("w1", cidr), Affinity(Confirmed)) || len(state.Affinities) != 1 {
			t.Errorf("the affinity is read as %+v", state.Affinities)
		}
	}
}

func TestFullBlock(t *testing.T) {
	cidr := netip.MustParsePrefix("10.66.0.0/30")
	if a, ok := Free(cidr, []netip.Addr{netip.MustParseAddr("10.66.0.1"), netip.MustParseAddr("10.66.0.2")}); ok {
		t.Errorf("%s is free", a)
	}
}
