package vswitchtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// agent is a scheduler with the descriptors of package vswitch and a driver.
type agent struct {
	*kvscheduler.Scheduler
	t  testing.TB
	vs vswitch.VSwitch
}

func startAgent(t testing.TB, site Site) *agent {
	t.Helper()
	return startAgentOn(t, site.Open(t))
}

func startAgentOn(t testing.TB, vs vswitch.VSwitch) *agent {
	t.Helper()
	s := kvscheduler.New(kvscheduler.Options{})
	if err := descriptors.Register(s, vs); err != nil {
		t.Fatal(err)
	}
	a := &agent{s, t, vs}
	t.Cleanup(a.stop)
	return a
}

func (a *agent) stop() {
	if a.vs != nil {
		a.Close()
		a.vs.Close()
		a.vs = nil
	}
}

// retry is for values that need others without a declared dependency, such as routes whose next hop
// the vswitch must resolve.
var retry = kvscheduler.WithRetry(kvscheduler.Retry{Period: 50 * time.Millisecond, MaxCount: 5})

func (a *agent) resync(values ...proto.Message) []kvscheduler.RecordedOp {
	a.t.Helper()
	txn := a.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	seq, err := txn.Commit(a.t.Context(), kvscheduler.WithResync(kvscheduler.FullResync), retry)
	if err != nil {
		a.t.Errorf("resync: %v", err)
	}
	return a.executed(seq)
}

func (a *agent) put(values ...proto.Message) []kvscheduler.RecordedOp {
	a.t.Helper()
	txn := a.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	seq, err := txn.Commit(a.t.Context(), retry)
	if err != nil {
		a.t.Errorf("put: %v", err)
	}
	return a.executed(seq)
}

func (a *agent) executed(seq uint64) []kvscheduler.RecordedOp {
	record := a.RecordedTxn(seq)
	if record == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(record.Executed), func(op kvscheduler.RecordedOp) bool { return op.NOOP })
}

func wantNothingExecuted(t testing.TB, when string, ops []kvscheduler.RecordedOp) {
	t.Helper()
	for _, op := range ops {
		t.Errorf("%s: executed %v %s\n  was %v\n  now %v\n  error %v", when, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr)
	}
}

func (a *agent) wantConfigured(values []proto.Message) {
	a.t.Helper()
	for _, v := range values {
		status := a.ValueStatus(models.Key(v))
		for _, s := range append([]*pb.ValueStatus{status.GetValue()}, status.GetDerivedValues()...) {
			if s.GetState() != pb.ValueState_CONFIGURED {
				a.t.Errorf("%s is %v: %s %v", s.GetKey(), s.GetState(), s.GetError(), s.GetDetails())
			}
		}
	}
}

func runScheduler(t *testing.T, c Config) {
	t.Run("a resync configures everything, and another one finds nothing to do, also after a restart", func(t *testing.T) {
		site := c.NewSite(t)
		values := topology(t, site, 2).Values()
		a := startAgent(t, site)
		a.resync(values...)
		a.wantConfigured(values)
		wantNothingExecuted(t, "second resync", a.resync(values...))
		a.stop()
		b := startAgent(t, site)
		wantNothingExecuted(t, "resync after a restart", b.resync(values...))
		b.wantConfigured(values)
	})

	t.Run("a resync without values removes all that was ours, also after a restart", func(t *testing.T) {
		site := c.NewSite(t)
		values := topology(t, site, 2).Values()
		damage := site.Foreign(t)
		a := startAgent(t, site)
		a.resync(values...)
		a.stop()
		b := startAgent(t, site)
		b.resync()
		wantNothingExecuted(t, "second resync", b.resync())
		for _, d := range damage() {
			t.Errorf("foreign object: %s", d)
		}
		b.resync(values...)
		b.wantConfigured(values)
	})

	t.Run("a restarted agent has nothing to do after changes", func(t *testing.T) {
		for _, change := range changes {
			t.Run(change.name, func(t *testing.T) {
				site := c.NewSite(t)
				topo := topology(t, site, 2)
				values := topo.Values()
				a := startAgent(t, site)
				a.resync(values...)
				changed := edit(values, change.edit)
				if ops := a.put(changed...); len(ops) == 0 {
					t.Error("the change executed nothing")
				}
				a.wantConfigured(changed)
				a.stop()
				b := startAgent(t, site)
				wantNothingExecuted(t, "resync after the change", b.resync(changed...))
				wantSomethingExecuted(t, "resync back", b.resync(values...))
				wantNothingExecuted(t, "resync after the change back", b.resync(values...))
			})
		}
	})

	t.Run("changes by other programs are reported and repaired", func(t *testing.T) {
		for _, accident := range c.NewSite(t).Accidents() {
			t.Run(accident.Name, func(t *testing.T) {
				site := c.NewSite(t)
				for _, own := range site.Accidents() {
					if own.Name == accident.Name {
						testAccident(t, site, own, topology(t, site, 2).Values())
					}
				}
			})
		}
	})

	t.Run("changes by the driver are not reported", func(t *testing.T) {
		site := c.NewSite(t)
		a := startAgent(t, site)
		values := topology(t, site, 2).Values()
		reports := a.watch(t.Context())
		a.resync()
		a.resync(values...)
		// Reports are ordered, so an accident marks the end.
		accident := site.Accidents()[0]
		accident.Do(t)
		for {
			r := reports.next(t)
			if slices.ContainsFunc(accident.Keys, func(key string) bool { return slices.Contains(r.keys, key) }) {
				return
			}
			for _, key := range r.keys {
				if s := a.ValueStatus(key).GetValue().GetState(); s != pb.ValueState_NONEXISTENT {
					t.Errorf("reported without a cause: %s: %s", r.reason, key)
				}
			}
		}
	})
}

func wantSomethingExecuted(t testing.TB, when string, ops []kvscheduler.RecordedOp) {
	t.Helper()
	if len(ops) == 0 {
		t.Errorf("%s: nothing was executed", when)
	}
}

func testAccident(t *testing.T, site Site, accident Accident, values []proto.Message) {
	a := startAgent(t, site)
	a.resync(values...)
	a.wantConfigured(values)
	reports := a.watch(t.Context())
	before := a.lastSeqNum()
	accident.Do(t)

	for reported := false; !reported; {
		r := reports.next(t)
		if r.reason == "" {
			t.Errorf("a report without a reason: %v", r.keys)
		}
		reported = slices.ContainsFunc(accident.Keys, func(key string) bool { return slices.Contains(r.keys, key) })
		if err := a.ReportDrift(r.reason, r.keys...); err != nil {
			t.Fatal(err)
		}
	}
	for range 25 { // reports may arrive late
		if reports.drain(a); a.intact(values) {
			break
		}
	}
	repaired := false
	for _, txn := range a.History(time.Time{}, time.Time{}) {
		repaired = repaired || txn.SeqNum > before && len(txn.Executed) > 0
	}
	if !repaired {
		t.Error("no transaction repaired it")
	}
	a.stop()
	b := startAgent(t, site)
	wantNothingExecuted(t, "resync after the repair", b.resync(values...))
	b.wantConfigured(values)
}

func (a *agent) intact(values []proto.Message) bool {
	var keys []string
	for _, v := range values {
		keys = append(keys, models.Key(v))
	}
	differences, err := a.Verify(a.t.Context(), keys...)
	return err == nil && len(differences) == 0
}

func (a *agent) lastSeqNum() (last uint64) {
	for _, txn := range a.History(time.Time{}, time.Time{}) {
		last = max(last, txn.SeqNum)
	}
	return last
}

type reportQueue chan reported

type reported struct {
	reason string
	keys   []string
}

func (a *agent) watch(ctx context.Context) reportQueue {
	a.t.Helper()
	queue := make(reportQueue, 100)
	err := a.vs.Watch(ctx, func(reason string, keys ...string) { queue <- reported{reason, keys} })
	if err != nil {
		a.t.Fatal(err)
	}
	return queue
}

func (q reportQueue) next(t testing.TB) reported {
	t.Helper()
	select {
	case r := <-q:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no report")
		return reported{}
	}
}

// drain forwards reports until no more arrive and waits for the repairs.
func (q reportQueue) drain(a *agent) {
	for {
		if err := a.Barrier(a.t.Context()); err != nil {
			a.t.Fatal(err)
		}
		select {
		case r := <-q:
			if err := a.ReportDrift(r.reason, r.keys...); err != nil {
				a.t.Fatal(err)
			}
		case <-time.After(200 * time.Millisecond): // several collection intervals of reports
			return
		}
	}
}

// edit returns the values with modified copies where fn changes them.
func edit(values []proto.Message, fn func(proto.Message) proto.Message) []proto.Message {
	edited := slices.Clone(values)
	for i, v := range edited {
		if e := fn(proto.Clone(v)); e != nil {
			edited[i] = e
		}
	}
	return edited
}

func editInterface(name string, fn func(*vpp_interfaces.Interface)) func(proto.Message) proto.Message {
	return func(v proto.Message) proto.Message {
		iface, ok := v.(*vpp_interfaces.Interface)
		if !ok || iface.GetName() != name {
			return nil
		}
		fn(iface)
		return iface
	}
}

var tap1 = Topology{}.Tap(1)

var changes = []struct {
	name string
	edit func(proto.Message) proto.Message
}{
	{"MTU of a TAP", editInterface(tap1, func(i *vpp_interfaces.Interface) { i.Mtu = 1400 })},
	{"MAC of a TAP", editInterface(tap1, func(i *vpp_interfaces.Interface) { i.PhysAddress = "02:01:00:00:AA:BB" })},
	{"TAP with an address of its own", editInterface(tap1, func(i *vpp_interfaces.Interface) {
		i.Unnumbered, i.IpAddresses = nil, []string{"10.9.0.1/24", "fd00:9::1/64"}
	})},
	{"loopback becomes a TAP", editInterface(GatewayLoop, func(i *vpp_interfaces.Interface) {
		i.Type, i.Link = vpp_interfaces.Interface_TAP, &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{}}
	})},
	{"address of the gateway", editInterface(GatewayLoop, func(i *vpp_interfaces.Interface) { i.IpAddresses = []string{"10.1.1.254/24"} })},
	{"second address of the gateway", editInterface(GatewayLoop, func(i *vpp_interfaces.Interface) {
		i.IpAddresses = append(i.IpAddresses, "fd00:10:1::1/64")
	})},
	{"MAC of the virtual interface", editInterface(BVI, func(i *vpp_interfaces.Interface) { i.PhysAddress = "12:2b:00:00:00:99" })},
	{"destination of a tunnel", editInterface(tunnelName(2), func(i *vpp_interfaces.Interface) { i.GetVxlan().DstAddress = "192.168.16.22" })},
	{"bridge domain that learns and floods", func(v proto.Message) proto.Message {
		if bd, ok := v.(*vpp_l2.BridgeDomain); ok {
			bd.Learn, bd.Flood, bd.UnknownUnicastFlood, bd.MacAge = true, true, true, 5
			return bd
		}
		return nil
	}},
	{"interfaces of the bridge domain", func(v proto.Message) proto.Message {
		if bd, ok := v.(*vpp_l2.BridgeDomain); ok {
			bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: tap1, SplitHorizonGroup: 1})
			return bd
		}
		return nil
	}},
	{"MAC of neighbours", func(v proto.Message) proto.Message {
		if e, ok := v.(*vpp_l3.ARPEntry); ok && e.GetInterface() == BVI {
			e.PhysAddress = strings.Replace(e.GetPhysAddress(), "12:2b", "12:2c", 1)
			return e
		}
		return nil
	}},
	{"preference of routes", func(v proto.Message) proto.Message {
		if r, ok := v.(*vpp_l3.Route); ok && r.GetOutgoingInterface() == BVI {
			r.Preference = 7
			return r
		}
		return nil
	}},
}
