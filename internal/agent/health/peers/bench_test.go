package peers

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/test/benchmark"
)

// BenchmarkMinute measures the cost of a node's probes in a cluster of 1000: the processor time of
// the four rounds of a minute, one of them with large packets, and the bytes per peer. The peers
// are loopback addresses, so the cost of answering is included.
func BenchmarkMinute(b *testing.B) {
	const nodes, mtu, overhead, rounds = 1000, 1450, 50, 4
	var others []uint32
	for id := range uint32(nodes) {
		others = append(others, id+2)
	}
	var peers []Peer
	for _, id := range Choose(1, others, func(id uint32) uint32 { return id }) {
		peers = append(peers, Peer{Node: "n", Address: netip.AddrFrom4([4]byte{127, 0, byte(id >> 8), byte(id)}), Size: mtu})
	}
	pinger, err := ping.Open(nil, netip.Addr{})
	if err != nil {
		b.Skipf("needs root, for the echo requests: %v", err)
	}
	defer pinger.Close()
	p := New(Options{Peers: func() []Peer { return peers }, Log: slog.New(slog.DiscardHandler)})
	before := benchmark.ProcessorTime(b)
	for b.Loop() {
		for range rounds {
			if !p.round(b.Context(), pinger) {
				b.Fatalf("%+v", p.Reports())
			}
		}
	}
	perMinute := (benchmark.ProcessorTime(b) - before) / time.Duration(b.N)
	bytes := 0
	for round := range rounds {
		bytes += 2 * (ping.Small + overhead)
		if round == 0 {
			bytes += 2 * (mtu + overhead)
		}
	}
	b.ReportMetric(float64(len(peers)), "peers")
	b.ReportMetric(float64(perMinute)/float64(time.Minute)*100, "%-of-a-core")
	b.ReportMetric(float64(bytes)/60, "B/s-per-peer")
}
