package vpp

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// oneByOne hides the driver's bulk methods.
type oneByOne struct{ *VSwitch }

type (
	onlyRoutes     struct{ vswitch.Routes }
	onlyNeighbours struct{ vswitch.Neighbours }
	onlyFIB        struct{ vswitch.FIB }
)

func (v oneByOne) Routes() vswitch.Routes         { return onlyRoutes{v.VSwitch.Routes()} }
func (v oneByOne) Neighbours() vswitch.Neighbours { return onlyNeighbours{v.VSwitch.Neighbours()} }
func (v oneByOne) FIB() vswitch.FIB               { return onlyFIB{v.VSwitch.FIB()} }

// BenchmarkResync configures 10,000 values of a kind on an empty VPP, one by one and pipelined, and
// reads them all. The simulated VPP shows the cost of the driver alone.
func BenchmarkResync(b *testing.B) {
	slog.SetLogLoggerLevel(slog.LevelError)
	const n = 10_000
	base := []proto.Message{
		&vpp_l2.BridgeDomain{Name: "lan", Forward: true, Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "b"}}},
	}
	for _, name := range []string{"a", "b"} {
		iface := loopback(name)
		iface.IpAddresses = []string{map[string]string{"a": "10.0.0.1/8", "b": "172.16.0.1/24"}[name]}
		base = append(base, iface)
	}
	for _, kind := range []struct {
		name string
		make func(i int) proto.Message
	}{
		{"routes", func(i int) proto.Message {
			return route(fmt.Sprintf("100.%d.%d.0/24", 64+i/256, i%256), "10.0.0.2", "a")
		}},
		{"neighbours", func(i int) proto.Message {
			return &vpp_l3.ARPEntry{Interface: "a", IpAddress: fmt.Sprintf("10.1.%d.%d", i/256, i%256), PhysAddress: "02:00:00:00:00:01", Static: true}
		}},
		{"FIB", func(i int) proto.Message {
			return &vpp_l2.FIBEntry{BridgeDomain: "lan", PhysAddress: fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256), OutgoingInterface: "b", StaticConfig: true}
		}},
	} {
		values := base
		for i := range n {
			values = append(values, kind.make(i))
		}
		b.Run(kind.name+"/server", func(b *testing.B) {
			benchmarkResync(b, values, func() vpptest.VPP { return vpptest.New(b) })
		})
		b.Run(kind.name+"/process", func(b *testing.B) {
			vpptest.Need(b)
			benchmarkResync(b, values, func() vpptest.VPP { return vpptest.NewProcess(b, newNamespace(b).NetNS) })
		})
	}
}

func benchmarkResync(b *testing.B, values []proto.Message, newVPP func() vpptest.VPP) {
	b.Helper()
	for b.Loop() {
		first, again := resyncTime(b, newVPP(), values, func(v *VSwitch) vswitch.VSwitch { return oneByOne{v} })
		pipelined, pipelinedAgain := resyncTime(b, newVPP(), values, func(v *VSwitch) vswitch.VSwitch { return v })
		b.ReportMetric(float64(first.Milliseconds()), "ms/one-by-one")
		b.ReportMetric(float64(pipelined.Milliseconds()), "ms/pipelined")
		b.ReportMetric(float64(first)/float64(pipelined), "times-faster")
		b.ReportMetric(float64(min(again, pipelinedAgain).Milliseconds()), "ms/second-resync")
	}
}

// resyncTime returns the durations of the first and second resync on a new VPP.
func resyncTime(b *testing.B, vpp vpptest.VPP, values []proto.Message, as func(*VSwitch) vswitch.VSwitch) (first, second time.Duration) {
	b.Helper()
	v := open(b, vpp)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	if err := descriptors.Register(s, as(v)); err != nil {
		b.Fatal(err)
	}
	resync := func() time.Duration {
		txn := s.NewTransaction()
		for _, value := range values {
			txn.Put(models.Key(value), value)
		}
		start := time.Now()
		if _, err := txn.Commit(b.Context(), kvscheduler.WithResync(kvscheduler.FullResync)); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	return resync(), resync()
}
