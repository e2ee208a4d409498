package families

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var serial atomic.Int32

// netns is a named network namespace.
type netns struct {
	t    testing.TB
	name string
}

func newNetNS(t testing.TB) netns {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	n := netns{t, fmt.Sprintf("fam%d-%d", os.Getpid(), serial.Add(1))}
	run(t, "ip", "netns", "add", n.name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", n.name) })
	n.ip("link", "set", "lo", "up")
	return n
}

func (n netns) path() string { return models.NetNSDir + "/" + n.name }

func (n netns) ip(args ...string) string {
	n.t.Helper()
	return run(n.t, "ip", append([]string{"-n", n.name}, args...)...)
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// agent is a node's southbound in a namespace, like in the agent.
type agent struct {
	*kvscheduler.Scheduler
	t       testing.TB
	node    netns
	vs      vswitch.VSwitch
	lin     *linux.Plugin
	unwatch func()
}

func startAgent(t testing.TB, node netns) *agent {
	t.Helper()
	vs, err := kernel.New(kernel.Options{NetNS: node.path()})
	if err != nil {
		t.Fatal(err)
	}
	scheduler := kvscheduler.New(kvscheduler.Options{})
	lin, err := linux.New(scheduler, linux.Options{NetNS: node.path()})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{Scheduler: scheduler, t: t, node: node, vs: vs, lin: lin}
	err = errors.Join(netalloc.Register(a.Scheduler), descriptors.Register(a.Scheduler, vs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.stop)
	return a
}

// watch reports drift to the scheduler until the agent stops.
func (a *agent) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	report := func(reason string, keys ...string) { _ = a.ReportDrift(reason, keys...) }
	go func() { done <- a.vs.Watch(ctx, report) }()
	go func() { done <- a.lin.Watch(ctx, report) }()
	a.unwatch = func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				a.t.Error(err)
			}
		}
	}
}

// stop ends the agent and leaves its configuration.
func (a *agent) stop() {
	if a.vs == nil {
		return
	}
	if a.unwatch != nil {
		a.unwatch()
	}
	a.Close()
	a.lin.Close()
	a.vs.Close()
	a.vs = nil
}

func (a *agent) put(values ...proto.Message) {
	a.t.Helper()
	txn := a.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	if _, err := txn.Commit(a.t.Context(), kvscheduler.WithDefaultRetry()); err != nil {
		a.t.Log(err)
	}
}

func (a *agent) delete(values ...proto.Message) {
	a.t.Helper()
	txn := a.NewTransaction()
	for _, v := range values {
		txn.Delete(models.Key(v))
	}
	if _, err := txn.Commit(a.t.Context()); err != nil {
		a.t.Error(err)
	}
}

// resync requests exactly the values, or without values the previous ones, and returns the
// operations that reached the kernel.
func (a *agent) resync(values ...proto.Message) (executed []string) {
	a.t.Helper()
	txn := a.NewTransaction()
	kind := kvscheduler.DownstreamResync
	for _, v := range values {
		kind = kvscheduler.FullResync
		txn.Put(models.Key(v), v)
	}
	seq, err := txn.Commit(a.t.Context(), kvscheduler.WithResync(kind))
	if err != nil {
		a.t.Error(err)
	}
	record := a.RecordedTxn(seq)
	if record == nil {
		return nil
	}
	for _, op := range record.Executed {
		if !op.NOOP {
			executed = append(executed, fmt.Sprintf("%v %s (was %v, now %v): %v", op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr))
		}
	}
	return executed
}

// become waits until the values and their derived values are in the state.
func (a *agent) become(state pb.ValueState, values ...proto.Message) {
	a.t.Helper()
	for _, v := range values {
		await.That(a.t, fmt.Sprintf("%s is %v", models.Key(v), state), func() error { return a.in(state, v) })
	}
}

func (a *agent) in(state pb.ValueState, v proto.Message) error {
	status := a.ValueStatus(models.Key(v))
	for _, s := range append([]*pb.ValueStatus{status.GetValue()}, status.GetDerivedValues()...) {
		if s.GetState() != state {
			return fmt.Errorf("%s is %v: %s %v", s.GetKey(), s.GetState(), s.GetError(), s.GetDetails())
		}
	}
	return nil
}
