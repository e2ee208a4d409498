package kvscheduler_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// garden is a toy southbound with beds and plants. A plant needs a bed.
type garden struct {
	beds   map[string]bool
	plants map[string]string // plant -> bed
}

// text is the type of all values; any protobuf message works. The value of a bed is its soil, the value of a
// plant is its bed.
type text = *wrapperspb.StringValue

// bedDescriptor returns a minimal descriptor.
func (g *garden) bedDescriptor() kvscheduler.Descriptor[text, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[text, kvscheduler.NoMetadata]{
		Name: "bed",
		Keys: kvscheduler.KeySpace{Prefix: "bed/"},
		NB:   true,
		Create: func(_ context.Context, key string, soil text) (kvscheduler.NoMetadata, error) {
			g.beds[key] = true
			return kvscheduler.NoMetadata{}, nil
		},
		Delete: func(_ context.Context, key string, soil text, _ kvscheduler.NoMetadata) error {
			delete(g.beds, key)
			return nil
		},
	}
}

// plantDescriptor adds a dependency, validation and Retrieve.
func (g *garden) plantDescriptor() kvscheduler.Descriptor[text, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[text, kvscheduler.NoMetadata]{
		Name: "plant",
		Keys: kvscheduler.KeySpace{Prefix: "plant/"},
		NB:   true,
		Validate: func(key string, bed text) error {
			if bed.Value == "" {
				return kvscheduler.NewInvalidValueError(fmt.Errorf("a plant needs a bed"), "value")
			}
			return nil
		},
		Dependencies: func(key string, bed text) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "bed", Key: "bed/" + bed.Value}}
		},
		Create: func(_ context.Context, key string, bed text) (kvscheduler.NoMetadata, error) {
			g.plants[key] = bed.Value
			return kvscheduler.NoMetadata{}, nil
		},
		Delete: func(_ context.Context, key string, bed text, _ kvscheduler.NoMetadata) error {
			delete(g.plants, key)
			return nil
		},
		Retrieve: func(context.Context, []kvscheduler.Item[text, kvscheduler.NoMetadata]) ([]kvscheduler.Item[text, kvscheduler.NoMetadata], error) {
			var found []kvscheduler.Item[text, kvscheduler.NoMetadata]
			for key, bed := range g.plants {
				// A wild plant is OBTAINED and never changed.
				origin := kvscheduler.FromNB
				if strings.HasPrefix(key, "plant/wild-") {
					origin = kvscheduler.FromSB
				}
				found = append(found, kvscheduler.Item[text, kvscheduler.NoMetadata]{Key: key, Value: wrapperspb.String(bed), Origin: origin})
			}
			return found, nil
		},
	}
}

func (g *garden) String() string {
	var plants []string
	for p, bed := range g.plants {
		plants = append(plants, p+" in "+bed)
	}
	sort.Strings(plants)
	return strings.Join(plants, ", ")
}

func newGarden() (*garden, *kvscheduler.Scheduler) {
	g := &garden{beds: map[string]bool{}, plants: map[string]string{}}
	s := kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := kvscheduler.Register(s, g.bedDescriptor()); err != nil {
		panic(err)
	}
	if err := kvscheduler.Register(s, g.plantDescriptor()); err != nil {
		panic(err)
	}
	return g, s
}

// A plant that is requested before its bed is PENDING.
func Example() {
	g, s := newGarden()
	defer s.Close()
	ctx := context.Background()

	_, _ = s.NewTransaction().Put("plant/rose", wrapperspb.String("south")).Commit(ctx)
	fmt.Println(s.ValueStatus("plant/rose").Value.State)
	fmt.Println(inspect.Explain(s, "plant/rose").Summary)

	_, _ = s.NewTransaction().Put("bed/south", wrapperspb.String("loam")).Commit(ctx)
	fmt.Println(s.ValueStatus("plant/rose").Value.State, g)
	// Output:
	// PENDING
	// plant/rose waits for bed/south (bed), which does not exist
	// CONFIGURED plant/rose in south
}

// Errors name the key, the operation and the cause.
func ExampleTransaction_Commit() {
	_, s := newGarden()
	defer s.Close()

	_, err := s.NewTransaction().
		Put("bed/south", wrapperspb.String("loam")).
		Put("plant/rose", wrapperspb.String("")).
		Commit(context.Background(), kvscheduler.WithRevert())
	fmt.Println(err)
	fmt.Println(s.ValueStatus("bed/south").Value.State)
	// Output:
	// transaction #0 failed and was reverted: plant/rose (VALIDATE): a plant needs a bed (fields: value)
	// NONEXISTENT
}

// Plan returns the operations without executing them.
func ExampleTransaction_Plan() {
	_, s := newGarden()
	defer s.Close()
	ctx := context.Background()
	_, _ = s.NewTransaction().Put("bed/south", wrapperspb.String("loam")).Put("plant/rose", wrapperspb.String("south")).Commit(ctx)

	ops, _ := s.NewTransaction().Delete("bed/south").Plan(ctx)
	for _, op := range ops {
		fmt.Println(op.Operation, op.Key, op.Flags())
	}
	// Output:
	// DELETE plant/rose [IS-PENDING]
	// DELETE bed/south []
}

// A full resync compares all requested with all existing values.
func ExampleWithResync() {
	g, s := newGarden()
	defer s.Close()
	g.plants["plant/tulip"] = "north" // from an earlier run
	g.plants["plant/wild-thyme"] = "meadow"

	seq, _ := s.NewTransaction().
		Put("bed/south", wrapperspb.String("loam")).
		Put("plant/rose", wrapperspb.String("south")).
		Commit(context.Background(), kvscheduler.WithResync(kvscheduler.FullResync))
	for _, op := range s.RecordedTxn(seq).Executed {
		fmt.Println(op.Operation, op.Key)
	}
	fmt.Println(g)
	// Output:
	// DELETE plant/tulip
	// CREATE bed/south
	// CREATE plant/rose
	// plant/rose in south, plant/wild-thyme in meadow
}

// WaitSettled waits until values reach a final state.
func ExampleScheduler_WaitSettled() {
	_, s := newGarden()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	_, _ = s.NewTransaction().Put("plant/rose", wrapperspb.String("south")).Commit(ctx, kvscheduler.WithoutBlocking())
	go func() { _, _ = s.NewTransaction().Put("bed/south", wrapperspb.String("loam")).Commit(ctx) }()
	statuses, err := s.WaitSettled(ctx, "plant/rose")
	fmt.Println(statuses[0].Value.State, err)
	// Output:
	// CONFIGURED <nil>
}
