// Package denials reports traffic denied by policies: packet counts by pod and policy, and
// individual connections.
//
//	vswitch ──counters, flows──> Keeper ──┬─> metrics
//	  (each 10 s; each second with         ├─> GET /contiv/v1/denials?after=…
//	   followers)                          └─> the last events, with names and reasons
//
// Pods control the amount of denied traffic. The flows of the vswitch, the stored events and the
// explanations per read are limited for that reason.
package denials

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a Keeper. All fields except Read are required.
type Options struct {
	Node string
	// Read is nil if the vswitch reports no denials. live is set while a client follows; some
	// vswitches report flows only then.
	Read func(ctx context.Context, live bool) (policyrules.Denials, error)
	// PodOf returns the pod with an address, on any node, or "".
	PodOf func(netip.Addr) string
	// Denying returns the policies that deny traffic of a local pod, by a rule or by isolation.
	Denying func(pod netip.Addr, direction contiv_filter.AccessList_Direction, byRule bool) []string
	// Why explains the refusal of a connection.
	Why func(policyrules.Connection) []string
}

const (
	// idle and busy are the intervals of reads without and with followers. A client counts as
	// a follower for the duration followed after a request.
	idle, busy, followed = 10 * time.Second, time.Second, 15 * time.Second
	// maxEvents limits the stored events, maxReasons the explanations per read.
	maxEvents, maxReasons = 1000, 50
)

// Count is the number of packets denied for a pod, direction and cause.
type Count struct {
	// Pod is a local pod. Policies may contain policies that denied none of the packets.
	Pod       string   `json:"pod"`
	Direction string   `json:"direction"`
	Policies  []string `json:"policies"`
	// Isolated is true if no rule allowed the packets, false if a rule denied them.
	Isolated bool   `json:"isolated"`
	Packets  uint64 `json:"packets"`
}

// Event is a denied connection.
type Event struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// From and To are pods, "" for other addresses.
	From     string     `json:"from,omitempty"`
	To       string     `json:"to,omitempty"`
	Src      netip.Addr `json:"src"`
	Dst      netip.Addr `json:"dst"`
	Protocol uint8      `json:"protocol"`
	Port     uint16     `json:"port,omitempty"`
	// Packets is a lower bound of the packets since the connection's last event.
	Packets uint64 `json:"packets"`
	// Probe marks events that a reachability probe may have caused; see Probing.
	Probe bool   `json:"probe,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Report is the response of URL.
type Report struct {
	Node string `json:"node"`
	// Unknown is the reason for missing counts or events, or empty.
	Unknown string `json:"unknown,omitempty"`
	// Counts is sorted.
	Counts []Count `json:"counts"`
	// Events follow the requested sequence number. Last is the newest number. A restart of the
	// agent restarts the numbers.
	Events []Event `json:"events"`
	Last   uint64  `json:"last"`
}

type subjectKey struct {
	addr      netip.Addr
	direction contiv_filter.AccessList_Direction
	byRule    bool
}

type flowKey struct {
	src, dst netip.Addr
	protocol uint8
	port     uint16
}

type policyKey struct{ policy, direction string }

// Keeper records denied packets. It is safe for concurrent use.
type Keeper struct {
	Options
	asked   chan struct{} // wakes Run when a client follows
	looking sync.Mutex    // serialises reads; taken before mu, which is not held during a read

	mu       sync.Mutex
	looked   time.Time
	follower time.Time
	counters map[subjectKey]uint64 // nil before the first read
	totals   map[subjectKey]*Count
	policies map[policyKey]uint64
	flows    map[flowKey]uint64
	events   []Event
	probes   []probe
	last     uint64
	failed   string
}

// New returns a keeper; see Run.
func New(o Options) *Keeper {
	return &Keeper{Options: o, asked: make(chan struct{}, 1), totals: map[subjectKey]*Count{},
		policies: map[policyKey]uint64{}, flows: map[flowKey]uint64{}}
}

// Run polls the vswitch until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k.Read == nil {
		return
	}
	timer, fast := time.NewTimer(0), false
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.asked:
			if !fast {
				timer.Reset(busy)
				fast = true
			}
			continue
		case <-timer.C:
		}
		k.look(ctx, 0)
		k.mu.Lock()
		fast = time.Since(k.follower) < followed
		k.mu.Unlock()
		timer.Reset(map[bool]time.Duration{false: idle, true: busy}[fast])
	}
}

// look reads the vswitch unless a read happened within the given duration.
func (k *Keeper) look(ctx context.Context, since time.Duration) {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	due, live := time.Since(k.looked) >= since, time.Since(k.follower) < followed
	k.mu.Unlock()
	if !due {
		return
	}
	read, err := k.Read(ctx, live)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = ""; err != nil {
		k.failed = fmt.Sprintf("reading the vswitch failed: %v", err)
		return
	}
	if read.NoFlows != "" {
		k.failed = "connections are not reported: " + read.NoFlows
	}
	k.looked = time.Now()
	k.count(read.Subjects)
	k.note(read.Flows)
}

// count adds the growth of the counters. The first read is only the baseline: earlier packets may
// belong to another pod or policy. The caller holds the lock.
func (k *Keeper) count(subjects []policyrules.DeniedSubject) {
	first := k.counters == nil
	counters := make(map[subjectKey]uint64, len(subjects))
	totals := make(map[subjectKey]*Count, len(subjects))
	for _, s := range subjects {
		key := subjectKey{s.Address, s.Direction, s.ByRule}
		more := s.Packets
		if before := k.counters[key]; before <= more { // else the counter was reset
			more -= before
		}
		counters[key] = s.Packets
		if first {
			continue
		}
		direction, pod := strings.ToLower(s.Direction.String()), k.PodOf(s.Address)
		total := k.totals[key]
		if total == nil || total.Pod != pod { // the address moved to another pod
			total = &Count{Pod: pod, Direction: direction, Isolated: !s.ByRule}
		}
		if more > 0 || total.Policies == nil {
			total.Policies = k.Denying(s.Address, s.Direction, s.ByRule)
		}
		total.Packets += more
		if pod != "" && total.Packets > 0 {
			totals[key] = total
		}
		for _, policy := range total.Policies {
			k.policies[policyKey{policy, direction}] += more
		}
	}
	k.counters, k.totals = counters, totals
	if len(k.policies) > maxSeries {
		k.policies = map[policyKey]uint64{}
	}
}

const maxSeries = 20000

// The caller holds the lock.
func (k *Keeper) note(flows []policyrules.DeniedFlow) {
	slices.SortFunc(flows, func(a, b policyrules.DeniedFlow) int {
		return cmp.Or(a.Src.Compare(b.Src), a.Dst.Compare(b.Dst), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	now := make(map[flowKey]uint64, len(flows))
	reasons := 0
	for _, f := range flows {
		key := flowKey{f.Src, f.Dst, f.Protocol, f.Port}
		now[key] = f.Packets
		more := f.Packets
		if before := k.flows[key]; before <= more {
			more -= before
		}
		if more == 0 {
			continue
		}
		k.last++
		e := Event{Seq: k.last, Time: k.looked, From: k.PodOf(f.Src), To: k.PodOf(f.Dst), Src: f.Src, Dst: f.Dst, Protocol: f.Protocol, Port: f.Port, Packets: more, Probe: k.isProbe(f)}
		if reasons++; reasons <= maxReasons {
			e.Why = strings.Join(k.Why(policyrules.Connection{Src: f.Src, Dst: f.Dst, Protocol: f.Protocol, Port: f.Port}), "; ")
		}
		k.events = append(k.events, e)
	}
	k.flows = now
	if n := len(k.events) - maxEvents; n > 0 {
		k.events = slices.Clone(k.events[n:])
	}
}

// Report returns the counts, and the events after a sequence number. It marks the caller as a
// follower.
func (k *Keeper) Report(ctx context.Context, after uint64) Report {
	r := Report{Node: k.Node, Counts: []Count{}, Events: []Event{}}
	if k.Read == nil {
		r.Unknown = "the vswitch of this node does not report denied traffic"
		return r
	}
	k.mu.Lock()
	k.follower = time.Now()
	k.mu.Unlock()
	k.look(ctx, busy/2)
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case k.asked <- struct{}{}:
	default:
	}
	r.Unknown, r.Last = k.failed, k.last
	r.Counts = append(r.Counts, k.merged()...)
	if after > k.last { // a number from before the agent restarted
		after = 0
	}
	for _, e := range k.events {
		if e.Seq > after {
			r.Events = append(r.Events, e)
		}
	}
	return r
}

// merged adds both IP versions of each pod. The caller holds the lock.
func (k *Keeper) merged() (list []Count) {
	type series struct {
		pod, direction string
		isolated       bool
	}
	at := map[series]int{}
	for _, c := range k.totals {
		s := series{c.Pod, c.Direction, c.Isolated}
		i, found := at[s]
		if !found {
			i = len(list)
			at[s], list = i, append(list, Count{Pod: c.Pod, Direction: c.Direction, Isolated: c.Isolated, Policies: c.Policies})
		}
		list[i].Packets += c.Packets
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), strings.Compare(a.Direction, b.Direction), cmp.Compare(fmt.Sprint(a.Isolated), fmt.Sprint(b.Isolated)))
	})
	return list
}

var (
	podDesc = []string{"podNamespace", "podName", "direction", "cause"}
	byPod   = "contiv_policy_pod_denied_packets_total"
	byName  = "contiv_policy_denied_packets_total"
)

func (k *Keeper) descs() (pod, policy *prometheus.Desc) {
	labels := prometheus.Labels{"node": k.Node}
	return prometheus.NewDesc(byPod, "Packets to or from a pod of this node denied by policies, by direction and cause (isolated or rule).", podDesc, labels),
		prometheus.NewDesc(byName, "Packets denied by a policy on this node, by a rule or by isolation; if several policies isolate a pod, each counts.", []string{"policy", "direction"}, labels)
}

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) {
	pod, policy := k.descs()
	out <- pod
	out <- policy
}

// Collect implements prometheus.Collector without waiting for the vswitch.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	pod, policy := k.descs()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.merged() {
		namespace, name, _ := strings.Cut(c.Pod, "/")
		cause := map[bool]string{false: "rule", true: "isolated"}[c.Isolated]
		out <- prometheus.MustNewConstMetric(pod, prometheus.CounterValue, float64(c.Packets), namespace, name, c.Direction, cause)
	}
	for key, packets := range k.policies {
		out <- prometheus.MustNewConstMetric(policy, prometheus.CounterValue, float64(packets), key.policy, key.direction)
	}
}
