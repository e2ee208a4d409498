package vpp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/sockets"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/test/await"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
	"golang.org/x/sys/unix"
)

// A connection to a removed backend is reset only if its socket is in the network namespace of the
// client address. A connection with the same addresses and ports in another pod's namespace
// survives. Only reset connections are silenced.
func TestConnectionsOfOthersAreNotReset(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	if err := sockets.Supported(); err != nil {
		t.Skipf("%v: run the test on a kernel that has it, such as a distribution's", err)
	}
	service := netip.MustParseAddrPort("[fd96::1]:80")
	own, other := podWithClient(t, "fd10::9", service), podWithClient(t, "fd10::9", service)
	server := vpptest.New(t)
	v, err := New(t.Context(), Options{Socket: server.Socket(), Namespaces: func(addr netip.Addr, do func(netns.NsHandle) error) error {
		if addr == netip.MustParseAddr("fd10::9") {
			return do(own.ns)
		}
		return nil
	}})
	must(t, err)
	t.Cleanup(func() { v.Close() })
	create(t, v, loopback("a"))
	must(t, v.SourceGuards().Create(t.Context(), guardOf("a", "fd10::9", "fd10::8")))
	value := func(resets bool, weights ...uint32) *contiv_nat.DNat66 {
		return dnat66Value("default/web", edit66(service66("fd96::1", 80, weights...), func(m *mapping66) { m.ResetRemoved = resets }),
			edit66(service66("fd96::1", 80, weights...), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP }))
	}
	sessionOf := func(proto ip_types.IPProto, from string) cnat.CnatSession {
		end := func(text string) cnat.CnatEndpoint { return cnatEndpoint(netip.MustParseAddrPort(text)) }
		return cnat.CnatSession{Src: end(from), Dst: end("[fd96::1]:80"), New: end("[fd10::2]:8080"), IPProto: proto}
	}
	const udp, tcp = ip_types.IP_API_PROTO_UDP, ip_types.IP_API_PROTO_TCP
	silent := func(when string, want int) {
		t.Helper()
		await.That(t, when, func() error {
			n := 0
			var all classify.ClassifyTableIdsReply
			must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
			for _, id := range all.Ids {
				entries, err := session.Dump[classify.ClassifySessionDetails](t.Context(), v.vpp, session.Core, &classify.ClassifySessionDump{TableID: id})
				must(t, err)
				for _, e := range entries {
					if bytes.Contains(e.Match, service.Addr().AsSlice()) {
						n++
					}
				}
			}
			if n != want {
				return fmt.Errorf("%d flows are silent, want %d", n, want)
			}
			return nil
		})
	}
	pod := own.client.LocalAddr().String()
	set66(t, v, value(false, 1, 1))
	server.SetCNATSessions(sessionOf(tcp, pod), sessionOf(udp, pod), sessionOf(tcp, "[fd10::8]:1000"))
	set66(t, v, value(false, 1))
	silent("without reset_removed, the flow of UDP is silent", 1)
	if ended := own.closed(0); ended != nil {
		t.Fatalf("without reset_removed, the connection ends: %v", ended)
	}
	set66(t, v, value(true, 1, 1))
	set66(t, v, value(true, 1))
	if ended := own.closed(await.Patience); !errors.Is(ended, syscall.ECONNABORTED) {
		t.Errorf("the connection of the pod: %v, want it aborted", ended)
	}
	silent("the connection that has ended is silent, too", 2)
	if ended := other.closed(0); ended != nil {
		t.Errorf("the connection of another pod ends: %v", ended)
	}
	server.SetCNATSessions(sessionOf(tcp, "[fd10::8]:1000"))
	silent("a live flow is not silenced", 0)
}

type podNamespace struct {
	ns     netns.NsHandle
	client net.Conn
}

func podWithClient(t *testing.T, addr string, service netip.AddrPort) *podNamespace {
	t.Helper()
	p := &podNamespace{}
	err := namespace.InNew(func() (err error) {
		if p.ns, err = netns.Get(); err != nil {
			return err
		}
		t.Cleanup(func() { p.ns.Close() })
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		for _, a := range []string{addr, service.Addr().String()} {
			if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(a), Mask: net.CIDRMask(128, 128)}, Flags: unix.IFA_F_NODAD}); err != nil {
				return err
			}
		}
		l, err := net.Listen("tcp", service.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	await.That(t, "the kernel has its routes to the addresses", func() error {
		return namespace.In(p.ns, func() (err error) {
			p.client, err = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr), Port: 1000}}).Dial("tcp", service.String())
			return err
		})
	})
	t.Cleanup(func() { p.client.Close() })
	return p
}

// closed returns the client's error, waiting at most maxWait; nil if none.
func (p *podNamespace) closed(maxWait time.Duration) error {
	p.client.SetReadDeadline(time.Now().Add(max(maxWait, time.Millisecond)))
	_, err := p.client.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}
