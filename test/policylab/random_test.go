package policylab

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/internal/vswitch/kernel/policies"
	"github.com/contiv/contiv/models"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

var (
	clusters     = flag.Int("clusters", 20, "packets of random clusters, walked through nftables in memory")
	clustersSeed = flag.Uint64("clusters.seed", 0, "of the first cluster")
)

// watched is a kernel with a check after each transaction.
type watched struct {
	nft.Kernel
	after func()
}

func (w *watched) Commit(messages []netlink.Message) error {
	err := w.Kernel.Commit(messages)
	w.after()
	return err
}

var numbers = map[string]uint8{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

func opening(c oracle.Connection) nfttest.Packet {
	p := nfttest.Packet{In: "pods", Src: netip.AddrPortFrom(c.From.Addr, 40000), Dst: netip.AddrPortFrom(c.To.Addr, uint16(c.Port)), Protocol: numbers[c.Protocol]}
	switch {
	case p.Protocol != 0:
	case c.From.Addr.Is4():
		p.Protocol, p.Type = unix.IPPROTO_ICMP, 8
	default:
		p.Protocol, p.Type = unix.IPPROTO_ICMPV6, 128
	}
	return p
}

// After any changes in any order and batching, the rules of a node give the oracle's verdicts.
// Between the transactions of one change, each connection gets the old or the new verdict.
func TestPacketsOfRandomClusters(t *testing.T) {
	for n := range uint64(*clusters) {
		seed := n + *clustersSeed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			host := nfttest.NewHost()
			host.Local = func(netip.Addr) bool { return false }
			host.Route = func(netip.Addr) string { return "other" }
			kernel := &watched{Kernel: host.Kernel, after: func() {}}
			driver := policies.New(nft.New(kernel), nfttest.NewHost().ClearMarks, slog.New(slog.DiscardHandler))
			passes := func(c oracle.Connection) bool {
				host.Forget()
				o, err := host.Send(opening(c))
				if err != nil {
					t.Fatal(err)
				}
				return o.Passed
			}
			w := policytest.New(seed)
			for range 40 {
				before, endsBefore := w.Cluster(), endsOf(w)
				for range 1 + w.Random.IntN(8) {
					w.Change()
				}
				cluster := w.Cluster()
				var some []oracle.Connection
				for version := range 2 {
					ends := w.Ends(version)
					for range 60 {
						from, to := ends[w.Random.IntN(len(ends))], ends[w.Random.IntN(len(ends))]
						if from.Addr != to.Addr {
							list := policytest.Connections(from, to)
							some = append(some, list[w.Random.IntN(len(list))])
						}
					}
				}
				kernel.after = func() {
					for _, c := range some {
						now, old := policytest.Passes(cluster, c), policytest.Passes(before, asBefore(endsBefore, c))
						if got := passes(c); got && !now && !old {
							t.Fatalf("meanwhile, %s %d from %v to %v passes, neither before nor after", c.Protocol, c.Port, c.From, c.To)
						}
					}
				}
				set, removed := w.Take()
				if err := driver.Change(t.Context(), set, removed); err != nil {
					t.Fatal(err)
				}
				kernel.after = func() {}
				for _, c := range some {
					if got, want := passes(c), policytest.Passes(cluster, c); got != want {
						t.Fatalf("%s %d from %v to %v: passes %v, want %v; policies %v, %v", c.Protocol, c.Port, c.From, c.To, got, want, cluster.Policies, cluster.ClusterPolicies)
					}
				}
			}
		})
	}
}

// The same changes in any order and in nftables batches of any size lead to the same verdicts as the oracle. Some nodes restart meanwhile.
func TestOrdersAndBatchesOfRandomClusters(t *testing.T) {
	for n := range uint64(*clusters) {
		seed := n + *clustersSeed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := policytest.New(seed)
			for range 150 {
				w.Change()
			}
			cluster := w.Cluster()
			for order := range 4 {
				node := newMemoryNode()
				facts := w.InAnotherOrder()
				if order == 0 {
					facts = w.Facts
				}
				for len(facts) > 0 {
					some := facts[:min(len(facts), 1+w.Random.IntN([]int{1, 8, 300}[order%3]))]
					facts = facts[len(some):]
					for _, f := range some {
						f.Apply(node.processor)
					}
					node.take(t)
					if w.Chance(5) {
						node.restart(t)
					}
				}
				for version := range 2 {
					ends := w.Ends(version)
					for _, from := range ends {
						for _, to := range ends {
							for _, c := range policytest.Connections(from, to) {
								if got, want := node.passes(t, c), policytest.Passes(cluster, c); from.Addr != to.Addr && got != want {
									t.Fatalf("order %d: %s %d from %v to %v: passes %v, want %v; policies %v, %v", order, c.Protocol, c.Port, c.From, c.To, got, want, cluster.Policies, cluster.ClusterPolicies)
								}
							}
						}
					}
				}
			}
		})
	}
}

// Packets of a connection pass in both directions if and only if the oracle allows it to be opened
// now, regardless of earlier policies, of times without policies or agent, and of a table removed
// by another program.
func TestConnectionsOfRandomClusters(t *testing.T) {
	for n := range uint64(*clusters) {
		seed := n + *clustersSeed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w, node := policytest.New(seed), newMemoryNode()
			type connection struct {
				oracle.Connection
				there, back nfttest.Packet
			}
			var connections []connection
			send := func(p nfttest.Packet) nfttest.Outcome {
				o, err := node.Send(p)
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			for step := range 60 {
				before := len(w.Facts)
				for range 1 + w.Random.IntN(8) {
					w.Change()
				}
				for _, fact := range w.Facts[before:] {
					fact.Apply(node.processor)
				}
				node.take(t)
				switch w.Random.IntN(10) {
				case 0:
					node.restart(t)
				case 1, 2: // the node has no policies for a while, and perhaps a new agent
					if err := node.driver.Change(t.Context(), nil, slices.Collect(maps.Values(node.values))); err != nil {
						t.Fatal(err)
					}
					if w.Chance(50) {
						node.start()
					}
					node.setAgain(t)
				case 3: // another program removes the table
					table := nft.Batch{Table: "contiv-policy", Family: unix.NFPROTO_INET}
					table.AddTable()
					table.DeleteTable()
					if err := nft.New(node.Kernel).Commit(&table); err != nil {
						t.Fatal(err)
					}
					node.setAgain(t)
				}
				cluster, ends := w.Cluster(), endsOf(w)
				for _, c := range connections {
					want := policytest.Passes(cluster, asBefore(ends, c.Connection))
					for direction, p := range map[string]nfttest.Packet{"to": c.there, "answering": c.back} {
						if o := send(p); o.Passed != want {
							t.Fatalf("step %d: %s %d from %v, %s %v: passes %v, want %v; policies %v, %v", step, c.Protocol, c.Port, c.From, direction, c.To, o.Passed, want, cluster.Policies, cluster.ClusterPolicies)
						}
					}
				}
				for version := range 2 {
					ends := w.Ends(version)
					for range 5 {
						from, to := ends[w.Random.IntN(len(ends))], ends[w.Random.IntN(len(ends))]
						list := policytest.Connections(from, to)
						c := connection{Connection: list[w.Random.IntN(len(list))]}
						c.there = opening(c.Connection)
						c.there.Src = netip.AddrPortFrom(from.Addr, uint16(40000+len(connections)))
						if o := send(c.there); o.Passed && from.Addr != to.Addr && c.Protocol != "ICMP" {
							c.back = o.Answer(c.there)
							send(c.back)
							connections = append(connections, c)
						}
					}
				}
			}
		})
	}
}

// memoryNode implements the policies of a node with an in-memory nftables.
type memoryNode struct {
	*nfttest.Host
	processor *processor.Processor
	driver    *policies.Driver
	values    map[string]proto.Message
}

func newMemoryNode() *memoryNode {
	n := &memoryNode{Host: nfttest.NewHost(), processor: processor.New(policytest.Node), values: map[string]proto.Message{}}
	n.Local = func(netip.Addr) bool { return false }
	n.Route = func(netip.Addr) string { return "other" }
	n.start()
	return n
}

func (n *memoryNode) start() {
	n.driver = policies.New(nft.New(n.Kernel), n.ClearMarks, slog.New(slog.DiscardHandler))
}

func (n *memoryNode) take(t *testing.T) {
	t.Helper()
	set, gone := n.processor.Changes()
	var removed []proto.Message
	for _, v := range set {
		n.values[models.Key(v)] = v
	}
	for _, key := range gone {
		removed = append(removed, n.values[key])
		delete(n.values, key)
	}
	if err := n.driver.Change(t.Context(), set, removed); err != nil {
		t.Fatal(err)
	}
}

func (n *memoryNode) setAgain(t *testing.T) {
	t.Helper()
	if err := n.driver.Change(t.Context(), slices.Collect(maps.Values(n.values)), nil); err != nil {
		t.Fatal(err)
	}
}

// restart checks that a new driver lists all values.
func (n *memoryNode) restart(t *testing.T) {
	t.Helper()
	n.start()
	found, err := n.driver.List(t.Context(), slices.Collect(maps.Values(n.values)))
	if err != nil || len(found) != len(n.values) {
		t.Fatalf("after a restart, %d of %d values are found, %v", len(found), len(n.values), err)
	}
}

func (n *memoryNode) passes(t *testing.T, c oracle.Connection) bool {
	t.Helper()
	n.Forget()
	o, err := n.Send(opening(c))
	if err != nil {
		t.Fatal(err)
	}
	return o.Passed
}

func endsOf(w *policytest.World) map[netip.Addr]oracle.End {
	ends := map[netip.Addr]oracle.End{}
	for version := range 2 {
		for _, end := range w.Ends(version) {
			ends[end.Addr] = end
		}
	}
	return ends
}

// asBefore returns the connection with the earlier pods of its addresses.
func asBefore(before map[netip.Addr]oracle.End, c oracle.Connection) oracle.Connection {
	for _, end := range []*oracle.End{&c.From, &c.To} {
		*end = oracle.End{Pod: before[end.Addr].Pod, Addr: end.Addr}
	}
	return c
}
