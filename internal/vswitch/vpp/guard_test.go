package vpp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/vishvananda/netns"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/binapi/vxlan"
)

const guardedMAC = "02:fe:00:00:00:01"

func guardOf(iface string, addrs ...string) *guard.SourceGuard {
	return &guard.SourceGuard{Interface: iface, MacAddress: guardedMAC, IpAddresses: addrs}
}

func TestLimitsOfConnectionsAreUnsupported(t *testing.T) {
	v := open(t, vpptest.New(t))
	g := guardOf("a", "10.1.0.2")
	g.MaxConnections = 5
	err := v.SourceGuards().Create(t.Context(), g)
	if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("%v: want that max_connections is not supported", err)
	}
}

// Guards read right after a tunnel was created, before its event, are corrected later.
func TestGuardsAreReadWhileATunnelComes(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		g := guardOf("a", "10.1.0.2")
		must(t, v.SourceGuards().Create(t.Context(), g))
		peer := netip.MustParseAddr("192.0.2.7")
		must(t, v.vpp.Call(t.Context(), session.Core, &vxlan.VxlanAddDelTunnelV3{
			IsAdd: true, Instance: ^uint32(0), SrcAddress: convert.Address(netip.MustParseAddr("192.0.2.1")), DstAddress: convert.Address(peer), McastSwIfIndex: ownership.NoIndex,
			DecapNextIndex: ^uint32(0), Vni: 10, SrcPort: 4789, DstPort: 4789, IsL3: false,
		}, &vxlan.VxlanAddDelTunnelV3Reply{}))
		found, err := v.SourceGuards().List(t.Context(), []*guard.SourceGuard{g})
		if err != nil || len(found) != 1 || found[0].GetMacAddress() != "" {
			t.Errorf("before the event: %v, %v: want a guard that differs", found, err)
		}
		must(t, v.guards.EndsChanged(t.Context()))
		wantListed(t, v.SourceGuards().List, []*guard.SourceGuard{g}, g)
	})
}

// Drops are counted even after interface indexes were forgotten, as when a request names a deleted
// interface.
func TestDropsOfForgottenInterfacesAreRead(t *testing.T) {
	server := vpptest.New(t)
	v := open(t, &site{VPP: server, server: server})
	create(t, v, loopback("a"))
	must(t, v.SourceGuards().Create(t.Context(), guardOf("a", "10.1.0.2")))
	read := func() (tables int) {
		server.Inject(func(_ int, req api.Message) vpptest.Fault {
			if _, is := req.(*vlib.CliInband); is {
				tables++
			}
			return vpptest.NoFault
		})
		defer server.Inject(nil)
		_, err := v.SourceGuards().Drops(t.Context())
		must(t, err)
		return tables
	}
	want := read()
	v.ifs.Forget()
	if got := read(); want == 0 || got != want {
		t.Errorf("%d tables are read, want %d", got, want)
	}
}

// Guards can change during the slow read of drops, and no count is lost.
func TestGuardsChangeWhileDropsAreRead(t *testing.T) {
	const guards = 10
	server := vpptest.New(t)
	v := open(t, &site{VPP: server, server: server})
	for i := range guards {
		name := fmt.Sprint("pod", i)
		create(t, v, loopback(name))
		must(t, v.SourceGuards().Create(t.Context(), guardOf(name, fmt.Sprint("10.1.0.", 2+i))))
	}
	reads := make(chan struct{})
	reading := sync.OnceFunc(func() { close(reads) })
	server.Inject(func(_ int, req api.Message) vpptest.Fault {
		if _, is := req.(*vlib.CliInband); !is {
			return vpptest.NoFault
		}
		reading()
		return vpptest.LateAnswer
	})
	read := make(chan error, 1)
	go func() {
		_, err := v.SourceGuards().Drops(t.Context())
		read <- err
	}()
	<-reads
	create(t, v, loopback("new"))
	must(t, v.SourceGuards().Create(t.Context(), guardOf("new", "10.1.0.100")))
	select {
	case err := <-read:
		t.Errorf("the new guard waited until all drops were read (%v)", err)
	default:
	}
	for i := range guards { // one of them is being read
		name := fmt.Sprint("pod", i)
		must(t, v.SourceGuards().Create(t.Context(), guardOf(name, fmt.Sprint("10.2.0.", 2+i))))
	}
	server.Inject(nil)
	must(t, <-read)
}

// Guards and access lists on an interface are independent: a packet has to pass all, whichever was
// first.
func TestAccessListsOfGuardedInterfaces(t *testing.T) {
	vpptest.Need(t)
	g := guardOf("a", "10.1.0.2", "10.1.0.3", "10.1.0.4")
	ip := accessList("ip", []string{"a"}, nil,
		&vpp_acl.ACL_Rule{Action: vpp_acl.ACL_Rule_DENY, IpRule: &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{SourceNetwork: "10.1.0.3/32"}}}, permitAll())
	var rules []*vpp_acl.ACL_Rule
	for _, addr := range []string{"10.1.0.2", "10.1.0.3", "10.1.0.5"} {
		rules = append(rules, macipRule(vpp_acl.ACL_Rule_PERMIT, addr, 32, guardedMAC, "ff:ff:ff:ff:ff:ff"))
	}
	macip := accessList("macip", []string{"a"}, nil, rules...)
	for name, order := range map[string][]string{
		"guard first": {"guard", "ip", "macip"}, "guard last": {"macip", "ip", "guard"}, "guard between": {"ip", "guard", "macip"},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := newRealSite(t)
			a := s.attachPod(t, v, "a", "10.1.0.2/24", "10.1.0.1")
			s.attachPod(t, v, "b", "10.2.0.2/24", "10.2.0.1")
			a.Exec(t, "ip link set dev eth0 address "+guardedMAC)
			a.Exec(t, "ip route replace default via 10.1.0.1")
			for _, more := range []string{"10.1.0.3", "10.1.0.4", "10.1.0.5"} {
				a.Exec(t, "ip addr add "+more+"/24 dev eth0")
			}
			wantFrom := func(what string, reached ...string) {
				t.Helper()
				for _, src := range []string{"10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5"} {
					want, wait := slices.Contains(reached, src), 1
					if want {
						wait = int(pingTime.Seconds())
					}
					_, err := a.Try(fmt.Sprintf("ping -n -q -c 1 -i 0.2 -w %d -I %s 10.2.0.2", wait, src))
					if (err == nil) != want {
						t.Errorf("%s: from %s: %v, want %v", what, src, err == nil, want)
					}
				}
			}
			wantFrom("without all", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5")
			for _, what := range order {
				switch what {
				case "guard":
					must(t, v.SourceGuards().Create(t.Context(), g))
				case "ip":
					must(t, v.ACLs().Create(t.Context(), ip))
					bindACL(t, v, "ip", "a", false)
				case "macip":
					must(t, v.ACLs().Create(t.Context(), macip))
					bindACL(t, v, "macip", "a", false)
				}
			}
			wantFrom("with all", "10.1.0.2")
			wantACLs(t, v, ip, macip)
			must(t, v.SourceGuards().Delete(t.Context(), g))
			wantFrom("without the guard", "10.1.0.2", "10.1.0.5")
			must(t, v.SourceGuards().Create(t.Context(), g))
			must(t, v.ACLs().Delete(t.Context(), ip))
			must(t, v.ACLs().Delete(t.Context(), macip))
			wantFrom("with the guard alone", "10.1.0.2", "10.1.0.3", "10.1.0.4")
		})
	}
}

// BenchmarkGuardedPods compares pods with and without source guards: one TCP stream, and successive
// TCP connections, through a real VPP. Both alternate, so that other load affects them alike. It
// reports the medians of the ratios of time and of VPP's CPU time: 1.00 is no difference.
func BenchmarkGuardedPods(b *testing.B) {
	for _, ipv6 := range []bool{false, true} {
		b.Run(map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], func(b *testing.B) { benchGuards(b, ipv6) })
	}
}

func benchGuards(b *testing.B, ipv6 bool) {
	vpptest.Need(b)
	h := newNamespace(b)
	vpp := vpptest.NewProcess(b, h.NetNS)
	s := &site{VPP: vpp, host: h}
	v := open(b, s)
	var pods []*vswitchtest.Host
	var guards []*guard.SourceGuard
	addrs := []string{"10.1.0.2", "10.2.0.2"}
	if ipv6 {
		addrs = []string{"fd10:1::2", "fd10:2::2"}
	}
	for i, name := range []string{"a", "b"} {
		net4, net6 := fmt.Sprintf("10.%d.0.", i+1), fmt.Sprintf("fd10:%d::", i+1)
		pod := newNamespace(b)
		s.addTo(b, pod, "v1"+name, net4+"2/24")
		completeChecksums(b, pod)
		mac := fmt.Sprintf("02:fe:00:00:00:%02x", i+1)
		pod.Exec(b, "ip link set dev eth0 address "+mac)
		pod.Exec(b, "ip addr add "+net6+"2/64 dev eth0 nodad")
		iface := afPacket(name, "v1"+name)
		iface.IpAddresses = []string{net4 + "1/24", net6 + "1/64"}
		create(b, v, iface)
		pod.Exec(b, "ip route replace default via "+net4+"1")
		pod.Exec(b, "ip route replace default via "+net6+"1")
		pods = append(pods, pod)
		guards = append(guards, &guard.SourceGuard{Interface: name, MacAddress: mac, IpAddresses: []string{net4 + "2", net6 + "2"}})
	}
	if err := pods[0].Ping(addrs[1], 56, pingTime); err != nil {
		b.Fatal(err)
	}
	listener := inHost(b, pods[1], func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(addrs[1], "0")) })
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	dial := func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
	const connections, megabytes = 200, 64
	chunk := make([]byte, 1<<20)
	work := map[string]func(){
		"stream": func() {
			c := inHost(b, pods[0], dial)
			defer c.Close()
			for range megabytes {
				if _, err := c.Write(chunk); err != nil {
					b.Error(err)
					return
				}
			}
		},
		"connections": func() {
			inHost(b, pods[0], func() (struct{}, error) {
				for range connections {
					c, err := dial()
					if err != nil {
						return struct{}{}, err
					}
					_ = c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
				return struct{}{}, nil
			})
		},
	}
	guarded := func(on bool) {
		for _, g := range guards {
			if on {
				must(b, v.SourceGuards().Create(b.Context(), g))
			} else {
				must(b, v.SourceGuards().Delete(b.Context(), g))
			}
		}
	}
	for name, do := range work {
		b.Run(name, func(b *testing.B) {
			var byTime, byCPU []float64
			do() // warm up
			for b.Loop() {
				var took [2]time.Duration
				var used [2]float64
				for _, on := range []bool{true, false, false, true} {
					guarded(on)
					start, before := time.Now(), cpuOf(b, vpp.PID())
					do()
					k := map[bool]int{true: 1, false: 0}[on]
					took[k] += time.Since(start)
					used[k] += cpuOf(b, vpp.PID()) - before
				}
				byTime, byCPU = append(byTime, took[1].Seconds()/took[0].Seconds()), append(byCPU, used[1]/max(used[0], 1))
			}
			slices.Sort(byTime)
			slices.Sort(byCPU)
			b.ReportMetric(byTime[len(byTime)/2], "time-ratio")
			b.ReportMetric(byCPU[len(byCPU)/2], "CPU-ratio")
		})
	}
}

func cpuOf(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	must(b, err1)
	must(b, err2)
	return user + system
}

func inHost[T any](b testing.TB, h *vswitchtest.Host, fn func() (T, error)) (result T) {
	b.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromPath(h.NetNS)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			result, err = fn()
		}
		done <- err
	}()
	must(b, <-done)
	return result
}

// An agent that has just started does not know the names of interfaces that are too long for a tag. It
// must not take guarded interfaces for others.
func TestGuardsOfLongNamesStayWhileTheNetworkIsSet(t *testing.T) {
	server := vpptest.New(t)
	s := &site{VPP: server, server: server}
	v := open(t, s)
	long := "pod-" + strings.Repeat("x", 51)
	server.AddDevice("pod0")
	create(t, v, afPacket(long, "pod0"))
	must(t, v.SourceGuards().Create(t.Context(), guardOf(long, "10.1.0.2")))
	must(t, v.Close())
	v = open(t, s)
	server.Inject(func(_ int, req api.Message) vpptest.Fault {
		if r, is := req.(*classify.PolicerClassifySetInterface); is && !r.IsAdd {
			t.Errorf("the tables of the guarded interface are unbound")
		}
		return vpptest.NoFault
	})
	defer server.Inject(nil)
	must(t, v.guards.SetNetwork(t.Context(), nil, nil, nil))
	wantListed(t, v.SourceGuards().List, []*guard.SourceGuard{guardOf(long, "10.1.0.2")}, guardOf(long, "10.1.0.2"))
}
