package hostile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/internal/vswitch/vpp"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

const root = "../.."

// perModel returns the number of values per model.
func perModel(n int) int {
	if os.Getenv("HOSTILE_LONG") != "" {
		return 0
	}
	return n
}

var quiet = slog.New(slog.DiscardHandler)

// agent is the southbound of an agent: a scheduler with all descriptors.
type agent struct {
	*kvscheduler.Scheduler
	t     testing.TB
	open  func() vswitch.VSwitch
	netns string
	close func()
}

func (a *agent) start() {
	a.t.Helper()
	a.Scheduler = kvscheduler.New(kvscheduler.Options{Logger: quiet, CallTimeout: 10 * time.Second})
	lin, err := linux.New(a.Scheduler, linux.Options{NetNS: pathOf(a.netns), Logger: quiet})
	if err != nil {
		a.t.Fatal(err)
	}
	vs := a.open()
	if err := errors.Join(netalloc.Register(a.Scheduler), descriptors.Register(a.Scheduler, vs)); err != nil {
		a.t.Fatal(err)
	}
	a.close = func() {
		a.Scheduler.Close()
		lin.Close()
		vs.Close()
	}
}

func (a *agent) restart() {
	a.t.Helper()
	a.close()
	a.start()
}

func pathOf(netns string) string { return filepath.Join(models.NetNSDir, netns) }

func addNetns(t testing.TB, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	run(t, "ip", "netns", "add", name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	run(t, "ip", "-n", name, "link", "set", "lo", "up")
	return name
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func goodValues(pod string) []proto.Message {
	loop := func(name, address string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: []string{address}}
	}
	return []proto.Message{
		loop("good-loop", "10.99.0.1/24"),
		loop("good-bvi", "10.99.1.1/24"),
		&vpp_l2.BridgeDomain{Name: "good-bd", Flood: true, Forward: true, Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "good-bvi", BridgedVirtualInterface: true}}},
		&vpp_l3.Route{DstNetwork: "10.99.2.0/24", NextHopAddr: "10.99.0.2", OutgoingInterface: "good-loop"},
		&vpp_l3.ARPEntry{Interface: "good-loop", IpAddress: "10.99.0.2", PhysAddress: "02:00:00:00:00:02", Static: true},
		&vpp_acl.ACL{Name: "good-acl", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_PERMIT, IpRule: &vpp_acl.ACL_Rule_IpRule{}}}, Interfaces: &vpp_acl.ACL_Interfaces{Ingress: []string{"good-loop"}}},
		&vpp_nat.Nat44Global{EndpointIndependent: false},
		&vpp_nat.DNat44{Label: "good-svc", StMappings: []*vpp_nat.DNat44_StaticMapping{{
			ExternalIp: "10.96.99.1", ExternalPort: 80, Protocol: vpp_nat.DNat44_TCP,
			LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.99.0.5", LocalPort: 8080}},
		}}},
		&linux_interfaces.Interface{Name: "good-lo", Type: linux_interfaces.Interface_LOOPBACK, Enabled: true, IpAddresses: []string{"127.0.0.1/8"},
			Namespace: &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: pod}},
	}
}

var overlap = []string{"good-loop", "good-bvi", "good-bd", "good-svc", "10.99.0.1/24", "10.99.0.2", "10.96.99.1", "10.99.2.0/24", "02:00:00:00:00:02"}

func TestKernel(t *testing.T) {
	netns := addNetns(t, "hostile")
	hostileValues(t, netns, perModel(200), func() vswitch.VSwitch {
		vs, err := kernel.New(kernel.Options{NetNS: pathOf(netns), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return vs
	}, nil, func() string {
		return run(t, "ip", "-n", netns, "-br", "link") + run(t, "ip", "-n", netns, "rule") + run(t, "ip", "-n", netns, "-6", "rule") +
			run(t, "ip", "-n", netns, "route", "show", "table", "all", "proto", "99") + elements(run(t, "ip", "netns", "exec", netns, "nft", "list", "ruleset"))
	})
}

// elements returns the elements of sets and maps in a ruleset. The sets and the rules that use them
// are kept for later values.
func elements(ruleset string) string {
	var list []string
	for line := range strings.Lines(ruleset) {
		if strings.Contains(line, "elements = {") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

func TestVPPSimulator(t *testing.T) {
	server := vpptest.New(t)
	hostileValues(t, addNetns(t, "hostile-vpp"), perModel(200), func() vswitch.VSwitch {
		vs, err := vpp.New(t.Context(), vpp.Options{Socket: server.Socket(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return vs
	}, takesGoodRoute, func() string { return "" })
}

// takesGoodRoute reports whether an interface has an address in the network of a valid route, which
// VPP would then lose.
func takesGoodRoute(v Keyed) bool {
	iface, ok := v.Message.(*vpp_interfaces.Interface)
	return ok && slices.ContainsFunc(iface.GetIpAddresses(), func(text string) bool { return strings.HasPrefix(text, "10.99.2.") })
}

// TestVPP tests a real VPP: make test-vpp VPP_BIN=/usr/bin/vpp.
func TestVPP(t *testing.T) {
	vpptest.Need(t)
	netns := addNetns(t, "hostile-real-vpp")
	p := vpptest.NewProcess(t, pathOf(netns))
	hostileValues(t, netns, perModel(200), func() vswitch.VSwitch {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // VPP may have crashed
		defer cancel()
		vs, err := vpp.New(ctx, vpp.Options{Socket: p.Socket(), StatsSocket: p.StatsSocket(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return vs
	}, takesGoodRoute, func() string {
		var text strings.Builder
		for _, command := range []string{
			"show interface addr", "show bridge-domain", "show l2fib", "show acl-plugin acl", "show acl-plugin macip acl", "show classify tables", "show nat44 static mappings",
			"show nat44 addresses", "show cnat translation", "show abf policy", "show sr policies", "show sr localsids", "show vxlan tunnel", "show wireguard peer",
		} {
			fmt.Fprintf(&text, "%s:\n%s\n", command, p.CLI(command))
		}
		return text.String()
	})
}

// hostileValues configures hostile values of all models together with valid ones. leaveOut may be
// nil.
func hostileValues(t *testing.T, netns string, perModel int, open func() vswitch.VSwitch, leave func(Keyed) bool, southbound func() string) {
	a := &agent{t: t, netns: netns, open: open}
	a.start()
	t.Cleanup(func() { a.close() })
	before := southbound()
	c := &course{agent: a, good: map[string]proto.Message{}, hostile: map[string]Keyed{}}
	for _, v := range goodValues(addNetns(t, netns+"-pod")) {
		c.good[models.Key(v)] = v
	}
	c.resync("the beginning")

	var values []Keyed
	for _, m := range models.All() {
		taken := map[string]bool{}
		for key := range c.good {
			taken[key] = true
		}
		values = append(values, OfModel(t, root, m, perModel, overlap, taken)...)
	}
	if leave != nil {
		values = slices.DeleteFunc(values, leave)
	}
	layers := Layers(values)
	t.Logf("%d values in %d layers", len(values), len(layers))
	const between = 20 // layers between two restarts
	for i, layer := range layers {
		c.put(layer)
		if i%between == 0 || i == len(layers)-1 {
			c.resync(fmt.Sprintf("resync after layer %d", i))
			a.restart()
			c.resync(fmt.Sprintf("restart after layer %d", i))
		}
		if t.Failed() {
			return
		}
	}
	c.remove()
	c.good = nil
	c.resync("the end")
	for _, status := range a.ValueStatuses("") {
		if s := status.GetValue(); s.GetState() != pb.ValueState_OBTAINED {
			t.Errorf("left: %s is %v: %.300s", s.GetKey(), s.GetState(), s.GetError())
		}
	}
	a.close()
	if after := southbound(); after != before {
		t.Errorf("left in the southbound:\n%s\nbefore it was:\n%s", after, before)
	}
	a.start()
}

type course struct {
	*agent
	good    map[string]proto.Message
	hostile map[string]Keyed
}

func (c *course) put(values []Keyed) {
	c.t.Helper()
	txn := c.NewTransaction()
	for _, v := range values {
		c.hostile[v.Key] = v
		txn.Put(v.Key, v.Message)
	}
	c.commit(txn, fmt.Sprintf("put of %d values", len(values)))
}

func (c *course) resync(when string) {
	c.t.Helper()
	txn := c.NewTransaction()
	for key, v := range c.good {
		txn.Put(key, v)
	}
	for key, v := range c.hostile {
		txn.Put(key, v.Message)
	}
	c.commit(txn, when, kvscheduler.WithResync(kvscheduler.FullResync))
}

func (c *course) remove() {
	c.t.Helper()
	txn := c.NewTransaction()
	for key := range c.hostile {
		txn.Delete(key)
	}
	c.commit(txn, "removal")
	for key, v := range c.hostile {
		if s := c.ValueStatus(key).GetValue(); s.GetState() != pb.ValueState_NONEXISTENT {
			c.t.Errorf("removed, but %s (%s) is %v: %.300s", key, v.What, s.GetState(), s.GetError())
		}
	}
	clear(c.hostile)
	c.commit(c.NewTransaction(), "resync after the removal", kvscheduler.WithResync(kvscheduler.DownstreamResync))
}

// commit commits and checks that only hostile values failed.
func (c *course) commit(txn *kvscheduler.Transaction, when string, opts ...kvscheduler.TxnOption) {
	c.t.Helper()
	start := time.Now()
	_, err := txn.Commit(c.t.Context(), opts...)
	if took := time.Since(start); took > 2*time.Minute { // hangs
		c.t.Errorf("%s took %v", when, took)
	}
	if failed, ok := errors.AsType[*kvscheduler.TransactionError](err); ok {
		for _, e := range failed.Errors {
			if c.isHostile(e.Key) {
				if panicked := (*kvscheduler.PanicError)(nil); errors.As(e, &panicked) || errors.Is(e, kvscheduler.ErrDeadline) {
					c.t.Errorf("%s: %s: %.2000v", when, c.what(e.Key), e)
				}
				continue
			}
			c.t.Errorf("%s: %.500v", when, e)
		}
	} else if err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
	for _, key := range slices.Sorted(maps.Keys(c.good)) {
		status := c.ValueStatus(key)
		for _, s := range append(status.GetDerivedValues(), status.GetValue()) {
			if s.GetState() != pb.ValueState_CONFIGURED {
				c.t.Errorf("%s: %s is %v: %.300s %v", when, s.GetKey(), s.GetState(), s.GetError(), s.GetDetails())
			}
		}
	}
}

// isHostile reports whether a key belongs neither to a valid value nor to one of its derived
// values.
func (c *course) isHostile(key string) bool {
	for good := range c.good {
		if key == good || slices.ContainsFunc(c.ValueStatus(good).GetDerivedValues(), func(s *pb.ValueStatus) bool { return s.GetKey() == key }) {
			return false
		}
	}
	return key != ""
}

func (c *course) what(key string) string { return c.hostile[key].What }
