package linux

import (
	"fmt"
	"os/exec"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/microservices"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func inMicroservice(label string) *linux_namespace.NetNamespace {
	return &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: label}
}

// intoMicroservice returns a veth pair between the agent's namespace and the microservice "cnf",
// and a route inside it. All values except the first wait for the microservice; the first waits for
// its peer.
func intoMicroservice() []proto.Message {
	end := func(name, peer, addr string, ns *linux_namespace.NetNamespace) proto.Message {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Enabled: true, IpAddresses: []string{addr}, Namespace: ns,
			Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	return []proto.Message{
		end("far", "near", "10.72.0.2/24", inMicroservice("cnf")),
		end("near", "far", "10.72.0.1/24", nil),
		&linux_l3.Route{OutgoingInterface: "far", Scope: linux_l3.Route_GLOBAL, DstNetwork: "10.73.0.0/16", GwAddr: "10.72.0.1"},
	}
}

// runs reports that the microservice "cnf" runs in a network namespace, or nowhere if netns is "".
func (a *agent) runs(netns string) {
	a.t.Helper()
	running := map[string]microservices.Place{}
	if netns != "" {
		running["cnf"] = microservices.Place{NetNS: pathOf(netns), ID: netns}
	}
	if err := a.SetMicroservices(running); err != nil {
		a.t.Fatal(err)
	}
	a.commit(a.scheduler.NewTransaction()) // runs after everything queued before
}

func (a *agent) waits(values ...proto.Message) {
	a.t.Helper()
	for _, v := range values {
		if status := a.scheduler.ValueStatus(models.Key(v)).GetValue(); status.GetState() != pb.ValueState_PENDING {
			a.t.Errorf("%s is %v %s, want PENDING", status.GetKey(), status.GetState(), status.GetError())
		}
	}
	far := a.scheduler.ValueStatus(models.Key(values[0])).GetValue()
	contains(a.t, fmt.Sprint(far.GetDetails()), "microservice-available")
}

func reaches(t testing.TB, netns string) {
	t.Helper()
	pings(t, netns, "10.72.0.1", true)
	contains(t, ip(t, "-n", netns, "route"), "10.73.0.0/16 via 10.72.0.1")
}

// Values and microservices may come in either order. A microservice that ends takes its values
// along; its successor gets them again.
func TestValuesFollowTheirMicroservice(t *testing.T) {
	a, first, second := newAgent(t), netNSName(t), netNSName(t)
	values := intoMicroservice()
	a.commit(a.put(values...))
	a.waits(values...)

	a.runs(first)
	a.inState(pb.ValueState_CONFIGURED, values...)
	reaches(t, first)

	// A new instance runs while the namespace of the first still exists.
	a.runs(second)
	a.inState(pb.ValueState_CONFIGURED, values...)
	reaches(t, second)
	lacks(t, ip(t, "-n", first, "link"), "far", "contiv")

	a.runs("")
	a.waits(values...)
	lacks(t, ip(t, "-n", second, "link"), "far", "contiv")

	// The microservice comes first.
	a.commit(a.delete(values...))
	a.runs(first)
	a.commit(a.put(values...))
	a.inState(pb.ValueState_CONFIGURED, values...)
	reaches(t, first)
	a.commit(a.delete(values...))
	lacks(t, ip(t, "-n", first, "link"), "far", "contiv")
}

// The namespace may disappear before the microservice is reported gone.
func TestValuesOutliveTheNamespaceOfTheirMicroservice(t *testing.T) {
	a, first, second := newAgent(t), netNSName(t), netNSName(t)
	values := intoMicroservice()
	a.runs(first)
	a.commit(a.put(values...))
	a.namespaces.CloseIdle()
	ip(t, "netns", "del", first)
	a.runs("")
	a.waits(values...)
	a.runs(second)
	a.inState(pb.ValueState_CONFIGURED, values...)
	reaches(t, second)
}

// A restarted agent finds its values in microservices, whether it learns of them before or after
// its first resync, and removes unrequested ones.
func TestValuesOfMicroservicesSurviveARestart(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	values := intoMicroservice()
	a.runs(netns)
	a.commit(a.put(values...))

	a.restart()
	if err := a.SetMicroservices(map[string]microservices.Place{"cnf": {NetNS: pathOf(netns), ID: netns}}); err != nil {
		t.Fatal(err)
	}
	txn := a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))
	if ops := operations(txn); len(ops) > 0 {
		t.Errorf("the resync did something: %v", ops)
	}
	a.inState(pb.ValueState_CONFIGURED, values...)
	a.commit(a.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.DownstreamResync))
	a.inState(pb.ValueState_CONFIGURED, values...)

	a.restart()
	a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))
	a.runs(netns)
	a.inState(pb.ValueState_CONFIGURED, values...)
	reaches(t, netns)

	dummy := &linux_interfaces.Interface{Name: "lo-cnf", Type: linux_interfaces.Interface_LOOPBACK, Enabled: true,
		IpAddresses: []string{"10.72.9.9/32"}, Namespace: inMicroservice("cnf")}
	a.commit(a.put(dummy))
	contains(t, ip(t, "-n", netns, "addr"), "10.72.9.9/32")
	a.restart()
	a.runs(netns)
	a.commit(a.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.FullResync))
	lacks(t, ip(t, "-n", netns, "addr"), "10.72.9.9", "contiv")
}

func TestRuleChainsInMicroservices(t *testing.T) {
	needsIPTables(t)
	a, netns := newAgent(t), netNSName(t)
	ip(t, "-n", netns, "link", "set", "lo", "up")
	chain := inputChain("no-echo", netns, "-p icmp -j DROP")
	chain.Namespace = inMicroservice("cnf")
	a.commit(a.put(chain))
	a.waits(chain)
	a.runs(netns)
	a.inState(pb.ValueState_CONFIGURED, chain)
	contains(t, runIn(t, netns, "iptables-save"), "-p icmp -j DROP")
	a.runs("")
	a.waits(chain)
	if out, err := exec.Command("ip", "netns", "exec", netns, "iptables-save").CombinedOutput(); err != nil {
		t.Fatal(err)
	} else {
		lacks(t, string(out), "DROP")
	}
}
