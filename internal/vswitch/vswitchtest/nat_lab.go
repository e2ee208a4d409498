package vswitchtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// natLab is a vswitch with three pods and the world, each behind a separate interface. Pods are
// clients and endpoints of services; their traffic to the world gets a source address from a pool.
//
//	pod1 10.31.1.2 ─┐            ┌─ world 10.32.0.2, .10 …
//	pod2 10.31.2.2 ─┼─ vswitch ──┘
//	pod3 10.31.3.2 ─┘   services 10.96.0.0/16
type natLab struct {
	site   PacketSite
	agent  *agent
	values []proto.Message
	keys   []string // of the values of a test
	pods   []*Host  // by number; 0 is unused
	world  *Host
	// sessions: see Config.SessionsOfDNAT.
	sessions bool
}

const (
	worldIP                = "10.32.0.2"
	poolFirst, poolLast    = "10.32.0.100", "10.32.0.101"
	twicePool, twicePoolIP = "10.31.9.254", "10.31.9.253"
)

func podIP(n int) string { return fmt.Sprintf("10.31.%d.2", n) }

func newNATLab(t *testing.T, c Config) *natLab {
	t.Helper()
	return newNATLabIn(t, c, false)
}

// newNATLabIn returns a natLab. If vrf is set, the pods are in a separate VRF, as on a node, and
// NAT is enabled only on the world's interface.
func newNATLabIn(t *testing.T, c Config, vrf bool) *natLab {
	t.Helper()
	lab := &natLab{site: c.NewSite(t).(PacketSite)}
	tap := func(name, addr string, table uint32) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{addr}, Vrf: table,
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
	}
	lab.values = []proto.Message{
		&vpp_nat.Nat44Global{Forwarding: true},
		tap("world", "10.32.0.1/24", 0), &vpp_nat.Nat44Interface{Name: "world", NatOutside: true, OutputFeature: true},
		&vpp_nat.Nat44AddressPool{FirstIp: poolFirst, LastIp: poolLast},
		&vpp_nat.Nat44AddressPool{Name: "twice", FirstIp: twicePoolIP, LastIp: twicePool, TwiceNat: true},
	}
	table := uint32(0)
	if vrf {
		table = 1
		lab.values = append(lab.values,
			&vpp_l3.VrfTable{Id: table, Label: "pods"},
			&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: table, DstNetwork: "0.0.0.0/0"},
			&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, DstNetwork: "10.31.0.0/16", ViaVrfId: table})
	} else {
		// The node itself needs a route to services.
		lab.values = append(lab.values, &vpp_l3.Route{DstNetwork: "10.96.0.0/16", NextHopAddr: worldIP, OutgoingInterface: "world"})
	}
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("pod%d", n)
		lab.values = append(lab.values, tap(name, fmt.Sprintf("10.31.%d.1/24", n), table))
		if !vrf {
			lab.values = append(lab.values, &vpp_nat.Nat44Interface{Name: name, NatInside: true, NatOutside: true})
		}
	}
	lab.agent = startAgent(t, lab.site)
	lab.agent.resync(lab.values...)
	lab.agent.wantConfigured(lab.values)
	lab.pods = []*Host{nil}
	for n := 1; n <= 3; n++ {
		lab.pods = append(lab.pods, lab.plug(t, fmt.Sprintf("pod%d", n), podIP(n), fmt.Sprintf("10.31.%d.1", n)))
	}
	lab.world = lab.plug(t, "world", worldIP, "10.32.0.1")
	lab.world.Exec(t, "ip route add "+poolFirst+"/30 via 10.32.0.1")
	for n := 10; n < 26; n++ {
		lab.world.Exec(t, fmt.Sprintf("ip addr add 10.32.0.%d/24 dev eth0", n))
	}
	for n := 1; n <= 3; n++ {
		lab.pods[n].answerAll(t, fmt.Sprintf("pod%d", n))
	}
	lab.world.answerAll(t, "world")
	return lab
}

func (l *natLab) plug(t *testing.T, name, addr, gateway string) *Host {
	t.Helper()
	host := l.site.Plug(t, models.TapHostIfName(name))
	for _, command := range []string{
		"ip link set dev eth0 up", "ip addr add " + addr + "/24 dev eth0", "ip route add default via " + gateway,
	} {
		host.Exec(t, command)
	}
	return host
}

// set configures the values of the test in addition to those of the lab.
func (l *natLab) set(t *testing.T, values ...proto.Message) {
	t.Helper()
	wanted := map[string]bool{}
	txn := l.agent.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
		wanted[models.Key(v)] = true
	}
	for _, key := range l.keys {
		if !wanted[key] {
			txn.Delete(key)
		}
	}
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.keys = nil
	for key := range wanted {
		l.keys = append(l.keys, key)
	}
	l.agent.wantConfigured(values)
}

// servicePort is the TCP and UDP port of pods and the world.
const servicePort = 8080

// answerAll answers on all addresses with a name and the client's address.
func (h *Host) answerAll(t testing.TB, name string) {
	t.Helper()
	h.answer(t, name, fmt.Sprintf(":%d", servicePort))
}

func (h *Host) answer(t testing.TB, name, at string) {
	t.Helper()
	var l net.Listener
	var p net.PacketConn
	err := h.in(func() (err error) {
		if l, err = net.Listen("tcp", at); err == nil {
			p, err = net.ListenPacket("udp", at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	answerStreams(t, l, name)
	var running sync.WaitGroup
	t.Cleanup(func() {
		p.Close()
		running.Wait()
	})
	running.Go(func() {
		buffer := make([]byte, 2048)
		for {
			_, from, err := p.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = p.WriteTo(greeting(name, from), from)
			}
		}
	})
}

func greeting(name string, client net.Addr) []byte {
	address, _, _ := net.SplitHostPort(client.String())
	return []byte(name + " " + address)
}

func answerStreams(t testing.TB, l net.Listener, name string) {
	t.Helper()
	var running sync.WaitGroup
	var mu sync.Mutex
	open := []io.Closer{l}
	t.Cleanup(func() {
		mu.Lock()
		for _, c := range open { // some clients disappear without closing
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				buffer := make([]byte, 2048)
				for {
					_ = c.SetReadDeadline(time.Now().Add(time.Minute))
					if _, err := c.Read(buffer); err != nil {
						return
					}
					_, _ = c.Write(greeting(name, c.RemoteAddr()))
				}
			})
		}
	})
}

type caller struct{ net.Conn }

func (h *Host) call(t testing.TB, network, from, addr string, port int) (caller, error) {
	t.Helper()
	dialer := net.Dialer{Timeout: longWait}
	if from != "" {
		if network == "udp" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(net.JoinHostPort(from, "0")))
		} else {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(net.JoinHostPort(from, "0")))
		}
	}
	var c net.Conn
	err := h.in(func() (err error) {
		c, err = dialer.Dial(network, net.JoinHostPort(addr, fmt.Sprint(port)))
		return err
	})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return caller{c}, err
}

func (c caller) ask(wait time.Duration) (who, seen string, err error) {
	buffer := make([]byte, 2048)
	if _, err := c.Write([]byte("who?")); err != nil {
		return "", "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	n, err := c.Read(buffer)
	who, seen, _ = strings.Cut(string(buffer[:n]), " ")
	return who, seen, err
}

func (c caller) wantAnswer(t testing.TB, pod string) {
	t.Helper()
	var who string
	var err error
	for range 10 { // a packet may be lost during a change
		if who, _, err = c.ask(time.Second); err == nil {
			break
		}
	}
	if who != pod {
		t.Errorf("%s answers (%v), want %s", who, err, pod)
	}
}

func (c caller) wantSilence(t testing.TB) {
	t.Helper()
	if who, _, err := c.ask(shortWait); err == nil {
		t.Errorf("%s answers", who)
	}
}

func (h *Host) who(t testing.TB, network, from, addr string, port int) (who, seen string, err error) {
	t.Helper()
	c, err := h.call(t, network, from, addr, port)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	return c.ask(longWait)
}

func (h *Host) want(t testing.TB, network, addr string, port int, who, seen string) {
	t.Helper()
	gotWho, gotSeen, err := h.who(t, network, "", addr, port)
	if err != nil || gotWho != who || gotSeen != seen {
		t.Errorf("%s %s:%d is %q, which sees %q (%v); want %q to see %q", network, addr, port, gotWho, gotSeen, err, who, seen)
	}
}
