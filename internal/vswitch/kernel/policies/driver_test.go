package policies

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"google.golang.org/protobuf/proto"
)

type calm struct {
	generation uint32
	fail       error
}

func (c *calm) Locked(fn func() error) error { return fn() }

func (c *calm) Commit(...*nft.Batch) error {
	if c.fail != nil {
		return c.fail
	}
	c.generation++
	return nil
}

func (c *calm) ReadTable(byte, string) (*nft.Table, uint32, error) { return nil, c.generation, nil }

func (c *calm) Packets(byte, string, string) (map[string]uint64, error) { return nil, nil }

func (c *calm) Unchanged(_ string, since uint32) (uint32, bool) {
	return c.generation, since == c.generation
}

func (c *calm) Foreign([]nft.Change, ...string) (string, bool) { return "", false }

func noConnections(uint32, func(uint32) bool) error { return nil }

func calmDriver() *Driver {
	return New(&calm{generation: 1}, noConnections, slog.New(slog.DiscardHandler))
}

func addressSetOf(n int) *contiv_filter.AddressSet {
	return &contiv_filter.AddressSet{Name: fmt.Sprint("set", n), Addresses: []string{fmt.Sprintf("10.1.%d.%d", n/250, n%250)}}
}

func listOf(n, set int) *contiv_filter.AccessList {
	return &contiv_filter.AccessList{Name: fmt.Sprint("list", n), Rules: []*contiv_filter.AccessList_Rule{{AddressSets: []string{fmt.Sprint("set", set)}}}}
}

func subjectOf(n int, lists ...int) *contiv_filter.Subject {
	stage := &contiv_filter.Subject_Stage{Deny: true}
	for _, l := range lists {
		stage.Lists = append(stage.Lists, fmt.Sprint("list", l))
	}
	return &contiv_filter.Subject{Name: fmt.Sprint("pod", n), Addresses: []string{fmt.Sprintf("10.2.%d.%d", n/250, n%250)}, Ingress: []*contiv_filter.Subject_Stage{stage}}
}

func TestNothingUnneededStays(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		d := calmDriver()
		for step := range 60 {
			var value proto.Message
			switch random.IntN(3) {
			case 0:
				value = addressSetOf(random.IntN(3))
			case 1:
				value = listOf(random.IntN(3), random.IntN(4))
			default:
				s := subjectOf(random.IntN(3), random.IntN(3), random.IntN(4))
				s.Addresses = []string{fmt.Sprintf("10.2.0.%d", random.IntN(4))}
				value = s
			}
			do := d.Set
			if random.IntN(3) == 0 {
				do = d.Remove
			}
			if err := do(t.Context(), value); err != nil {
				t.Fatal(err)
			}
			if list := newEdit(d).unneeded(); d.have.exists && len(list) > 0 {
				t.Fatalf("seed %d, step %d: %q is in the table without need", seed, step, list)
			}
			for object := range d.want.needed {
				if d.have.sets[object] == nil && d.have.chains[object] == nil {
					t.Fatalf("seed %d, step %d: %q is needed, and is not in the table", seed, step, object)
				}
			}
			if needed := len(d.want.needed) > 0; d.have.isIntact() != needed || d.have.isRetired() != (d.have.exists && !needed) {
				t.Fatalf("seed %d, step %d: the table is intact: %v, retired: %v, and %d objects are needed", seed, step, d.have.isIntact(), d.have.isRetired(), len(d.want.needed))
			}
		}
	}
}

// BenchmarkPodComesAndGoes measures the driver's cost per pod, without the kernel, among other pods
// that have a policy and an address set each.
func BenchmarkPodComesAndGoes(b *testing.B) {
	for _, others := range []int{1, 100, 5000} {
		b.Run(fmt.Sprint("beside ", others), func(b *testing.B) {
			d := calmDriver()
			var values []proto.Message
			for n := range others {
				values = append(values, addressSetOf(n), listOf(n, n), subjectOf(n, n))
			}
			if err := d.Set(b.Context(), values...); err != nil {
				b.Fatal(err)
			}
			pod := subjectOf(others, 0)
			for b.Loop() {
				if err := d.Set(b.Context(), pod); err != nil {
					b.Fatal(err)
				}
				if err := d.Remove(b.Context(), pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A value that failed to be set is not wanted: its caller will not remove it.
func TestWhatFailedIsNotWanted(t *testing.T) {
	kernel := &calm{generation: 1}
	d := New(kernel, noConnections, slog.New(slog.DiscardHandler))
	stays, fails := subjectOf(1), subjectOf(2, 1)
	fails.Addresses = append(fails.Addresses, stays.Addresses...)
	if err := d.Set(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	before := d.want.clone()
	kernel.fail = errors.New("no")
	if err := errors.Join(d.Set(t.Context(), fails, listOf(1, 1)), d.Set(t.Context(), addressSetOf(1))); err == nil {
		t.Fatal("nothing failed")
	}
	if !reflect.DeepEqual(before, d.want) {
		t.Errorf("wanted is %v, before it was %v", d.want, before)
	}
	kernel.fail = nil
	if err := d.Remove(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	if len(d.want.at) != 0 || len(d.want.subjects) != 0 {
		t.Errorf("still wanted: %v", d.want)
	}
}

type noting struct {
	calm
	packets map[string]map[string]uint64
}

func (n *noting) Packets(_ byte, _, set string) (map[string]uint64, error) {
	return n.packets[set], nil
}

func TestDenialsOfBothVersions(t *testing.T) {
	client, server := netip.MustParseAddr("fd10::2"), netip.MustParseAddr("fd10::3")
	key := addressKey(client) + addressKey(server) + string([]byte{6, 0, 0, 0, 0, 80, 0, 0})
	kernel := &noting{calm{generation: 1}, map[string]map[string]uint64{
		"isolated-in6": {addressKey(server): 7}, "denied-out4": {addressKey(netip.MustParseAddr("10.1.1.2")): 2}, "flows6": {key: 3},
	}}
	d, err := New(kernel, noConnections, slog.New(slog.DiscardHandler)).Denials(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(d.Subjects, func(a, b policyrules.DeniedSubject) int { return a.Address.Compare(b.Address) })
	if want := []policyrules.DeniedSubject{
		{Address: netip.MustParseAddr("10.1.1.2"), Direction: contiv_filter.AccessList_EGRESS, ByRule: true, Packets: 2}, {Address: server, Packets: 7},
	}; !slices.Equal(d.Subjects, want) {
		t.Errorf("subjects %+v, want %+v", d.Subjects, want)
	}
	if want := []policyrules.DeniedFlow{{Src: client, Dst: server, Protocol: 6, Port: 80, Packets: 3}}; !slices.Equal(d.Flows, want) {
		t.Errorf("flows %+v, want %+v", d.Flows, want)
	}
	for name, set := range noteSets {
		if set.Size < 1024 {
			t.Errorf("set %s has room for %d", name, set.Size)
		}
	}
}
