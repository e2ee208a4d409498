package stats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/prometheus/client_golang/prometheus"
	"go.fd.io/govpp/adapter"
	"go.fd.io/govpp/adapter/statsclient"
)

// Segment is VPP's shared memory of counters. It is mapped at the first read, and again after a
// restart of VPP.
type Segment struct {
	subsystem.Base
	vpp    *session.Session
	log    *slog.Logger
	socket string

	mu     sync.Mutex
	client *statsclient.StatsClient // nil: not mapped
}

func New(vpp *session.Session, socket string, log *slog.Logger) *Segment {
	return &Segment{vpp: vpp, socket: socket, log: log}
}

// Opened unmaps the memory of another process.
func (s *Segment) Opened(context.Context, *session.Link) error {
	s.Close()
	return nil
}

// statsWait bounds the wait for VPP's socket.
const statsWait = 200 * time.Millisecond

// Close unmaps the memory.
func (s *Segment) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Disconnect()
		s.client = nil
	}
}

// read returns the entries whose names match one of the patterns.
func (s *Segment) read(patterns ...string) ([]adapter.StatEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		statsclient.Log.Out = io.Discard // the errors contain everything relevant
		client := statsclient.NewStatsClient(s.socket, statsclient.SetSocketRetryTimeout(statsWait))
		if err := client.Connect(); err != nil {
			return nil, fmt.Errorf("opening VPP's statistics at %s: %w; is there a section statseg in its start-up configuration?", s.socket, err)
		}
		s.client = client
	}
	var err error
	for range 10 { // VPP may be changing the directory
		var entries []adapter.StatEntry
		if entries, err = s.client.DumpStats(patterns...); err == nil {
			return entries, nil
		}
		if !errors.Is(err, adapter.ErrStatsDataBusy) {
			break
		}
	}
	return nil, fmt.Errorf("reading VPP's statistics at %s: %w", s.socket, err)
}

// setters maps counters in the segment to fields.
var setters = map[string]func(s *vpp_interfaces.InterfaceState_Statistics, packets, bytes uint64){
	"/if/rx":        func(s *vpp_interfaces.InterfaceState_Statistics, p, b uint64) { s.InPackets, s.InBytes = p, b },
	"/if/tx":        func(s *vpp_interfaces.InterfaceState_Statistics, p, b uint64) { s.OutPackets, s.OutBytes = p, b },
	"/if/drops":     func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.DropPackets = p },
	"/if/punt":      func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.PuntPackets = p },
	"/if/ip4":       func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.Ipv4Packets = p },
	"/if/ip6":       func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.Ipv6Packets = p },
	"/if/rx-no-buf": func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.InNobufPackets = p },
	"/if/rx-miss":   func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.InMissPackets = p },
	"/if/rx-error":  func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.InErrorPackets = p },
	"/if/tx-error":  func(s *vpp_interfaces.InterfaceState_Statistics, p, _ uint64) { s.OutErrorPackets = p },
}

// Interfaces returns the counters of each interface by index.
func (v *Segment) Interfaces() (map[ownership.Index]*vpp_interfaces.InterfaceState_Statistics, error) {
	entries, err := v.read("^/if/")
	if err != nil {
		return nil, err
	}
	result := map[ownership.Index]*vpp_interfaces.InterfaceState_Statistics{}
	for _, e := range entries {
		set := setters[string(e.Name)]
		if set == nil {
			continue
		}
		for i, c := range sum(e.Data) {
			s := result[ownership.Index(i)]
			if s == nil {
				s = &vpp_interfaces.InterfaceState_Statistics{}
				result[ownership.Index(i)] = s
			}
			set(s, c.Packets(), c.Bytes())
		}
	}
	return result, nil
}

// Errors returns the error counters of graph nodes, by node and reason.
func (v *Segment) Errors(nodes ...string) (map[string]map[string]uint64, error) {
	var patterns []string
	for _, node := range nodes {
		patterns = append(patterns, "^/err/"+regexp.QuoteMeta(node)+"/")
	}
	entries, err := v.read(patterns...)
	if err != nil {
		return nil, err
	}
	counts := map[string]map[string]uint64{}
	for _, e := range entries {
		node, reason, _ := strings.Cut(strings.TrimPrefix(string(e.Name), "/err/"), "/")
		if counts[node] == nil {
			counts[node] = map[string]uint64{}
		}
		counts[node][reason] = total(e.Data)
	}
	return counts, nil
}

// ruleCounters matches the index of an access list of the plugin acl.
var ruleCounters = regexp.MustCompile(`^/acl/([0-9]+)/matches$`)

// Matches returns the match counts of each rule since its access list was set, by list index.
// Packets of already permitted connections are not counted.
func (v *Segment) Matches() (map[uint32][]uint64, error) {
	entries, err := v.read(ruleCounters.String())
	if err != nil {
		return nil, err
	}
	lists := map[uint32][]uint64{}
	for _, e := range entries {
		parts := ruleCounters.FindSubmatch(e.Name)
		if parts == nil {
			continue
		}
		id, err := strconv.ParseUint(string(parts[1]), 10, 32)
		if err != nil {
			continue
		}
		var packets []uint64
		for _, c := range sum(e.Data) {
			packets = append(packets, c.Packets())
		}
		lists[uint32(id)] = packets
	}
	return lists, nil
}

// sum adds up the counters of VPP's threads by index. Threads' vectors may differ in length.
func sum(stat adapter.Stat) (total []adapter.CombinedCounter) {
	at := func(i int) *adapter.CombinedCounter {
		for len(total) <= i {
			total = append(total, adapter.CombinedCounter{})
		}
		return &total[i]
	}
	switch stat := stat.(type) {
	case adapter.SimpleCounterStat:
		for _, thread := range stat {
			for i, c := range thread {
				at(i)[0] += uint64(c)
			}
		}
	case adapter.CombinedCounterStat:
		for _, thread := range stat {
			for i, c := range thread {
				sum := at(i)
				sum[0], sum[1] = sum[0]+c[0], sum[1]+c[1]
			}
		}
	}
	return total
}

// Counters of VPP itself.
var (
	errorsDesc  = prometheus.NewDesc("vpp_errors_total", "Packets counted by a node of VPP's graph for a reason, most often as dropped.", []string{"node", "reason"}, nil)
	nodeDesc    = prometheus.NewDesc("vpp_node_total", "Counters of a node of VPP's graph: calls, vectors (packets), suspends, clocks.", []string{"node", "what"}, nil)
	buffersDesc = prometheus.NewDesc("vpp_buffers", "Buffers of a pool: cached, used, available.", []string{"pool", "state"}, nil)
	memoryDesc  = prometheus.NewDesc("vpp_memory_bytes", "Memory of a heap: total, used, free.", []string{"heap", "state"}, nil)
	rateDesc    = prometheus.NewDesc("vpp_vector_rate", "Packets per call of a node, on average over all threads.", nil, nil)
	workersDesc = prometheus.NewDesc("vpp_worker_threads", "Threads that forward packets in addition to the main one.", nil, nil)
	upDesc      = prometheus.NewDesc("vpp_up", "1 if VPP answers, else 0.", []string{"version"}, nil)
)

var _ prometheus.Collector = (*Segment)(nil)

// Describe implements prometheus.Collector.
func (v *Segment) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{errorsDesc, nodeDesc, buffersDesc, memoryDesc, rateDesc, workersDesc, upDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector for counters other than interface counters. Zero
// counters, of which VPP has thousands, are omitted. If VPP cannot be read, it returns only vpp_up.
func (v *Segment) Collect(out chan<- prometheus.Metric) {
	l, err := v.vpp.Link()
	if err != nil {
		out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 0, "")
		return
	}
	out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 1, l.Version)
	entries, err := v.read("^/err/", "^/sys/", "^/buffer-pools/", "^/mem/")
	if err != nil {
		v.log.Warn("Reading VPP's statistics failed", "error", err)
		return
	}
	names := nodeNames(entries)
	for _, e := range entries {
		collect(out, string(e.Name), e.Data, names)
	}
}

func nodeNames(entries []adapter.StatEntry) (names []string) {
	for _, e := range entries {
		if list, ok := e.Data.(adapter.NameStat); ok && string(e.Name) == "/sys/node/names" {
			for _, name := range list {
				names = append(names, name.String())
			}
		}
	}
	return names
}

func collect(out chan<- prometheus.Metric, name string, data adapter.Stat, nodes []string) {
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	gauge := func(desc *prometheus.Desc, labels ...string) {
		value := float64(total(data))
		if scalar, ok := data.(adapter.ScalarStat); ok {
			value = float64(scalar)
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	switch {
	case parts[0] == "err" && len(parts) >= 3:
		if count := total(data); count > 0 {
			out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(count), parts[1], strings.Join(parts[2:], "/"))
		}
	case strings.HasPrefix(name, "/sys/node/") && len(parts) == 3:
		for i, c := range sum(data) {
			if i < len(nodes) && c.Packets() > 0 {
				out <- prometheus.MustNewConstMetric(nodeDesc, prometheus.CounterValue, float64(c.Packets()), nodes[i], parts[2])
			}
		}
	case name == "/sys/vector_rate":
		gauge(rateDesc)
	case name == "/sys/num_worker_threads":
		gauge(workersDesc)
	case parts[0] == "buffer-pools" && len(parts) == 3:
		gauge(buffersDesc, parts[1], parts[2])
	case parts[0] == "mem" && len(parts) == 3:
		gauge(memoryDesc, parts[1], parts[2])
	}
}

// total adds up a counter of all threads.
func total(data adapter.Stat) (n uint64) {
	if list, ok := data.(adapter.ErrorStat); ok {
		for _, c := range list {
			n += uint64(c)
		}
		return n
	}
	for _, c := range sum(data) {
		n += c.Packets()
	}
	return n
}
