package vpp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// crowd is a VPP node with many services, written directly to etcd.
type crowd struct {
	*lab.Lab
	b       *testing.B
	db      *clientv3.Client
	client  string // network namespace of a pod
	servers []netip.Addr
	added   int // number of services that were added one by one
}

const crowdPort = 8080

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	opts := options(b, lab.VPPVSwitch)
	opts.ServiceConfig = "services: vswitch\n"
	c := &crowd{Lab: labtest.Up(b, opts), b: b}
	pods := addPods(b, c.Lab, lab.PodSpec{Name: "client", Node: "node1"}, lab.PodSpec{Name: "one", Node: "node1"}, lab.PodSpec{Name: "other", Node: "node1"})
	c.client = pods[0].Netns
	for _, p := range pods[1:] {
		labtest.TellName(b, p.Netns, p.Endpoint().Address.String(), crowdPort)
		c.servers = append(c.servers, p.Endpoint().Address)
	}
	var err error
	if c.db, err = c.Etcd(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.db.Close() })
	return c
}

func (c *crowd) put(services ...crowded) {
	c.b.Helper()
	var ops []clientv3.Op
	for i, s := range services {
		for key, value := range s.reflected() {
			data, err := kubestate.Marshal(value)
			if err != nil {
				c.b.Fatal(err)
			}
			ops = append(ops, clientv3.OpPut(models.KSRPrefix+key, string(data)))
		}
		if len(ops) < 100 && i < len(services)-1 {
			continue
		}
		if _, err := c.db.Txn(c.b.Context()).Then(ops...).Commit(); err != nil {
			c.b.Fatal(err)
		}
		ops = nil
	}
}

// crowded is a service with consecutive ports from 80.
type crowded struct {
	number    int
	ports     int
	endpoints []netip.Addr
}

func (s crowded) addr() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 97, byte(s.number >> 8), byte(s.number)})
}

func (s crowded) reflected() map[string]proto.Message {
	name := fmt.Sprint("crowded-", s.number)
	service := &k8s.Service{Name: name, Namespace: "default", ServiceType: "ClusterIP", ClusterIp: s.addr().String(), ClusterIps: []string{s.addr().String()}, IpFamilies: []string{"IPv4"}}
	slice := &endpointslice.EndpointSlice{Name: name + "-1", Namespace: "default", Service: name, AddressType: endpointslice.EndpointSlice_IPv4}
	for n := range s.ports {
		port := fmt.Sprint("p", n)
		service.Port = append(service.Port, &k8s.Service_ServicePort{Name: port, Protocol: "TCP", Port: int32(80 + n)})
		slice.Ports = append(slice.Ports, &endpointslice.EndpointSlice_Port{Name: port, Protocol: "TCP", Port: crowdPort})
	}
	for _, a := range s.endpoints {
		slice.Endpoints = append(slice.Endpoints, &endpointslice.EndpointSlice_Endpoint{Addresses: []string{a.String()}, NodeName: "node1", Ready: true, Serving: true})
	}
	return map[string]proto.Message{kubestate.ServiceKey(name, "default"): service, kubestate.EndpointSliceKey(name+"-1", "default"): slice}
}

// await waits until the last port of a service reaches its only endpoint and returns the duration.
// It connects every two milliseconds in parallel, because VPP does not answer all refused packets
// and an attempt may time out.
func (c *crowd) await(s crowded, since time.Time) time.Duration {
	c.b.Helper()
	to := netip.AddrPortFrom(s.addr(), uint16(80+s.ports-1))
	arrived := make(chan time.Time, 1)
	var attempts sync.WaitGroup
	defer attempts.Wait()
	for {
		attempts.Go(func() {
			if told, err := c.ask(to); err == nil && told.Name == s.endpoints[0].String() {
				select {
				case arrived <- time.Now():
				default:
				}
			}
		})
		select {
		case at := <-arrived:
			return at.Sub(since)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Since(since) > 3*time.Minute {
			c.b.Fatalf("%v does not lead to %v", to, s.endpoints[0])
		}
	}
}

func (c *crowd) ask(to netip.AddrPort) (told labtest.Told, err error) {
	err = lab.InNetns(lab.NetnsPath(c.client), func() error {
		conn, err := net.DialTimeout("tcp", to.String(), 20*time.Millisecond)
		if err != nil {
			return err
		}
		defer conn.Close()
		told, err = labtest.Say(conn)
		return err
	})
	return told, err
}

// BenchmarkServices measures the time from a write to etcd until a pod's connections follow it, on
// a node with CONTIV_BENCH_SERVICES services of 10 endpoints, and with one service of as many
// ports.
func BenchmarkServices(b *testing.B) {
	most := 1_000
	if text := os.Getenv("CONTIV_BENCH_SERVICES"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 10 || most > 50_000 {
			b.Fatalf("CONTIV_BENCH_SERVICES is %q: give a number from 10 to 50000", text)
		}
	}
	c := newCrowd(b)
	for b.Loop() {
		for _, count := range []int{most / 10, most} {
			c.measurePorts(count)
		}
		have := 0
		for _, count := range []int{most / 10, most} {
			var more []crowded
			for ; have < count; have++ {
				s := crowded{number: 1000 + have, ports: 1}
				for e := range 10 {
					s.endpoints = append(s.endpoints, netip.AddrFrom4([4]byte{10, 1, 1, byte(100 + e)}))
				}
				more = append(more, s)
			}
			more[len(more)-1].endpoints = c.servers[:1] // tests only this one
			start := time.Now()
			c.put(more...)
			c.report(fmt.Sprintf("s/%d-services", count), c.await(more[len(more)-1], start).Seconds())
			c.measureChanges(count)
			c.measureRestart(count)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func (c *crowd) report(what string, value float64) {
	c.b.Logf("%.4g %s", value, what)
	c.b.ReportMetric(value, what)
}

func (c *crowd) timed(s crowded) time.Duration {
	c.b.Helper()
	start := time.Now()
	c.put(s)
	return c.await(s, start)
}

func (c *crowd) measurePorts(count int) {
	c.b.Helper()
	s := crowded{number: 999, ports: count, endpoints: c.servers[:1]}
	c.report(fmt.Sprintf("ms/%d-ports-created", count), ms(c.timed(s)))
	s.endpoints = c.servers[1:]
	c.report(fmt.Sprintf("ms/%d-ports-changed", count), ms(c.timed(s)))
	s.ports = 1
	c.report(fmt.Sprintf("ms/%d-ports-but-one-removed", count), ms(c.timed(s)))
}

func (c *crowd) measureChanges(count int) {
	c.b.Helper()
	var added, moved []float64
	for range 20 {
		c.added++
		s := crowded{number: c.added, ports: 1, endpoints: c.servers[:1]}
		added = append(added, ms(c.timed(s)))
		s.endpoints = c.servers[1:]
		moved = append(moved, ms(c.timed(s)))
	}
	slices.Sort(added)
	slices.Sort(moved)
	c.report(fmt.Sprintf("ms/one-more-of-%d", count), added[len(added)/2])
	c.report(fmt.Sprintf("ms/endpoint-changed-of-%d", count), moved[len(moved)/2])
}

// measureRestart checks that a restarted agent does nothing. The first restart may interrupt a
// resync.
func (c *crowd) measureRestart(count int) {
	c.b.Helper()
	var took []float64
	for range 5 {
		start := time.Now()
		if err := c.RestartAgent(c.b.Context(), "node1"); err != nil {
			c.b.Fatal(err)
		}
		took = append(took, time.Since(start).Seconds())
		txns, err := c.Agent("node1").Transactions(c.b.Context(), start)
		if err != nil {
			c.b.Fatal(err)
		}
		for _, op := range lab.Operations(txns...) {
			c.b.Errorf("the restarted agent executed %v %s", op.Operation, op.Key)
		}
		time.Sleep(11 * time.Second) // contiv-init delays the restart of an agent that ran for less than 10 s
	}
	c.b.Logf("restarts with %d: %.2f s", count, took)
	slices.Sort(took)
	c.report(fmt.Sprintf("s/restart-with-%d", count), took[len(took)/2])
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
