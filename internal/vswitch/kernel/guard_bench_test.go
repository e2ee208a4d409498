package kernel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// BenchmarkGuardedPods compares pods with source guards, among 250 other guards, with pods of a
// node without guards: one TCP stream, and successive TCP connections. The two alternate so that
// noise affects both. It reports the medians of the ratios of time and of CPU time (of the process,
// which includes forwarding); 1.00 means no difference.
func BenchmarkGuardedPods(b *testing.B) {
	for _, ipv6 := range []bool{false, true} {
		b.Run(map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], func(b *testing.B) { benchGuards(b, ipv6) })
	}
}

func benchGuards(b *testing.B, ipv6 bool) {
	site := newNode(b)
	v := site.Open(b).(*VSwitch)
	b.Cleanup(func() { v.Close() })
	addrs, gateway, bits := []string{"10.1.1.2", "10.1.1.3"}, "10.1.1.1", 32
	if ipv6 {
		addrs, gateway, bits = []string{"fd10:1::2", "fd10:1::3"}, "fd10:1::1", 128
	}
	var pods []*vswitchtest.Host
	var guards []*guard.SourceGuard
	for i, addr := range addrs {
		name, mac := fmt.Sprintf("tap%d", i), fmt.Sprintf("02:fe:00:00:00:%02x", i+1)
		check(b, v.Interfaces().Create(b.Context(), tap(name)))
		check(b, v.Interfaces().AddAddress(b.Context(), name, netip.PrefixFrom(netip.MustParseAddr(gateway), bits)))
		check(b, v.Routes().Create(b.Context(), &vpp_l3.Route{DstNetwork: fmt.Sprintf("%s/%d", addr, bits), OutgoingInterface: name}))
		pod := site.Plug(b, models.TapHostIfName(name))
		for _, command := range []string{
			"ip link set dev eth0 address " + mac + " up", fmt.Sprintf("ip addr add %s/%d dev eth0", addr, bits),
			fmt.Sprintf("ip route add %s/%d dev eth0", gateway, bits), "ip route add default via " + gateway + " dev eth0",
		} {
			pod.Exec(b, command)
		}
		if ipv6 {
			pod.Exec(b, "ip addr change "+addr+"/128 dev eth0 nodad")
		}
		pods = append(pods, pod)
		guards = append(guards, &guard.SourceGuard{Interface: name, MacAddress: mac, IpAddresses: []string{addr}, MaxConnections: 16384})
	}
	for n := range 250 {
		guards = append(guards, &guard.SourceGuard{Interface: fmt.Sprintf("other%d", n), MacAddress: fmt.Sprintf("02:fe:00:01:00:%02x", n),
			IpAddresses: []string{fmt.Sprintf("10.1.2.%d", n+1), fmt.Sprintf("fd10:2::%x", n+1)}, MaxConnections: 16384})
	}
	// NAT is enabled, so connections are tracked with and without guards.
	check(b, v.NAT().Enable(b.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
	check(b, v.NAT66().Create(b.Context(), &contiv_nat.SourceNAT66{Interface: nic, Address: "fd16::1"}))
	if err := pods[0].Ping(addrs[1], 56, 5*time.Second); err != nil {
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

	const connections, megabytes = 400, 256
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
	cpu := func() time.Duration {
		var u unix.Rusage
		check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	guarded := func(on bool) {
		if !on {
			check(b, v.guards.Uninstall())
			return
		}
		for _, g := range guards {
			check(b, v.SourceGuards().Create(context.Background(), g))
		}
	}
	for name, do := range work {
		b.Run(name, func(b *testing.B) {
			var byTime, byCPU []float64
			do()
			for b.Loop() {
				var took, used [2]time.Duration
				for _, on := range []bool{true, false, false, true} {
					guarded(on)
					start, before := time.Now(), cpu()
					do()
					k := map[bool]int{true: 1, false: 0}[on]
					took[k] += time.Since(start)
					used[k] += cpu() - before
				}
				byTime, byCPU = append(byTime, took[1].Seconds()/took[0].Seconds()), append(byCPU, used[1].Seconds()/used[0].Seconds())
			}
			slices.Sort(byTime)
			slices.Sort(byCPU)
			b.ReportMetric(byTime[len(byTime)/2], "time-ratio")
			b.ReportMetric(byCPU[len(byCPU)/2], "CPU-ratio")
		})
	}
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
	check(b, <-done)
	return result
}
