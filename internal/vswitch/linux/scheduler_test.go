package linux

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// agent is a node with a scheduler, whose vswitch knows only TAPs.
type agent struct {
	*node
	unwatch func()
}

func newAgent(t testing.TB) *agent {
	t.Helper()
	a := &agent{node: newNode(t)}
	a.start()
	return a
}

func (a *agent) start() {
	a.t.Helper()
	if err := kvscheduler.Register(a.scheduler, a.taps()); err != nil {
		a.t.Fatal(err)
	}
	if err := netalloc.Register(a.scheduler); err != nil {
		a.t.Fatal(err)
	}
}

// restart starts again with empty caches.
func (a *agent) restart() {
	a.t.Helper()
	if a.unwatch != nil {
		a.unwatch()
	}
	a.node.restart()
	a.start()
}

type vppItem = kvscheduler.Item[*vpp_interfaces.Interface, kvscheduler.NoMetadata]

// taps stands in for the kernel vswitch's interface descriptor.
func (a *agent) taps() kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "vpp-interface", Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()}, NB: true,
		Create: func(_ context.Context, _ string, v *vpp_interfaces.Interface) (none kvscheduler.NoMetadata, err error) {
			home := v.GetTap().GetHostNamespace()
			if home == nil {
				a.addTap(v.GetName())
				return none, nil
			}
			if _, err := a.namespaces.Identify(home); err != nil {
				return none, err
			}
			a.addTapIn(v.GetName(), filepath.Base(home.GetReference()))
			return none, nil
		},
		Delete: func(_ context.Context, _ string, v *vpp_interfaces.Interface, _ kvscheduler.NoMetadata) error {
			links, err := a.namespaces.Own.Links()
			if link := findByAlias(links, vppAliasPrefix+v.GetName()); link != nil {
				return a.namespaces.Own.DeleteLink(link.Attrs().Index)
			}
			return err
		},
		Retrieve: func(_ context.Context, expected []vppItem) (items []vppItem, err error) {
			links, err := a.namespaces.Own.Links()
			for _, item := range expected {
				if findByAlias(links, vppAliasPrefix+item.Value.GetName()) != nil {
					items = append(items, vppItem{Key: item.Key, Value: item.Value, Origin: kvscheduler.FromNB})
				}
			}
			return items, err
		},
	}
}

func (a *agent) commit(txn *kvscheduler.Transaction, opts ...kvscheduler.TxnOption) *kvscheduler.RecordedTxn {
	a.t.Helper()
	seq, err := txn.Commit(context.Background(), opts...)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.scheduler.RecordedTxn(seq)
}

func (a *agent) put(values ...proto.Message) *kvscheduler.Transaction {
	txn := a.scheduler.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	return txn
}

func (a *agent) delete(values ...proto.Message) *kvscheduler.Transaction {
	txn := a.scheduler.NewTransaction()
	for _, v := range values {
		txn.Delete(models.Key(v))
	}
	return txn
}

func (a *agent) inState(state pb.ValueState, values ...proto.Message) {
	a.t.Helper()
	for _, v := range values {
		status := a.scheduler.ValueStatus(models.Key(v))
		for _, s := range append(status.GetDerivedValues(), status.GetValue()) {
			if s.GetState() != state {
				a.t.Errorf("%s is %v %s %v, want %v", s.GetKey(), s.GetState(), s.GetError(), s.GetDetails(), state)
			}
		}
	}
}

func podWithTap(id, netns, addr, gw string) (pod, []proto.Message) {
	p := newPod(id, netns, addr, gw)
	tap := &vpp_interfaces.Interface{
		Name: "vpp-tap-" + id, Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{HostNamespace: byPath(netns)}},
	}
	return p, append(p.values(), tap)
}

func operations(txn *kvscheduler.RecordedTxn) (ops []string) {
	if txn == nil {
		return nil
	}
	for _, op := range txn.Executed {
		if !op.NOOP {
			ops = append(ops, fmt.Sprintf("%v %s", op.Operation, op.Key))
		}
	}
	return ops
}

func TestSchedulerWiresAPodAndARestartChangesNothing(t *testing.T) {
	for _, test := range []struct{ name, addr, gw string }{
		{"IPv4", "10.1.1.2", "10.1.1.1"},
		{"IPv6", "fd00:1::2", "fd00:1::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, netns := newAgent(t), netNSName(t)
			_, values := podWithTap("1", netns, test.addr, test.gw)
			a.commit(a.put(values...), kvscheduler.WithRevert())
			a.inState(pb.ValueState_CONFIGURED, values...)

			a.restart()
			txn := a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))
			if ops := operations(txn); len(ops) > 0 {
				t.Errorf("the resync did something:\n%s", strings.Join(ops, "\n"))
			}
			a.inState(pb.ValueState_CONFIGURED, values...)

			a.commit(a.delete(values...))
			lacks(t, a.ip("link"), "contiv", "tap-")
			lacks(t, ip(t, "-n", netns, "link"), "eth0", "contiv")
		})
	}
}

func TestSchedulerRemovesWhatARestartFindsTooMuch(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	p, values := podWithTap("1", netns, "10.1.1.2", "10.1.1.1")
	a.commit(a.put(values...))
	a.restart()
	tap := proto.Clone(p.tap).(*linux_interfaces.Interface)
	tap.IpAddresses = []string{"10.1.1.7/32"}
	a.commit(a.put(tap, p.gwRoute, values[len(values)-1]), kvscheduler.WithResync(kvscheduler.FullResync))
	a.inState(pb.ValueState_CONFIGURED, tap, p.gwRoute)
	lacks(t, ip(t, "-n", netns, "addr"), "10.1.1.2", "linux-loop")
	contains(t, ip(t, "-n", netns, "addr"), "10.1.1.7/32", "127.0.0.1/8")
	lacks(t, ip(t, "-n", netns, "route"), "default")
	lacks(t, ip(t, "-n", netns, "neigh"), "PERMANENT")
}

func TestPodIsDeletedAfterItsNamespace(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	_, values := podWithTap("1", netns, "10.1.1.2", "10.1.1.1")
	a.commit(a.put(values...))
	ip(t, "netns", "del", netns)
	a.commit(a.delete(values...))
	a.inState(pb.ValueState_NONEXISTENT, values...)
	a.namespaces.CloseIdle()
	lacks(t, a.ip("link"), "contiv", "tap-")
}

func TestPodWithoutNamespaceIsReverted(t *testing.T) {
	a := newAgent(t)
	_, values := podWithTap("1", "no-such-namespace", "10.1.1.2", "10.1.1.1")
	_, err := a.put(values...).Commit(context.Background(), kvscheduler.WithRevert())
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "no-such-namespace", namespaces.ErrGone.Error())
	lacks(t, a.ip("link"), "contiv", "tap-")
}

// watch runs Watch and lets the scheduler handle its reports.
func (a *agent) watch() {
	a.t.Helper()
	scheduler := a.scheduler
	a.watchWith(func(reason string, keys ...string) {
		if err := scheduler.ReportDrift(reason, keys...); err != nil {
			a.t.Error(err)
		}
	})
}

// watchWith runs Watch until the test ends or the agent restarts.
func (a *agent) watchWith(report func(reason string, keys ...string)) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	plugin := a.Plugin
	go func() { done <- plugin.Watch(ctx, report) }()
	a.unwatch = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(a.unwatch)
	a.awaitEvents()
}

// lastTxn returns the last recorded transaction whose description contains the text.
func (a *agent) lastTxn(text string) *kvscheduler.RecordedTxn {
	history := a.scheduler.History(time.Time{}, time.Time{})
	for i := len(history) - 1; i >= 0; i-- {
		if strings.Contains(history[i].Description, text) {
			return history[i]
		}
	}
	return nil
}

func TestDriftIsRepairedByARecordedTransaction(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	_, values := podWithTap("1", netns, "10.1.1.2", "10.1.1.1")
	a.commit(a.put(values...))
	a.watch()
	for _, test := range []struct{ change, reason string }{
		{"route del default", "default route of linux-tap-1 was deleted"},
		{"neigh del 10.1.1.1 dev eth0", "neighbour 10.1.1.1 of linux-tap-1 was deleted"},
		{"link set eth0 mtu 1400", "interface linux-tap-1 got MTU 1400"},
		{"link set eth0 down", "interface linux-tap-1 was set down"},
		{"addr del 10.1.1.2/32 dev eth0", "address 10.1.1.2/32 of linux-tap-1 was deleted"},
		{"addr flush dev lo", "of linux-loop-1 was deleted"},
	} {
		ip(t, append([]string{"-n", netns}, strings.Fields(test.change)...)...)
		waitFor(t, func() bool { return a.lastTxn(test.reason) != nil }, "a transaction records that "+test.reason)
		a.inState(pb.ValueState_CONFIGURED, values...)
		found := a.node.retrieve(values[:5]...)
		found.hasExactly(t, values[:5]...)
	}
	repairs := len(a.drifts())
	ip(t, "-n", netns, "route", "add", "10.77.0.0/16", "dev", "eth0")
	a.awaitEvents()
	if got := a.drifts(); len(got) != repairs {
		t.Errorf("a route of others was recorded as drift: %q", got[repairs:])
	}
}

// drifts returns the descriptions of the repair transactions.
func (a *agent) drifts() (descriptions []string) {
	for _, txn := range a.scheduler.History(time.Time{}, time.Time{}) {
		if strings.HasPrefix(txn.Description, "drift") {
			descriptions = append(descriptions, txn.Description)
		}
	}
	return descriptions
}

// awaitEvents creates a device and waits until Watch reports it, which follows all earlier events.
func (a *agent) awaitEvents() {
	a.t.Helper()
	await := func(state pb.ValueState) {
		a.t.Helper()
		waitFor(a.t, func() bool {
			return a.scheduler.ValueStatus(models.LinuxHostNameKey("marker0")).GetValue().GetState() == state
		}, fmt.Sprintf("the device made last is %v", state))
	}
	a.ip("link", "add", "marker0", "up", "type", "veth", "peer", "name", "marker1")
	await(pb.ValueState_OBTAINED)
	a.ip("link", "del", "marker0")
	await(pb.ValueState_NONEXISTENT)
	if err := a.scheduler.Barrier(context.Background()); err != nil {
		a.t.Fatal(err)
	}
}

func TestWiringCausesNoDrift(t *testing.T) {
	a := newAgent(t)
	a.watch()
	var all []proto.Message
	for i := range 5 {
		_, values := podWithTap(fmt.Sprint(i), netNSName(t), fmt.Sprintf("10.1.1.%d", i+2), "10.1.1.1")
		if i%2 == 0 { // its end waits in the agent's namespace
			values[len(values)-1].(*vpp_interfaces.Interface).Link = nil
		}
		a.commit(a.put(values...))
		all = append(all, values...)
	}
	a.commit(a.delete(all...))
	a.awaitEvents()
	if got := a.drifts(); len(got) > 0 {
		t.Errorf("recorded as drift: %q", got)
	}
}

func TestVethPair(t *testing.T) {
	a, ns1, ns2 := newAgent(t), netNSName(t), netNSName(t)
	veth := func(name, peer, netns, addr string) *linux_interfaces.Interface {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Namespace: byPath(netns), HostIfName: "eth0", Enabled: true,
			IpAddresses: []string{addr}, Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	a1, a2 := veth("veth-a", "veth-b", ns1, "10.3.0.1/24"), veth("veth-b", "veth-a", ns2, "10.3.0.2/24")
	a.commit(a.put(a1))
	a.inState(pb.ValueState_PENDING, a1)
	a.commit(a.put(a2))
	a.inState(pb.ValueState_CONFIGURED, a1, a2)
	pings(t, ns1, "10.3.0.2", true)

	a.restart()
	txn := a.commit(a.put(a1, a2), kvscheduler.WithResync(kvscheduler.FullResync))
	if ops := operations(txn); len(ops) > 0 {
		t.Errorf("the resync did something:\n%s", strings.Join(ops, "\n"))
	}
	a.commit(a.delete(a2))
	a.inState(pb.ValueState_PENDING, a1)
	lacks(t, ip(t, "-n", ns1, "link")+ip(t, "-n", ns2, "link")+a.ip("link"), "eth0", "cv-")
}

func TestExistingInterfaceWaitsForItsDevice(t *testing.T) {
	a := newAgent(t)
	a.watch()
	nic := &linux_interfaces.Interface{
		Name: "nic", Type: linux_interfaces.Interface_EXISTING, HostIfName: "nic0", Enabled: true, IpAddresses: []string{"192.168.1.5/24"},
	}
	a.commit(a.put(nic))
	if state := a.scheduler.ValueStatus(models.Key(nic)).GetValue().GetState(); state != pb.ValueState_PENDING {
		t.Errorf("state is %v", state)
	}
	a.ip("link", "add", "nic0", "type", "veth", "peer", "name", "nic1")
	a.ip("addr", "add", "192.168.2.5/24", "dev", "nic0")
	a.ip("link", "set", "nic0", "up")
	waitFor(t, func() bool {
		return a.scheduler.ValueStatus(models.Key(nic)).GetValue().GetState() == pb.ValueState_CONFIGURED
	}, "the interface is configured when its device is up")
	contains(t, a.ip("addr"), "192.168.1.5/24")

	a.restart()
	if ops := operations(a.commit(a.put(nic), kvscheduler.WithResync(kvscheduler.FullResync))); len(ops) > 0 {
		t.Errorf("the resync did something:\n%s", strings.Join(ops, "\n"))
	}
	a.commit(a.delete(nic))
	out := a.ip("addr", "show", "nic0")
	contains(t, out, "192.168.2.5/24", "UP")
	lacks(t, out, "192.168.1.5")
}

// If a program other than the kernel reads one end, the other end must compute checksums itself.
func TestChecksumOffloadingOfAVethPair(t *testing.T) {
	a, ns := newAgent(t), netNSName(t)
	end := func(name, peer, netns string, offload offloading) *linux_interfaces.Interface {
		v := &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, HostIfName: name, Enabled: true,
			Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{
				PeerIfName: peer, RxChecksumOffloading: offload, TxChecksumOffloading: offload,
			}},
		}
		if netns != "" {
			v.Namespace = byPath(netns)
		}
		return v
	}
	pod, host := end("veth-a", "veth-b", ns, offloadDisabled), end("veth-b", "veth-a", "", offloadDefault)
	read := func(command uint32) uint32 {
		inside, err := a.namespaces.Acquire(pod.GetNamespace())
		if err != nil {
			t.Fatal(err)
		}
		defer a.namespaces.Release(inside)
		on, err := ethtool(inside.Socket(), "veth-a", command, 0)
		if err != nil {
			t.Fatal(err)
		}
		return on
	}
	a.commit(a.put(pod, host))
	a.inState(pb.ValueState_CONFIGURED, pod, host)
	if read(ethtoolGetTxChecksum) != 0 || read(ethtoolGetRxChecksum) != 0 {
		t.Error("checksums are left to the other end")
	}
	a.restart()
	if ops := operations(a.commit(a.put(pod, host), kvscheduler.WithResync(kvscheduler.FullResync))); len(ops) > 0 {
		t.Errorf("the resync did something:\n%s", strings.Join(ops, "\n"))
	}
	inside, err := a.namespaces.Acquire(pod.GetNamespace())
	if err != nil {
		t.Fatal(err)
	}
	defer a.namespaces.Release(inside)
	if _, err := ethtool(inside.Socket(), "veth-a", ethtoolSetTxChecksum, 1); err != nil {
		t.Fatal(err)
	}
	a.commit(a.put(pod, host), kvscheduler.WithResync(kvscheduler.FullResync))
	if read(ethtoolGetTxChecksum) != 0 {
		t.Error("a foreign setting stays on")
	}
}
