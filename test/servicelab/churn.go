package servicelab

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	policies "github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	serviceplugin "github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/oracle"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var (
	churnSeed   = flag.Uint64("churn.seed", 1, "of the steps of Churn")
	churnSteps  = flag.Int("churn.steps", 24, "random changes of the cluster that Churn makes")
	churnProbes = flag.Int("churn.probes", 16, "probes after each batch of them")
)

// Churn changes a cluster at random: services, slices, policies, pods and namespaces. It also kills
// agents, stops etcd, and removes Contiv's objects from the kernel. After each batch of changes, it
// waits for the agents and checks random connections against the oracles: the reached endpoints and
// the source addresses that they see. Unaffected connections and flows must continue.
//
//	steps ──> world ──manifests──> KSR ──> etcd ──> agents ──> vswitches <── disturbances
//	            │                                                  │
//	            └──> oracles of services and policies ──== ?==── probes
func Churn(t *testing.T, l *lab.Lab) {
	c := newChurn(t, l)
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with -churn.seed %d -churn.steps %d; the steps were\n%s", *churnSeed, *churnSteps, strings.Join(c.steps, "\n"))
		}
	}()
	for len(c.steps) < *churnSteps && !t.Failed() {
		c.disturbed = false
		for range 1 + c.Random.IntN(5) {
			c.step(t)
		}
		c.settle(t)
		c.probe(t)
		c.requireSteady(t)
		c.requireNoDrift(t)
	}
}

// churn is a changing cluster of numbered services. Their endpoints are temporary pods in the
// namespaces x and z. The pods and the service of a serviceLab are permanent.
type churn struct {
	*serviceLab
	*policytest.World
	steps []string
	// disturbed is set if the current batch changed the kernel.
	disturbed bool
	stopped   map[string]bool // agents, and "etcd"
	settled   int             // number of batches

	about  map[string]oracle.Node
	pods   map[string]*churnPod // by number
	slices map[string]*endpointslice.EndpointSlice
	all    map[int]*service.Service
	from   []churnClient // permanent clients

	// pins holds endpoints of clients with affinity by service, flows the active UDP flows.
	mu    sync.Mutex
	pins  map[int]map[string]string
	flows map[string]net.Conn

	steady []steady
}

type churnPod struct {
	*pod.Pod
	netns string
	addrs []netip.Addr
	stop  func()
}

func (p *churnPod) id() string { return p.GetNamespace() + "/" + p.GetName() }

type steady struct {
	who, network, name string
	to                 netip.AddrPort
	net.Conn
}

var churnPorts = []int32{80, 81}

func newChurn(t *testing.T, l *lab.Lab) *churn {
	t.Helper()
	c := &churn{
		serviceLab: newServiceLab(t, l), World: policytest.New(*churnSeed), stopped: map[string]bool{}, about: map[string]oracle.Node{},
		pods: map[string]*churnPod{}, slices: map[string]*endpointslice.EndpointSlice{}, all: map[int]*service.Service{}, pins: map[int]map[string]string{}, flows: map[string]net.Conn{},
	}
	for node, zone := range map[string]string{"node1": "east", "node2": "west"} {
		c.about[node] = c.oracleNode(t, node, zone)
	}
	t.Cleanup(func() { c.end(t) })
	for _, ns := range churnNamespaces {
		c.setNamespace(t, ns)
	}
	c.Namespaces["default"] = &namespace.Namespace{Name: "default"}
	c.from = c.lasting(t)
	const number = 90
	c.apply(t, c.service(number, "", ready("near", "far")...))
	for _, from := range c.clients {
		for _, ipv6 := range []bool{false, true} {
			for _, network := range []string{"tcp", "udp"} {
				to := netip.AddrPortFrom(clusterIP(number, ipv6), 80)
				if from.node == "" {
					to = netip.AddrPortFrom(c.nodeIP(ipv6), 30000+number)
				}
				conn, err := labtest.Dial(from.netns, network, to)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				h, err := labtest.Say(conn)
				if err != nil {
					t.Fatalf("%s by %s to %v: %v", from.who, network, to, err)
				}
				c.steady = append(c.steady, steady{from.who, network, h.Name, to, conn})
			}
		}
	}
	return c
}

func (c *churn) oracleNode(t *testing.T, name, zone string) oracle.Node {
	t.Helper()
	var report ipnet.IPAMReport
	if err := c.Agent(name).Get(t.Context(), ipnet.IPAMURL, &report); err != nil {
		t.Fatal(err)
	}
	addrs := labtest.NodeAddresses(t, c.Lab, name)
	n := oracle.Node{Name: name, Zone: zone, Addresses: addrs, NodePorts: addrs}
	for _, text := range []string{report.PodSubnetThisNode, report.Second.PodSubnetThisNode} {
		n.PodSubnets = append(n.PodSubnets, netip.MustParsePrefix(text))
	}
	return n
}

func (c *churn) requireSteady(t *testing.T) {
	t.Helper()
	for i, s := range c.steady {
		h, err := labtest.Say(s)
		for range 2 {
			if err != nil && s.network == "udp" { // a disturbance may have dropped a datagram
				h, err = labtest.Say(s)
			}
		}
		if err == nil && s.network == "udp" && c.disturbed && h.Name != s.name {
			c.steady[i].name, s.name = h.Name, h.Name // the agent recreated the translations
		}
		if err != nil || h.Name != s.name {
			t.Errorf("unaffected traffic of %s with %v by %s: %q answers (%v), want %q", s.who, s.to, s.network, h.Name, err, s.name)
		}
	}
}

// settle starts stopped processes and waits until all agents have applied the manifests.
func (c *churn) settle(t *testing.T) {
	t.Helper()
	c.startAll(t)
	canary := func(n int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: settled%[1]d, namespace: default}\nspec: {clusterIP: %[2]v, ports: [{port: 80}]}\n", n, netip.AddrFrom4([4]byte{10, 97, byte(n >> 8), byte(n)}))
	}
	labtest.Delete(t, c.Lab, canary(c.settled))
	c.settled++
	labtest.Apply(t, c.Lab, canary(c.settled)) // KSR reflects objects in order
	for _, node := range slices.Sorted(maps.Keys(c.about)) {
		await.That(t, node+" has the last service", func() error {
			var report serviceplugin.Report
			if err := c.Agent(node).Get(t.Context(), fmt.Sprintf("%s?service=default/settled%d", serviceplugin.URL, c.settled), &report); err != nil {
				return err
			}
			if len(report.Services) == 0 || len(report.Services[0].Values) == 0 || report.Services[0].Values[0].State != "CONFIGURED" {
				return fmt.Errorf("it is not there: %+v", report.Services)
			}
			return nil
		})
		await.That(t, node+" has configured all values", func() error {
			unsettled, err := c.Agent(node).NotConfigured(t.Context())
			if err == nil && len(unsettled) > 0 {
				err = errors.New(strings.Join(unsettled, "\n"))
			}
			return err
		})
	}
}

func (c *churn) startAll(t *testing.T) {
	t.Helper()
	if c.stopped["etcd"] {
		c.do(t, "etcd starts", c.StartEtcd(t.Context()))
		delete(c.stopped, "etcd")
	}
	for _, node := range slices.Sorted(maps.Keys(c.stopped)) {
		c.startAgent(t, node)
	}
}

func (c *churn) requireNoDrift(t *testing.T) {
	t.Helper()
	for _, node := range slices.Sorted(maps.Keys(c.about)) {
		check := func() error {
			ops, err := c.Agent(node).Drift(t.Context())
			for _, op := range ops {
				err = errors.Join(err, fmt.Errorf("%s: a resync with the vswitch executed %v %s: %v → %v, error %v", node, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr))
			}
			return err
		}
		if err := check(); err != nil {
			t.Error(err)
		}
	}
}

// probe checks random connections in parallel.
func (c *churn) probe(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for range *churnProbes {
		p := c.randomProbe()
		o := c.expected(p)
		if o.skip {
			continue
		}
		all.Go(func() {
			err := c.try(p, o)
			if err == nil {
				return
			}
			begun := time.Now()
			patience := 10 * time.Second
			if c.disturbed {
				patience = 30 * time.Second
			}
			late := err
			for late != nil && time.Since(begun) < patience {
				late = c.try(p, o)
			}
			switch {
			case late != nil:
				t.Errorf("%v: %v; want %v", p, late, o)
			case !c.disturbed:
				t.Errorf("%v: %v; right after another %v; want %v", p, err, time.Since(begun), o)
			}
		})
	}
	all.Wait()
}

func (c *churn) do(t *testing.T, what string, err error) {
	t.Helper()
	c.steps = append(c.steps, fmt.Sprintf("%d (%s) %s", len(c.steps)+1, time.Now().Format("15:04:05.000"), what))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func pick[T any](c *churn, of ...T) T { return of[c.Random.IntN(len(of))] }

func (c *churn) some(of ...string) (list []string) {
	for _, s := range of {
		if c.Chance(50) {
			list = append(list, s)
		}
	}
	return list
}

func (c *churn) step(t *testing.T) {
	t.Helper()
	node := pick(c, "node1", "node2")
	switch n := c.Random.IntN(100); {
	case n < 20:
		c.changeService(t)
	case n < 50:
		c.changeSlice(t)
	case n < 65:
		c.changePod(t)
	case n < 75:
		c.changePolicy(t)
	case n < 79:
		c.setNamespace(t, pick(c, churnNamespaces...))
	case n < 85:
		if !c.stopped[node] {
			c.do(t, "the agent of "+node+" is killed", c.KillAgent(t.Context(), node))
			c.stopped[node] = true
			if c.vpp && node == "node1" { // contiv-init restarts the agent
				c.startAgent(t, node)
			}
		}
	case n < 89:
		if !c.stopped["etcd"] {
			c.do(t, "etcd stops", c.StopEtcd(t.Context()))
			c.stopped["etcd"] = true
		}
	case n < 92:
		c.startAll(t)
	default:
		if !c.vpp || node != "node1" {
			c.disturb(t, node)
		}
	}
}

func (c *churn) startAgent(t *testing.T, node string) {
	t.Helper()
	if c.stopped[node] {
		if c.stopped["etcd"] {
			c.do(t, "the agent of "+node+" starts without etcd", c.StartAgent(t.Context(), node))
		} else {
			c.do(t, "the agent of "+node+" starts", c.StartAgent(t.Context(), node))
		}
		delete(c.stopped, node)
	}
}

func (c *churn) cluster() policies.Cluster {
	cluster := policies.Cluster{}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		cluster.Pods = append(cluster.Pods, c.pods[name].Pod)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Namespaces)) {
		cluster.Namespaces = append(cluster.Namespaces, c.Namespaces[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		cluster.Policies = append(cluster.Policies, c.Policies[name])
	}
	return cluster
}
