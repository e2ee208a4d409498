package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

type leaseTest struct {
	*node
	t      *testing.T
	server *vswitchtest.DHCPServer
	// patience is the clients' first retransmission timeout.
	patience time.Duration
}

var dhcpNIC = &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true, SetDhcpClient: true}

func newLeaseTest(t *testing.T) *leaseTest {
	t.Helper()
	n := newNode(t)
	n.peer.Exec(t, "ip addr add 10.9.0.1/24 dev "+uplink)
	n.peer.Exec(t, "ip addr add 10.10.0.1/24 dev "+uplink)
	return &leaseTest{n, t, vswitchtest.NewDHCPServer(t, n.peer, uplink, mustAddr("10.9.0.1")), 500 * time.Millisecond}
}

type leasingAgent struct {
	*kvscheduler.Scheduler
	v      *VSwitch
	leases chan *vpp_interfaces.DHCPLease
	stop   func()
}

func (n *leaseTest) start() *leasingAgent {
	n.t.Helper()
	v, err := New(Options{NetNS: n.NetNS, dhcpTimeout: n.patience})
	check(n.t, err)
	a := &leasingAgent{Scheduler: kvscheduler.New(kvscheduler.Options{}), v: v, leases: make(chan *vpp_interfaces.DHCPLease, 100)}
	check(n.t, descriptors.Register(a.Scheduler, v))
	v.WatchLeases(func(_ string, l *vpp_interfaces.DHCPLease) { a.leases <- l })
	ctx, cancel := context.WithCancel(context.Background())
	check(n.t, v.Watch(ctx, func(reason string, keys ...string) { _ = a.ReportDrift(reason, keys...) }))
	stopped := false
	a.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			a.Close()
			v.Close()
		}
	}
	n.t.Cleanup(a.stop)
	return a
}

func (n *leaseTest) resync(a *leasingAgent, ifaces ...*vpp_interfaces.Interface) []kvscheduler.RecordedOp {
	n.t.Helper()
	txn := a.NewTransaction()
	for _, i := range ifaces {
		txn.Put(models.Key(i), i)
	}
	seq, err := txn.Commit(n.t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	if err != nil {
		n.t.Error(err)
	}
	return a.RecordedTxn(seq).Executed
}

// await waits for the next lease with the address; "" waits for its loss.
func (n *leaseTest) await(a *leasingAgent, address string) {
	n.t.Helper()
	timeout := time.After(await.Patience)
	for {
		select {
		case l := <-a.leases:
			if l.GetHostIpAddress() == address {
				check(n.t, a.Barrier(n.t.Context()))
				return
			}
		case <-timeout:
			n.t.Fatalf("no lease of %q; the server saw %v", address, n.server.Seen())
		}
	}
}

func (n *leaseTest) asked(typ dhcpv4.MessageType, after int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), await.Patience)
	defer cancel()
	check(n.t, n.server.Await(ctx, typ, after))
}

func (n *leaseTest) has(address, gateway string) {
	n.t.Helper()
	addresses := n.Exec(n.t, "ip -4 -o addr show dev "+nic)
	if address == "" && strings.TrimSpace(addresses) != "" || !strings.Contains(addresses, address) {
		n.t.Errorf("addresses %q, want %q", addresses, address)
	}
	route := n.Exec(n.t, "ip -4 route show default")
	if gateway == "" && strings.TrimSpace(route) != "" || !strings.Contains(route, gateway) {
		n.t.Errorf("default route %q, want via %q", route, gateway)
	}
}

func offer(address, router string, length time.Duration) vswitchtest.DHCPOffer {
	return vswitchtest.DHCPOffer{Address: mustPrefix(address), Router: mustAddr(router), Length: length}
}

func TestDHCPLeaseIsObtainedAndGivenBack(t *testing.T) {
	n := newLeaseTest(t)
	n.server.Up(t, offer("10.9.0.7/24", "10.9.0.1", time.Hour))
	a := n.start()
	n.resync(a, dhcpNIC)
	n.await(a, "10.9.0.7/24")
	n.has("10.9.0.7/24", "10.9.0.1")
	if out := n.Exec(t, "ip -4 -o addr show dev "+nic); !strings.Contains(out, "valid_lft 3") {
		t.Errorf("the address does not expire with the lease: %s", out)
	}
	status := a.ValueStatus(models.DHCPLeaseKey(nic))
	if state := status.GetValue().GetState().String(); state != "OBTAINED" {
		t.Errorf("the lease is %s: %v", state, status)
	}
	if lease, ok := a.Metadata(vswitch.DHCPLeaseDescriptor, nic); !ok || lease.(*vpp_interfaces.DHCPLease).GetRouterIpAddress() != "10.9.0.1/24" {
		t.Errorf("metadata: %v, %v", lease, ok)
	}
	for _, v := range a.ValueStatus(models.VPPInterfaceKey(nic)).GetDerivedValues() {
		if v.GetState().String() != "CONFIGURED" {
			t.Errorf("%s is %v %v", v.GetKey(), v.GetState(), v.GetDetails())
		}
	}

	before := len(n.server.Seen())
	if ops := n.resync(a, dhcpNIC); len(ops) > 0 {
		t.Errorf("a resync executed %v", ops)
	}
	if seen := n.server.Seen(); len(seen) != before {
		t.Errorf("a resync asked the server: %v", seen)
	}

	without := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true}
	n.resync(a, without)
	n.has("", "")
	n.asked(dhcpv4.MessageTypeRelease, before)
	check(t, a.Barrier(t.Context()))
	if s := a.ValueStatus(models.DHCPLeaseKey(nic)); s.GetValue().GetState().String() == "OBTAINED" {
		t.Errorf("the lease is left: %v", s)
	}
}

func TestDHCPServerComesLater(t *testing.T) {
	n := newLeaseTest(t)
	n.peer.Exec(t, "ip link set dev "+uplink+" down")
	a := n.start()
	n.resync(a, dhcpNIC)
	n.peer.Exec(t, "ip link set dev "+uplink+" up")
	n.has("", "")
	n.server.Up(t, offer("10.9.0.7/24", "10.9.0.1", time.Hour))
	n.await(a, "10.9.0.7/24")
	n.has("10.9.0.7/24", "10.9.0.1")
}

func TestDHCPLeaseIsProlonged(t *testing.T) {
	n := newLeaseTest(t)
	long := offer("10.9.0.7/24", "10.9.0.1", time.Hour)
	long.Renew, long.Rebind = time.Second, 4*time.Second
	n.server.Up(t, long)
	a := n.start()
	n.resync(a, dhcpNIC)
	n.await(a, "10.9.0.7/24")
	for range 2 { // each expires after a second
		n.asked(dhcpv4.MessageTypeRequest, len(n.server.Seen()))
		n.has("10.9.0.7/24", "10.9.0.1")
	}
	n.server.Up(t, vswitchtest.DHCPOffer{Mute: true})
	seen := len(n.server.Seen())
	n.asked(dhcpv4.MessageTypeRequest, seen)
	n.server.Up(t, long)
	n.asked(dhcpv4.MessageTypeRequest, seen+1)
	n.has("10.9.0.7/24", "10.9.0.1")
	seen = len(n.server.Seen())
	n.server.Up(t, offer("10.9.0.7/24", "10.9.0.1", 2*time.Second))
	n.asked(dhcpv4.MessageTypeRequest, seen)
	n.server.Up(t, vswitchtest.DHCPOffer{Mute: true})
	n.await(a, "")
	n.has("", "")
}

// The client sees the server's first NAK, and repeats its DISCOVER if a message is lost.
func TestDHCPServerChangesTheAddress(t *testing.T) {
	for lost := range 2 {
		t.Run(fmt.Sprintf("%d DISCOVER lost", lost), func(t *testing.T) {
			n := newLeaseTest(t)
			n.patience = 5 * time.Second // far longer than an answer takes, far shorter than the test waits
			first := offer("10.9.0.7/24", "10.9.0.1", time.Hour)
			first.Renew, first.Rebind = 2*time.Second, time.Minute
			n.server.Up(t, first)
			a := n.start()
			n.resync(a, dhcpNIC)
			n.await(a, "10.9.0.7/24")
			before := len(n.server.Seen())
			other := offer("10.9.0.8/24", "10.9.0.1", time.Hour)
			other.Lost = lost
			n.server.Up(t, other)
			n.await(a, "10.9.0.8/24")
			n.has("10.9.0.8/24", "10.9.0.1")
			if out := n.Exec(t, "ip -4 -o addr show dev "+nic); strings.Contains(out, "10.9.0.7") {
				t.Errorf("the old address is left: %s", out)
			}
			// One REQUEST for the old address. A busy machine may repeat the other messages.
			want := []dhcpv4.MessageType{dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest}
			seen := n.server.Seen()[before:]
			if !slices.Equal(slices.Compact(slices.Clone(seen)), want) || seen[1] != want[1] {
				t.Errorf("the server saw %v, want %v", seen, want)
			}
		})
	}
}

func TestDHCPLeaseOutlivesTheAgent(t *testing.T) {
	n := newLeaseTest(t)
	n.server.Up(t, offer("10.9.0.7/24", "10.9.0.1", time.Hour))
	a := n.start()
	n.resync(a, dhcpNIC)
	n.await(a, "10.9.0.7/24")
	lost := startPing(t, n.peer, "10.9.0.7")
	a.stop()
	n.has("10.9.0.7/24", "10.9.0.1")

	before := len(n.server.Seen())
	b := n.start()
	n.resync(b, dhcpNIC)
	n.await(b, "10.9.0.7/24")
	n.has("10.9.0.7/24", "10.9.0.1")
	n.asked(dhcpv4.MessageTypeRequest, before)
	for _, typ := range n.server.Seen()[before:] {
		if typ != dhcpv4.MessageTypeRequest {
			t.Errorf("the server was sent a %v", typ)
		}
	}
	b.stop()

	// Without an answer it keeps the address, and then rebinds the lease.
	n.server.Up(t, vswitchtest.DHCPOffer{Mute: true})
	before = len(n.server.Seen())
	c := n.start()
	n.resync(c, dhcpNIC)
	n.await(c, "10.9.0.7/24")
	for i := range 3 {
		n.asked(dhcpv4.MessageTypeRequest, before+i)
	}
	n.has("10.9.0.7/24", "10.9.0.1")
	c.stop()
	if numbers := lost(); len(numbers) > 0 {
		t.Errorf("the node was not reached all the time: no answer to the packets %d", numbers)
	}

	n.server.Up(t, offer("10.10.0.5/24", "10.10.0.1", time.Hour))
	d := n.start()
	n.resync(d, dhcpNIC)
	n.await(d, "10.10.0.5/24")
	n.has("10.10.0.5/24", "10.10.0.1")
	d.stop()

	e := n.start()
	n.resync(e)
	n.has("", "")
}

func TestDHCPLeaseComesBackWhenDamaged(t *testing.T) {
	n := newLeaseTest(t)
	n.server.Up(t, vswitchtest.DHCPOffer{
		Address: mustPrefix("10.9.0.7/24"), Router: mustAddr("10.9.0.99"), Length: time.Hour,
		Routes: []*dhcpv4.Route{
			{Dest: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Router: net.IPv4(10, 9, 0, 1)},
			{Dest: &net.IPNet{IP: net.IPv4(10, 77, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, Router: net.IPv4(10, 10, 0, 1)},
		},
	})
	a := n.start()
	n.resync(a, dhcpNIC)
	n.await(a, "10.9.0.7/24")
	whole := func() error {
		addresses, routes := n.Exec(t, "ip -4 -o addr show dev "+nic), n.Exec(t, "ip -4 route show proto 123")
		if strings.Contains(addresses, "10.9.0.7/24") &&
			strings.Contains(routes, "default via 10.9.0.1 ") && strings.Contains(routes, "10.77.0.0/16 via 10.10.0.1 ") {
			return nil
		}
		return fmt.Errorf("addresses %q, leased routes %q", addresses, routes)
	}
	if err := whole(); err != nil {
		t.Fatalf("classless routes: %v", err)
	}
	for _, damage := range []string{
		"ip addr del 10.9.0.7/24 dev " + nic, "ip route del 10.77.0.0/16 proto 123", "ip link set dev " + nic + " down",
	} {
		n.Exec(t, damage)
		await.That(t, "repair of "+damage, whole)
	}
}

func TestDHCPClientOfTheHostServes(t *testing.T) {
	n := newLeaseTest(t)
	n.Exec(t, "ip addr add 10.9.0.50/24 dev "+nic)
	n.server.Up(t, offer("10.9.0.7/24", "10.9.0.1", time.Hour))
	a := n.start()
	n.resync(a, dhcpNIC)
	n.resync(a)
	if seen := n.server.Seen(); len(seen) != 0 {
		t.Errorf("the server was asked: %v", seen)
	}
	n.has("10.9.0.50/24", "")
}

func TestLeasedRouterOutsideOfItsNetwork(t *testing.T) {
	n := newLeaseTest(t)
	n.server.Up(t, vswitchtest.DHCPOffer{Address: netip.MustParsePrefix("10.9.0.7/32"), Router: mustAddr("10.9.0.1"), Length: time.Hour})
	a := n.start()
	n.resync(a, dhcpNIC)
	n.await(a, "10.9.0.7/32")
	n.has("10.9.0.7/32", "10.9.0.1")
}

func TestDHCPUnsupported(t *testing.T) {
	n := newNode(t)
	v := n.Open(t).(*VSwitch)
	defer v.Close()
	tunnel := &vpp_interfaces.Interface{Name: "t", Type: vpp_interfaces.Interface_VXLAN_TUNNEL}
	v.Reg.Put(tunnel)
	if err := v.Interfaces().SetDHCPClient(t.Context(), "t"); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("VXLAN tunnel: %v", err)
	}
	if err := v.Interfaces().SetDHCPClient(t.Context(), "none"); err == nil || errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("device that is not there (yet): %v", err)
	}
	v.Close()
	v, err := New(Options{NetNS: n.NetNS, noMarks: true})
	check(t, err)
	defer v.Close()
	if err := v.Interfaces().SetDHCPClient(t.Context(), nic); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("kernel that cannot mark addresses: %v", err)
	}
	if err := v.Interfaces().UnsetDHCPClient(t.Context(), "none"); err != nil {
		t.Errorf("unset on a device that is gone: %v", err)
	}
}

// startPing sends packets until lost is called. lost waits for outstanding answers and returns the
// sequence numbers without one.
func startPing(t *testing.T, from *vswitchtest.Host, to string) (lost func() []int) {
	t.Helper()
	ping := exec.Command("nsenter", "--net="+from.NetNS, "--", "ping", "-n", "-i", "0.002", to)
	out, err := ping.StdoutPipe()
	check(t, err)
	check(t, ping.Start())
	var mu sync.Mutex
	var answered []int
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, after, _ := strings.Cut(lines.Text(), "icmp_seq=")
			var number int
			if _, err := fmt.Sscanf(after, "%d ttl=", &number); err == nil {
				mu.Lock()
				answered = append(answered, number)
				mu.Unlock()
			}
		}
	}()
	numbers := func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(answered)
	}
	stop := sync.OnceFunc(func() {
		_ = ping.Process.Kill()
		_ = ping.Wait()
	})
	t.Cleanup(stop)
	return func() (lost []int) {
		before := len(numbers())
		await.That(t, "further answers", func() error {
			if len(numbers()) < before+10 {
				return errors.New("none has come")
			}
			return nil
		})
		stop()
		got := numbers()
		for n := range slices.Max(got) {
			if !slices.Contains(got, n+1) {
				lost = append(lost, n+1)
			}
		}
		return lost
	}
}
