package hostile

import (
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// FuzzResync configures any value of any model together with valid ones on the fake vswitch,
// followed by a resync, a resync of a new scheduler, and the removal. `make fuzz` bounds the
// minimisation.
func FuzzResync(f *testing.F) {
	all := models.All()
	for i, m := range all {
		for _, sample := range Samples(f, root, m) {
			data, err := models.Marshal(sample)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), data)
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, data []byte) {
		m := all[int(index)%len(all)]
		value, err := m.Unmarshal(data)
		if err != nil || !m.Matches(m.Key(value)) {
			return
		}
		node := fake.NewNetwork().NewNode("node", vswitch.Capabilities{})
		start := func() *kvscheduler.Scheduler {
			s := kvscheduler.New(kvscheduler.Options{Logger: quiet})
			if err := netalloc.Register(s); err != nil {
				t.Fatal(err)
			}
			if err := descriptors.Register(s, node.Open()); err != nil {
				t.Fatal(err)
			}
			return s
		}
		c := &course{agent: &agent{t: t, Scheduler: start()}, good: map[string]proto.Message{}, hostile: map[string]Keyed{}}
		defer func() { c.Close() }()
		for _, v := range goodValues("none")[:5] {
			c.good[models.Key(v)] = v
		}
		if key := m.Key(value); c.good[key] == nil {
			c.hostile[key] = Keyed{key, Value{value, string(data)}}
		}
		c.resync("the beginning")
		c.resync("resync")
		c.Close()
		c.Scheduler = start()
		c.resync("restart")
		c.remove()
	})
}
