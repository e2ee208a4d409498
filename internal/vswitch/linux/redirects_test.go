package linux

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/iptables"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

func inNamed(t testing.TB, name string, fn func() error) error {
	t.Helper()
	ns, err := netns.GetFromPath(pathOf(name))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	return namespace.In(ns, fn)
}

// servePeerAddress serves TCP and UDP at an address in a namespace. It answers with the client's address.
func servePeerAddress(t testing.TB, netns, at string) {
	t.Helper()
	err := inNamed(t, netns, func() error {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, c.RemoteAddr())
				c.Close()
			}
		}()
		u, err := net.ListenPacket("udp", at)
		if err != nil {
			return err
		}
		t.Cleanup(func() { u.Close() })
		go func() {
			buf := make([]byte, 100)
			for {
				_, from, err := u.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = u.WriteTo([]byte(from.String()), from)
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// peerSeenBy returns the address that a server sees.
func peerSeenBy(t testing.TB, netns, network, to string, from int) (seen netip.Addr, err error) {
	t.Helper()
	err = inNamed(t, netns, func() error {
		d := net.Dialer{Timeout: 5 * time.Second}
		if from != 0 {
			d.LocalAddr = &net.UDPAddr{Port: from}
		}
		c, err := d.Dial(network, to)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if network == "udp" {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		if err != nil && (err != io.EOF || n == 0) {
			return err
		}
		addr, err := netip.ParseAddrPort(string(buf[:n]))
		seen = addr.Addr().Unmap()
		return err
	})
	return seen, err
}

// redirected is a host with a network card, eth0, and a device vpp1 to a vswitch that has its own
// network stack.
type redirected struct {
	*agent
	client, vswitch string
}

func newRedirected(t testing.TB) *redirected {
	t.Helper()
	r := &redirected{newAgent(t), netNSName(t), netNSName(t)}
	for _, cable := range []struct{ device, netns string }{{"eth0", r.client}, {"vpp1", r.vswitch}} {
		r.ip("link", "add", cable.device, "type", "veth", "peer", "name", "eth0", "netns", cable.netns)
		r.ip("link", "set", cable.device, "up")
		ip(t, "-n", cable.netns, "link", "set", "eth0", "up")
	}
	for _, a := range []struct{ netns, addr, device string }{
		{r.name, "10.9.0.1/24", "eth0"}, {r.name, "fd09::1/64", "eth0"}, {r.client, "10.9.0.2/24", "eth0"}, {r.client, "fd09::2/64", "eth0"},
		{r.name, "172.30.1.2/24", "vpp1"}, {r.name, "fd30::2/64", "vpp1"}, {r.vswitch, "172.30.1.1/24", "eth0"}, {r.vswitch, "fd30::1/64", "eth0"},
	} {
		args := []string{"-n", a.netns, "address", "add", a.addr, "dev", a.device}
		if strings.Contains(a.addr, ":") {
			args = append(args, "nodad")
		}
		ip(t, args...)
	}
	ip(t, "-n", r.vswitch, "route", "add", "172.30.1.3/32", "via", "172.30.1.2")
	ip(t, "-n", r.vswitch, "-6", "route", "add", "fd30::3/128", "via", "fd30::2")
	return r
}

// redirectOf returns the value that plugin service requests for a node port.
func redirectOf(label string, port uint32) *contiv_nat.HostRedirect {
	v := &contiv_nat.HostRedirect{Label: label}
	for _, p := range []contiv_nat.DNat66_Protocol{contiv_nat.DNat66_TCP, contiv_nat.DNat66_UDP} {
		v.Frontends = append(v.Frontends,
			&contiv_nat.HostRedirect_Frontend{Address: "10.9.0.1", Port: port, Protocol: p, ToAddress: "172.30.1.1", SourceAddress: "172.30.1.3"},
			&contiv_nat.HostRedirect_Frontend{Address: "fd09:0::1", Port: port, Protocol: p, ToAddress: "fd30::1", SourceAddress: "fd30::3"})
	}
	return v
}

// expect connects to a port of the host from outside and from the host itself.
func (r *redirected) expect(when string, port int, want bool) {
	r.t.Helper()
	for _, version := range []struct{ host, client, own string }{{"10.9.0.1", "172.30.1.3", "172.30.1.2"}, {"fd09::1", "fd30::3", "fd30::2"}} {
		for who, netns := range map[string]string{"a client outside": r.client, "a process of the host": r.name} {
			as := version.client
			if netns == r.name {
				as = version.own
			}
			for _, network := range []string{"tcp", "udp"} {
				seen, err := peerSeenBy(r.t, netns, network, net.JoinHostPort(version.host, fmt.Sprint(port)), 0)
				switch {
				case (err == nil) != want:
					r.t.Errorf("%s: %s, %s to %s port %d: %v", when, who, network, version.host, port, err)
				case err == nil && seen != netip.MustParseAddr(as):
					r.t.Errorf("%s: %s, %s to %s port %d is seen as %v, want %s", when, who, network, version.host, port, seen, as)
				case err != nil && !strings.Contains(err.Error(), "refused"):
					r.t.Errorf("%s: %s, %s to %s port %d: %v, want it refused", when, who, network, version.host, port, err)
				}
			}
		}
	}
}

// Connections to a redirected host port reach the vswitch and get replies. Other ports stay with
// the host.
func TestRedirects(t *testing.T) {
	r := newRedirected(t)
	for _, at := range []string{"172.30.1.1", "[fd30::1]"} {
		servePeerAddress(t, r.vswitch, at+":30010")
		servePeerAddress(t, r.vswitch, at+":30011")
	}
	const client = 40000 // the source port is kept
	if _, err := peerSeenBy(t, r.client, "udp", "10.9.0.1:30010", client); err == nil {
		t.Error("UDP arrives without a redirect")
	}
	web, other := redirectOf("default/web", 30010), redirectOf("default/other", 30011)
	r.commit(r.put(web, other))
	r.inState(pb.ValueState_CONFIGURED, web, other)
	if seen, err := peerSeenBy(t, r.client, "udp", "10.9.0.1:30010", client); err != nil {
		t.Errorf("a flow of UDP that began before: %v, seen as %v", err, seen)
	}
	r.expect("at first", 30010, true)
	r.expect("at first", 30011, true)
	r.expect("at first", 30012, false)

	pod := redirectOf("hostPort/default/pod~1", 80) // to another port
	for _, f := range pod.Frontends {
		f.ToPort = 30010
	}
	r.commit(r.put(pod))
	r.expect("to another port", 80, true)

	r.restart()
	txn := r.commit(r.put(web, other, pod), kvscheduler.WithResync(kvscheduler.FullResync))
	if len(txn.Executed) > 0 {
		t.Errorf("a restarted agent does %v", txn.Executed)
	}
	taken := redirectOf("default/taken", 30011)
	if _, err := r.put(taken).Commit(t.Context()); err == nil || !strings.Contains(err.Error(), `"default/other" redirects`) {
		t.Errorf("a second redirect of the same port: %v", err)
	}
	r.commit(r.delete(taken))
	r.commit(r.delete(other))
	r.commit(r.delete(pod))
	r.expect("without the other", 30010, true)
	r.expect("without the other", 30011, false)
	r.commit(r.delete(web))
	r.expect("at the end", 30010, false)
	lacks(t, runIn(t, r.name, "nft list tables"), "contiv")
}

// Foreign changes to the tables are repaired.
func TestDriftOfRedirects(t *testing.T) {
	r := newRedirected(t)
	web, other := redirectOf("default/web", 30010), redirectOf("default/other", 30011)
	r.commit(r.put(web, other))
	r.watch()
	for i, change := range []string{
		"delete table ip contiv-host",
		"flush chain ip6 contiv-host output",
		"delete element ip contiv-host redirect-to { 10.9.0.1 . tcp . 30010 }",
		"delete element ip6 contiv-host redirect-from { fd09::1 . udp . 30011 }",
		"add element ip contiv-host redirect-to { 10.9.0.1 . tcp . 22 : 172.30.1.1 . 22 }",
		"flush map ip contiv-host redirect-from",
		"flush map ip contiv-host redirect-to",
	} {
		runIn(t, r.name, "nft "+change)
		waitFor(t, func() bool { return len(r.drifts()) > i }, "it is repaired after nft "+change)
		r.inState(pb.ValueState_CONFIGURED, web, other)
		if txn := r.commit(r.put(web, other), kvscheduler.WithResync(kvscheduler.FullResync)); len(txn.Executed) > 0 {
			t.Errorf("after the repair of nft %s, a resync does %v", change, txn.Executed)
		}
		if list := runIn(t, r.name, "nft list ruleset"); strings.Contains(list, ". 22 ") || strings.Count(list, "30010") != 12 || strings.Count(list, "30011") != 12 {
			t.Errorf("after the repair of nft %s: %s", change, list)
		}
	}
}

// One subscription watches all of nftables. It starts with the first object and detects earlier
// changes.
func TestRulesetIsWatchedOnce(t *testing.T) {
	needsIPTables(t)
	r := newRedirected(t)
	subscriptions := func() (n int) {
		for line := range strings.Lines(runIn(t, r.name, "cat /proc/net/netlink")) {
			if f := strings.Fields(line); len(f) > 3 && f[1] == fmt.Sprint(unix.NETLINK_NETFILTER) && f[3] != "00000000" {
				n++
			}
		}
		return n
	}
	r.watch()
	if n := subscriptions(); n != 0 {
		t.Errorf("%d subscriptions without anything to watch", n)
	}
	web, chain := redirectOf("default/web", 30010), inputChain("own", "", "-s 10.0.0.1 -j DROP")
	chain.Namespace = nil
	r.commit(r.put(web))
	runIn(t, r.name, "nft flush map ip contiv-host redirect-to")
	waitFor(t, func() bool { return len(r.drifts()) == 1 }, "a change is repaired, which may have come before the subscription")
	runIn(t, r.name, "nft flush map ip contiv-host redirect-from")
	waitFor(t, func() bool { return len(r.drifts()) == 2 }, "a change after it is repaired")
	r.commit(r.put(chain))
	runIn(t, r.name, "iptables -F "+iptables.ChainName(chain))
	waitFor(t, func() bool { return len(r.drifts()) == 3 }, "a change of a rule chain is repaired")
	r.inState(pb.ValueState_CONFIGURED, web, chain)
	if n := subscriptions(); n != 1 {
		t.Errorf("%d subscriptions, want one", n)
	}
	for _, change := range []string{"add table ip contiv-host", "add element ip contiv-host redirect-to { 10.9.0.1 . tcp . 30010 : 172.30.1.1 . 30010 }"} {
		runIn(t, r.name, "nft "+change)
	}
	r.awaitEvents()
	if got := r.drifts(); len(got) != 3 {
		t.Errorf("reported: %q", got[3:])
	}
}

// Values of one transaction can exchange flows; an invalid one fails alone.
func TestRedirectsOfOneTransaction(t *testing.T) {
	r := newRedirected(t)
	web, other := redirectOf("default/web", 30010), redirectOf("default/other", 30011)
	r.commit(r.put(web, other))
	third, taken := redirectOf("default/third", 30012), redirectOf("default/taken", 30010)
	taken.Frontends = append(taken.Frontends, redirectOf("", 30013).GetFrontends()...)
	if _, err := r.put(third, taken).Commit(t.Context()); err == nil || !strings.Contains(err.Error(), `"default/web" redirects`) || strings.Contains(err.Error(), "third") {
		t.Errorf("one taken port and one free port: %v", err)
	}
	r.inState(pb.ValueState_CONFIGURED, web, other, third)
	mentions := func(port string, want int) {
		t.Helper()
		if n := strings.Count(runIn(t, r.name, "nft list ruleset"), port); n != want {
			t.Errorf("port %[2]s is there %[1]d times, want %[3]d", n, port, want)
		}
	}
	mentions("30013", 12)
	r.commit(r.delete(third, taken))
	mentions("30012", 0)
	mentions("30013", 0)
	mentions("30010", 12)
	_, _ = r.put(redirectOf("default/web", 30011), redirectOf("default/other", 30010)).Commit(t.Context(), kvscheduler.WithRetry(kvscheduler.Retry{Period: 10 * time.Millisecond, MaxCount: 10}))
	swapped := []proto.Message{redirectOf("default/web", 30011), redirectOf("default/other", 30010)}
	for _, v := range swapped {
		waitFor(t, func() bool {
			return r.scheduler.ValueStatus(models.Key(v)).GetValue().GetState() == pb.ValueState_CONFIGURED
		}, models.Key(v)+" is configured")
	}
	if txn := r.commit(r.put(swapped...), kvscheduler.WithResync(kvscheduler.FullResync)); len(txn.Executed) > 0 {
		t.Errorf("after they took each other's port, a resync does %v", txn.Executed)
	}
}

// A change succeeds after foreign changes to the ruleset, unless it conflicts with them.
func TestRedirectsOfATableThatWasChanged(t *testing.T) {
	r := newRedirected(t)
	web, other := redirectOf("default/web", 30010), redirectOf("default/other", 30011)
	for _, change := range []string{
		"delete table ip contiv-host",
		"flush map ip6 contiv-host redirect-to",
		"add element ip contiv-host redirect-to { 10.9.0.1 . tcp . 30011 : 172.30.1.9 . 30011 }",
		"add table ip foreign",
	} {
		r.commit(r.put(web))
		runIn(t, r.name, "nft "+change)
		r.commit(r.put(other))
		if list := runIn(t, r.name, "nft list ruleset"); strings.Count(list, "30011") != 12 || strings.Contains(list, "172.30.1.9") {
			t.Errorf("after nft %s: %s", change, list)
		}
		r.commit(r.put(web, other), kvscheduler.WithResync(kvscheduler.FullResync))
		r.commit(r.delete(other))
		if list := runIn(t, r.name, "nft list ruleset"); strings.Count(list, "30010") != 12 || strings.Contains(list, "30011") {
			t.Errorf("after nft %s, and without the second: %s", change, list)
		}
	}
}

// manyRedirects returns redirects of TCP node ports for both IP versions. With UDP, the kernel
// would scan its conntrack table in each transaction.
func manyRedirects(n int) (values []proto.Message) {
	for i := range n {
		v := redirectOf(fmt.Sprint("default/web-", i), uint32(30000+i))
		v.Frontends = v.GetFrontends()[:2]
		values = append(values, v)
	}
	return values
}

// The cost per redirect should not depend on their number.
func BenchmarkFirstSyncOfRedirects(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			r, values := newRedirected(b), manyRedirects(n)
			for b.Loop() {
				r.commit(r.put(values...))
				b.StopTimer()
				r.commit(r.delete(values...))
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N*n), "µs/value")
		})
	}
}

// BenchmarkChangeOfRedirects changes one of many.
func BenchmarkChangeOfRedirects(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			r, values := newRedirected(b), manyRedirects(n)
			r.commit(r.put(values...))
			changed := proto.CloneOf(values[n/2].(*contiv_nat.HostRedirect))
			for i := 0; b.Loop(); i++ {
				changed = proto.CloneOf(changed)
				changed.Frontends[0].Port = uint32(20000 + i%2)
				r.commit(r.put(changed))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N), "µs/change")
		})
	}
}

// A resync without redirects, like that of uninstall, also removes partial tables.
func TestRemainsOfRedirects(t *testing.T) {
	r := newRedirected(t)
	r.commit(r.put(redirectOf("default/web", 30010)))
	runIn(t, r.name, "nft flush map ip contiv-host redirect-to")
	runIn(t, r.name, "nft flush chain ip6 contiv-host prerouting")
	r.restart()
	r.commit(r.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.FullResync))
	lacks(t, runIn(t, r.name, "nft list tables"), "contiv")
}

// Invalid values fail alone, with a reason.
func TestInvalidRedirects(t *testing.T) {
	a := newAgent(t)
	for _, test := range []struct {
		want   string
		change func(f *contiv_nat.HostRedirect_Frontend)
	}{
		{"no address", func(f *contiv_nat.HostRedirect_Frontend) { f.ToAddress = "" }},
		{"different IP versions", func(f *contiv_nat.HostRedirect_Frontend) { f.ToAddress = "fd30::1" }},
		{"no port", func(f *contiv_nat.HostRedirect_Frontend) { f.Port = 65536 }},
		{"no port to send to", func(f *contiv_nat.HostRedirect_Frontend) { f.ToPort = 65536 }},
		{"one of TCP, UDP, SCTP", func(f *contiv_nat.HostRedirect_Frontend) { f.Protocol = 7 }},
		{"twice", func(f *contiv_nat.HostRedirect_Frontend) { f.Protocol = contiv_nat.DNat66_UDP; f.Address = "10.9.0.1" }},
		{"no label", nil},
	} {
		v := proto.CloneOf(redirectOf("bad", 30010))
		if test.change == nil {
			v.Label = "a b"
		} else {
			test.change(v.Frontends[0])
		}
		_, _ = a.put(v).Commit(t.Context())
		status := a.scheduler.ValueStatus(models.Key(v)).GetValue()
		if status.GetState() != pb.ValueState_INVALID || !strings.Contains(status.GetError(), test.want) {
			t.Errorf("%v %s, want it INVALID: %s", status.GetState(), status.GetError(), test.want)
		}
	}
}
