package history

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/history/journal"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/benchmark"
)

// BenchmarkAddPod measures the event and the transaction of a pod, with 16 values: the time to
// queue them, which is part of CNI ADD, and the processor time to write them, which is not.
func BenchmarkAddPod(b *testing.B) {
	var handed *kvscheduler.Committed
	scheduler := kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler), Recorder: func(c kvscheduler.Committed) { handed = &c }})
	defer scheduler.Close()
	err := kvscheduler.Register(scheduler, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "x", Keys: kvscheduler.KeySpace{Prefix: "x/"}, NB: true,
		Create: func(context.Context, string, *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			return m, nil
		},
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	txn := scheduler.NewTransaction()
	for i := range 16 {
		txn.Put(fmt.Sprintf("x/vpp-tap-0d7a4e1bb2f94a3f8c6d5e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80910d7a/%d", i), &vpp_interfaces.Interface{
			Name: "vpp-tap-0d7a4e1bb2f94a3f8c6d5e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80910d7a", Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: 1450,
			PhysAddress: "02:fe:f8:48:74:72", IpAddresses: []string{"10.1.1.2/32"},
		})
	}
	if _, err := txn.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
	r := Open(Options{Dir: b.TempDir(), Bytes: 64 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	event := &controller.EventRecord{Name: "Add Pod", Description: "Add Pod default/web", ProcessingEnd: time.Now(), Txn: &controller.TxnRecord{Operations: 16}}
	b.ReportAllocs()
	var handing time.Duration
	before := benchmark.ProcessorTime(b)
	for b.Loop() {
		start := time.Now()
		r.Transaction(*handed)
		r.Event(event)
		handing += time.Since(start)
		if err := r.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(handing.Microseconds())/float64(b.N), "µs-handed-over/op")
	b.ReportMetric(float64((benchmark.ProcessorTime(b)-before).Microseconds())/float64(b.N), "µs-processor/op")
	var size int
	count := func(lines ...journal.Line) error {
		for _, l := range lines {
			size += len(l.Data)
		}
		return nil
	}
	if err := new(encoder).write([]item{{txn: handed}, {event: event}}, count); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size), "bytes/op")
}
