package stn

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/shield"
	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/pci"
	"github.com/contiv/contiv/test/command"
	"github.com/google/nftables"
	"github.com/vishvananda/netns"
)

// host is a machine with a network card eth0 and the interconnect vpp1. Their other ends are in a
// namespace that stands for the network.
type host struct {
	name, network string
	ns            netns.NsHandle
	dir           string
	bus           pci.Bus
	keepDriver    []string
	step          func(string)
	limits        Limits
	boot          string
}

// quick are limits for tests that must not wait.
var quick = Limits{Absent: 0, Silent: time.Hour, Down: 0, Start: time.Hour}

func newHost(t *testing.T) *host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	name := fmt.Sprintf("stn%d", os.Getpid()%100000)
	h := &host{name: name + "h", network: name + "n", dir: t.TempDir(), limits: quick, boot: "this boot", bus: pci.Bus{Sysfs: noPCI{}}}
	for _, ns := range []string{h.name, h.network} {
		ip(t, "netns add "+ns)
		t.Cleanup(func() { ip(t, "netns del "+ns) })
	}
	var err error
	if h.ns, err = netns.GetFromName(h.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ns.Close() })
	ip(t, "netns exec "+h.name+" sysctl -qw net.ipv6.conf.default.accept_dad=0") // no address is tentative
	h.ip(t, "link set lo up")
	h.ip(t, "link add eth0 address 02:00:00:00:00:10 mtu 1400 type veth peer name card netns "+h.network)
	h.ip(t, "link add vpp1 type veth peer name vpp2 netns "+h.network)
	ip(t, "-n "+h.network+" link set card up")
	ip(t, "-n "+h.network+" link set vpp2 up")
	ip(t, "-n "+h.network+" addr add 192.0.2.254/24 dev card")
	h.ip(t, "link set eth0 up")
	h.ip(t, "addr add 192.0.2.1/24 brd + dev eth0")
	h.ip(t, "addr add 192.0.2.7/24 dev eth0 valid_lft 3600 preferred_lft 1800")
	h.ip(t, "addr add 2001:db8::1/64 dev eth0 nodad")
	h.ip(t, "route add default via 192.0.2.254 dev eth0")
	h.ip(t, "route add 198.51.100.0/24 via 192.0.2.253 dev eth0 metric 77 mtu 1300 src 192.0.2.7")
	h.ip(t, "route add 203.0.113.0/24 nexthop via 192.0.2.2 dev eth0 weight 2 nexthop via 192.0.2.3 dev eth0")
	h.ip(t, "route add default via 192.0.2.252 dev eth0 table 100")
	h.ip(t, "-6 route add default via 2001:db8::fe dev eth0")
	h.ip(t, "-6 route add 2001:db8:2::/48 via fe80::1 dev eth0 metric 50")
	eventually(t, "the kernel has made its own routes", func() error {
		if out := h.ip(t, "-6 route show table local dev eth0"); strings.Count(out, "local ") < 2 {
			return fmt.Errorf("found %s", out)
		}
		return nil
	})
	return h
}

func ip(t testing.TB, args string) string {
	t.Helper()
	return command.Run(t, "ip", strings.Fields(args)...)
}

func (h *host) ip(t testing.TB, args string) string {
	t.Helper()
	return ip(t, "-n "+h.name+" "+args)
}

// interconnect configures vpp1 like the agent, with routes like the card's.
func (h *host) interconnect(t testing.TB) {
	t.Helper()
	h.ip(t, "link set vpp1 up")
	h.ip(t, "addr add 192.0.2.1/32 dev vpp1")
	h.ip(t, "route add 192.0.2.0/24 dev vpp1 metric 1")
	h.ip(t, "route add default via 192.0.2.254 dev vpp1 metric 1")
	eventually(t, "vpp1 is up", func() error {
		if out := h.ip(t, "link show vpp1"); !strings.Contains(out, "state UP") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

// has returns the card's configuration without lifetimes, kernel counters and the tentative flag.
func (h *host) has(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, args := range []string{"-o link show dev eth0", "-o addr show dev eth0", "-4 route show table all dev eth0", "-6 route show table all dev eth0",
		"-4 route show 203.0.113.0/24"} {
		for line := range strings.Lines(h.ip(t, args)) {
			line, _, _ = strings.Cut(line, "valid_lft")
			line, _, _ = strings.Cut(line, "\\")
			line = strings.NewReplacer(" nodad", "", " tentative", "").Replace(strings.Join(strings.Fields(line), " "))
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (h *host) keeper(t testing.TB) *Keeper {
	t.Helper()
	k, err := h.open()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (h *host) open() (*Keeper, error) {
	return New(Options{
		Journal: journal.File(filepath.Join(h.dir, "journal.json")), NetNS: h.ns, Interconnect: "vpp1", Bus: h.bus, PCIDriver: "vfio-pci", KeepDriver: h.keepDriver,
		ResolvConf: filepath.Join(h.dir, "resolv.conf"), Limits: h.limits, Boot: h.boot, Log: slog.New(slog.DiscardHandler), BeforeStep: h.step,
	})
}

func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// holds waits until want holds the card and no change is in progress.
func (k *Keeper) holds(t testing.TB, want journal.Holder) {
	t.Helper()
	eventually(t, fmt.Sprintf("the card is with %s", want), func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if c := k.cards["eth0"]; c == nil || c.Holder != want || c.giving != "" {
			return fmt.Errorf("it is not: %+v", c)
		}
		return nil
	})
}

func mustSteal(t testing.TB, k *Keeper) *journal.Entry {
	t.Helper()
	e, err := k.Steal("eth0", false)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (h *host) wantShield(t testing.TB, want bool) {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(int(h.ns)))
	if err != nil {
		t.Fatal(err)
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name == shield.Table && c.Name == "eth0" })
	if got != want {
		t.Errorf("the host's stack is shielded from eth0: %v; want %v", got, want)
	}
}

func wantSame(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: the card has\n%s\nwant\n%s", what, got, want)
	}
}

func TestCardGoesToTheVSwitchAndBack(t *testing.T) {
	h := newHost(t)
	before := h.has(t)
	k := h.keeper(t)
	defer k.Close()
	e := mustSteal(t, k)
	wantSame(t, "claimed", h.has(t), before)
	if got := fmt.Sprint(e.State.Prefixes()); got != "[192.0.2.1/24 192.0.2.7/24 2001:db8::1/64]" {
		t.Errorf("it has the addresses %s", got)
	}

	h.interconnect(t)
	k.checkCards()
	r := k.Attend("eth0")
	k.holds(t, journal.Host)
	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	h.wantShield(t, true)
	if routes := h.ip(t, "route show dev eth0") + h.ip(t, "-6 route show default dev eth0"); routes != "" {
		t.Errorf("the card still has routes: %s", routes)
	}
	if out := h.ip(t, "route get 198.51.100.9"); !strings.Contains(out, "dev vpp1") {
		t.Errorf("the host sends by %s", out)
	}
	if again := mustSteal(t, k); !again.State.Same(e.State) {
		t.Errorf("stolen twice, the card has %+v, not %+v", again.State, e.State)
	}

	r.Report(false, "VPP is gone")
	k.holds(t, journal.Host)
	wantSame(t, "given back", h.has(t), before)
	h.wantShield(t, false)
	if got := k.Claimed("").Reason; got != "VPP is gone" {
		t.Errorf("the reason is %q", got)
	}
	if out := h.ip(t, "route get 198.51.100.9"); !strings.Contains(out, "dev eth0") {
		t.Errorf("the host sends by %s", out)
	}

	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	if err := k.Release("eth0"); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "released", h.has(t), before)
	if k.Claimed("") != nil {
		t.Error("it is still claimed")
	}
	if err := k.Release("eth0"); err != nil {
		t.Errorf("released twice: %v", err)
	}
}

// IP versions that the vswitch does not serve stay with the host.
func TestVSwitchServesIPv4Only(t *testing.T) {
	h := newHost(t)
	before := h.has(t)
	k := h.keeper(t)
	defer k.Close()
	mustSteal(t, k)
	h.interconnect(t)
	k.checkCards()
	ip(t, "-n "+h.network+" addr add 2001:db8::fe/64 dev card nodad")
	r := k.Attend("eth0")
	r.Report(true, "", 4)
	k.holds(t, journal.VSwitch)
	if out, err := exec.Command("ip", "netns", "exec", h.network, "ping", "-c1", "-W5", "2001:db8::1").CombinedOutput(); err != nil {
		t.Errorf("the host does not answer over IPv6: %s", out)
	}
	if err := exec.Command("ip", "netns", "exec", h.network, "ping", "-c1", "-W1", "192.0.2.1").Run(); err == nil {
		t.Error("the host answers over IPv4 too")
	}
	if routes := h.ip(t, "route show dev eth0"); routes != "" {
		t.Errorf("the card has routes: %s", routes)
	}
	r.Report(false, "")
	k.holds(t, journal.Host)
	wantSame(t, "given back", h.has(t), before)
}

// The host gets its card back when the reporter leaves or falls silent, or when the interconnect is
// down.
func TestReasonsToGiveTheCardBack(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		do     func(*testing.T, *host, *Reporter)
		reason string
	}{
		"reporter gone":     {quick, func(_ *testing.T, _ *host, r *Reporter) { r.Leave() }, "the agent stopped"},
		"reporter silent":   {Limits{Absent: time.Hour, Silent: time.Millisecond, Down: time.Hour}, func(*testing.T, *host, *Reporter) {}, "the agent does not respond"},
		"interconnect down": {quick, func(t *testing.T, h *host, _ *Reporter) { h.ip(t, "link set vpp1 down") }, "the interconnect vpp1 is down"},
		"interconnect gone": {quick, func(t *testing.T, h *host, _ *Reporter) { h.ip(t, "link del vpp1") }, "the interconnect vpp1 is down"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.limits = c.limits
			before := h.has(t)
			k := h.keeper(t)
			defer k.Close()
			mustSteal(t, k)
			h.interconnect(t)
			watch(t, k)
			r := k.Attend("eth0")
			eventually(t, "the card was taken", func() error {
				r.Report(true, "")
				if k.Claimed("").Reason == "the vswitch does not forward yet" {
					return fmt.Errorf("not yet")
				}
				return nil
			})
			c.do(t, h, r)
			k.holds(t, journal.Host)
			wantSame(t, "given back", h.has(t), before)
			if got := k.Claimed("").Reason; got != c.reason {
				t.Errorf("the reason is %q", got)
			}
		})
	}
}

func watch(t *testing.T, k *Keeper) {
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- k.Watch(ctx) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Changes by the host while the vswitch holds the card are recorded and restored.
func TestHostChangesItsCard(t *testing.T) {
	h := newHost(t)
	k := h.keeper(t)
	defer k.Close()
	mustSteal(t, k)
	h.interconnect(t)
	watch(t, k)
	r := k.Attend("eth0")
	eventually(t, "the interconnect is seen", func() error { r.Report(true, ""); return holder(k, journal.VSwitch) })

	// A new lease brings another address and other routes.
	h.ip(t, "addr add 192.0.2.8/24 dev eth0")
	h.ip(t, "addr del 2001:db8::1/64 dev eth0")
	h.ip(t, "route add default via 192.0.2.251 dev eth0 metric 5 onlink")
	want := "[192.0.2.1/24 192.0.2.7/24 192.0.2.8/24]"
	eventually(t, "the new address is known", func() error {
		if got := fmt.Sprint(k.Claimed("").State.Prefixes()); got != want {
			return fmt.Errorf("addresses are %s", got)
		}
		if routes := h.ip(t, "route show dev eth0"); routes != "" {
			return fmt.Errorf("the card has routes: %s", routes)
		}
		return nil
	})
	r.Report(false, "")
	k.holds(t, journal.Host)
	got := h.has(t)
	for _, has := range []string{"192.0.2.8/24", "default via 192.0.2.251 metric 5 onlink", "default via 192.0.2.254"} {
		if !strings.Contains(got, has) {
			t.Errorf("the card lacks %s:\n%s", has, got)
		}
	}
	if strings.Contains(got, "2001:db8::1") || strings.Contains(got, "default via 2001:db8::fe") {
		t.Errorf("the card still has addresses that the host removed:\n%s", got)
	}
}

// A daemon restart while the vswitch forwards changes nothing and loses nothing.
func TestRestartWhileTheVSwitchForwards(t *testing.T) {
	h := newHost(t)
	h.limits.Absent = time.Hour
	before := h.has(t)
	first := h.keeper(t)
	mustSteal(t, first)
	h.interconnect(t)
	first.checkCards()
	first.Attend("eth0").Report(true, "")
	first.holds(t, journal.VSwitch)
	taken := h.has(t)
	first.mu.Lock()
	first.closed = true
	first.mu.Unlock()

	k := h.keeper(t)
	defer k.Close()
	k.checkCards()
	r := k.Attend("eth0")
	k.checkCards()
	k.holds(t, journal.VSwitch)
	wantSame(t, "after the restart", h.has(t), taken)
	r.Report(true, "")
	k.checkCards()
	wantSame(t, "reported again", h.has(t), taken)
	r.Report(false, "")
	k.holds(t, journal.Host)
	wantSame(t, "given back", h.has(t), before)
}

// A waiting agent, which has just started beside a forwarding vswitch, leaves the card with its
// holder.
func TestWaitingAgent(t *testing.T) {
	h := newHost(t)
	k := h.keeper(t)
	defer k.Close()
	mustSteal(t, k)
	h.interconnect(t)
	k.checkCards()
	r := k.Attend("eth0")
	r.Wait()
	k.holds(t, journal.Host)
	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	next := k.Attend("eth0") // registered before the first one leaves: an agent must always be present here
	next.Wait()
	k.checkCards()
	k.holds(t, journal.VSwitch)
	next.Report(false, "VPP does not answer")
	k.holds(t, journal.Host)
	next.Wait()
	k.holds(t, journal.Host)
	next.Report(true, "")
	k.holds(t, journal.VSwitch)
	next.Wait()
	next.Leave()
	k.holds(t, journal.Host)
}

func holder(k *Keeper, want journal.Holder) error {
	if got := k.Claimed("").Holder; got != want {
		return fmt.Errorf("the card is with %s", got)
	}
	return nil
}

func TestDNSServersComeBack(t *testing.T) {
	h := newHost(t)
	file := filepath.Join(h.dir, "resolv.conf")
	const content = "search example\nnameserver 192.0.2.53\n"
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	k := h.keeper(t)
	defer k.Close()
	mustSteal(t, k)
	h.interconnect(t)
	k.checkCards()
	r := k.Attend("eth0")
	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	if err := os.WriteFile(file, []byte("# no network\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Report(false, "")
	k.holds(t, journal.Host)
	if got, _ := os.ReadFile(file); string(got) != content {
		t.Errorf("resolv.conf is %q", got)
	}
}

func TestWhatCannotBeStolen(t *testing.T) {
	h := newHost(t)
	k := h.keeper(t)
	defer k.Close()
	for name, want := range map[string]string{"": "missing interface", "lo": "not a network card", "vpp1": "not a network card", "eth7": "interface eth7: "} {
		if _, err := k.Steal(name, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stealing %q: %v; want %s", name, err, want)
		}
	}
	if len(k.journal.NICs) > 0 {
		t.Errorf("claimed are %v", k.journal.NICs)
	}
}

// After a reboot, a card without addresses gets its old ones, unless DHCP will provide them. The
// journal is in the first format and was written while the vswitch held the card.
func TestJournalOfAnOlderDaemon(t *testing.T) {
	h := newHost(t)
	h.ip(t, "addr del 192.0.2.7/24 dev eth0")
	h.ip(t, "route add 198.51.100.0/24 via 192.0.2.253 dev eth0 metric 77 mtu 1300")
	before := h.has(t)
	for _, route := range []string{"default", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/64", "2001:db8:2::/48"} {
		h.ip(t, "route del "+route)
	}
	h.ip(t, "-6 route del default")
	data, err := os.ReadFile("testdata/journal-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "journal.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	k := h.keeper(t) // without interconnect
	defer k.Close()
	k.holds(t, journal.Host)
	if got := h.has(t); got != before {
		t.Errorf("the card has\n%s\nwant\n%s", got, before)
	}
}

func TestRestartOfTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		dhcp, configured bool
		want             string
	}{
		"VPP is not configured": {want: "192.0.2.1/24"},
		"DHCP configures it":    {dhcp: true},
		"it has been elsewhere": {configured: true, want: "198.18.0.1/24"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.ip(t, "addr del 192.0.2.7/24 dev eth0")
			h.interconnect(t)
			k := h.keeper(t)
			if _, err := k.Steal("eth0", c.dhcp); err != nil {
				t.Fatal(err)
			}
			k.Attend("eth0").Report(true, "")
			k.holds(t, journal.VSwitch)
			k.kernel.Close() // power failure
			for _, command := range []string{"addr flush dev eth0 scope global", "link del vpp1"} {
				h.ip(t, command)
			}
			k.mu.Lock()
			k.closed = true
			k.mu.Unlock()
			if c.configured {
				h.ip(t, "addr add 198.18.0.1/24 dev eth0")
			}
			h.boot = "next boot"
			next := h.keeper(t)
			defer next.Close()
			var got []string
			for _, field := range strings.Fields(h.ip(t, "-4 -o addr show dev eth0")) {
				if strings.Contains(field, "/") {
					got = append(got, field)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("the card has %s, want %s", got, c.want)
			}
			if next.Claimed("") != nil {
				t.Error("it is still claimed")
			}
		})
	}
}
