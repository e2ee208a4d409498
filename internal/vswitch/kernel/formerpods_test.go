package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/guard"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
)

type wiredPod struct {
	*vswitchtest.Host
	guard *guard.SourceGuard
	route *vpp_l3.Route
}

func guardedPod(t *testing.T, n *node, v *VSwitch, name, addr string) *wiredPod {
	t.Helper()
	ip, gateway := mustAddr(addr), "10.1.1.1"
	if ip.Is6() {
		gateway = "fd10:1::1"
	}
	bits := ip.BitLen()
	p := &wiredPod{
		guard: &guard.SourceGuard{Interface: name, MacAddress: fmt.Sprintf("02:fe:00:00:00:%02x", ip.AsSlice()[len(ip.AsSlice())-1]), IpAddresses: []string{addr}},
		route: &vpp_l3.Route{DstNetwork: netip.PrefixFrom(ip, bits).String(), OutgoingInterface: name},
	}
	check(t, v.SourceGuards().Create(t.Context(), p.guard))
	check(t, v.Interfaces().Create(t.Context(), tap(name)))
	check(t, v.Interfaces().AddAddress(t.Context(), name, netip.PrefixFrom(mustAddr(gateway), bits)))
	check(t, v.Routes().Create(t.Context(), p.route))
	p.Host = n.Plug(t, models.TapHostIfName(name))
	for _, command := range []string{
		"ip link set dev eth0 address " + p.guard.GetMacAddress() + " up", fmt.Sprintf("ip addr add %s/%d dev eth0 nodad", addr, bits),
		fmt.Sprintf("ip route add %s/%d dev eth0", gateway, bits), "ip route add default via " + gateway + " dev eth0",
	} {
		p.Exec(t, command)
	}
	return p
}

// remove deletes the pod with a restarted agent, which knows only the kernel's state.
func (p *wiredPod) remove(t *testing.T, n *node) {
	t.Helper()
	v := openKernel(t, n)
	check(t, v.Routes().Delete(t.Context(), p.route))
	check(t, v.Interfaces().Delete(t.Context(), tap(p.guard.GetInterface())))
	found, err := v.SourceGuards().List(t.Context(), nil)
	check(t, err)
	for _, g := range found {
		if g.GetInterface() == p.guard.GetInterface() {
			check(t, v.SourceGuards().Delete(t.Context(), g))
		}
	}
	check(t, v.Close())
}

func (p *wiredPod) listen(t *testing.T, port uint16) *net.UDPConn {
	t.Helper()
	c := inHost(t, p.Host, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(mustAddr(p.guard.GetIpAddresses()[0]), port)))
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// A pod inherits no connections from a former pod with its address: the former pod's peers cannot
// reach it.
func TestNobodyAnswersAFormerPod(t *testing.T) {
	for name, test := range map[string]struct {
		network string
		leave   func(*testing.T, *node, *VSwitch, *wiredPod)
	}{
		"IPv4": {"10.1.1.", func(t *testing.T, n *node, _ *VSwitch, p *wiredPod) { p.remove(t, n) }},
		"IPv6": {"fd10:1::", func(t *testing.T, n *node, _ *VSwitch, p *wiredPod) { p.remove(t, n) }},
		"it goes on with another address": {"10.1.1.", func(t *testing.T, n *node, v *VSwitch, p *wiredPod) {
			check(t, v.Routes().Delete(t.Context(), p.route))
			p.guard.IpAddresses = []string{"10.1.1.8"}
			check(t, v.SourceGuards().Create(t.Context(), p.guard))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			network := test.network
			site := newNode(t)
			v := openKernel(t, site)
			former := guardedPod(t, site, v, "former", network+"2")
			asked := guardedPod(t, site, v, "asked", network+"3").listen(t, 9999)
			friend := guardedPod(t, site, v, "friend", network+"4").listen(t, 9999)
			// The policy keeps connections tracked throughout.
			check(t, v.Filter().Set(t.Context(), &contiv_filter.Subject{Name: "asked", Addresses: []string{network + "3"}, Egress: []*contiv_filter.Subject_Stage{{}}}))
			send := func(c *net.UDPConn, to net.Addr, what string) {
				t.Helper()
				if _, err := c.WriteTo([]byte(what), to); err != nil {
					t.Fatal(err)
				}
			}
			receive := func(c *net.UDPConn) string {
				t.Helper()
				check(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
				buffer := make([]byte, 64)
				n, err := c.Read(buffer)
				check(t, err)
				return string(buffer[:n])
			}

			first := former.listen(t, 5000)
			send(first, asked.LocalAddr(), "question")
			receive(asked)
			send(asked, first.LocalAddr(), "answer")
			receive(first)
			test.leave(t, site, v, former)
			send(asked, first.LocalAddr(), "to nobody")

			later := guardedPod(t, site, v, "later", network+"2")
			check(t, v.Filter().Set(t.Context(),
				&contiv_filter.AccessList{Name: "friends", Rules: []*contiv_filter.AccessList_Rule{{Networks: []string{netip.PrefixFrom(mustAddr(network+"4"), mustAddr(network+"4").BitLen()).String()}}}},
				&contiv_filter.Subject{Name: "later", Addresses: []string{network + "2"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"friends"}, Deny: true}}}))
			second := later.listen(t, 5000)
			send(asked, second.LocalAddr(), "answer of another conversation")
			send(friend, second.LocalAddr(), "hello")
			if got := receive(second); got != "hello" {
				t.Errorf("the pod received %q of one that may not send to it", got)
			}
		})
	}
}

// An address that two pods may use belongs to the remaining pod after the other is deleted.
func TestConnectionsOfSharedAddressesStay(t *testing.T) {
	site := newNode(t)
	v := openKernel(t, site)
	one, two := guardedPod(t, site, v, "one", "10.1.1.2"), guardedPod(t, site, v, "two", "10.1.1.3")
	for _, p := range []*wiredPod{one, two} {
		p.guard.IpAddresses = append(p.guard.GetIpAddresses(), "10.1.1.9")
		check(t, v.SourceGuards().Create(t.Context(), p.guard))
	}
	shared := &vpp_l3.Route{DstNetwork: "10.1.1.9/32", OutgoingInterface: "two"}
	check(t, v.Routes().Create(t.Context(), shared))
	two.Exec(t, "ip addr add 10.1.1.9/32 dev eth0")
	check(t, v.Filter().Set(t.Context(), &contiv_filter.Subject{Name: "two", Addresses: []string{"10.1.1.9"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}))
	asked := guardedPod(t, site, v, "asked", "10.1.1.4").listen(t, 9999)
	c := inHost(t, two.Host, func() (*net.UDPConn, error) {
		return net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(10, 1, 1, 9)}, asked.LocalAddr().(*net.UDPAddr))
	})
	defer c.Close()
	buffer := make([]byte, 64)
	_, err := c.Write([]byte("question"))
	check(t, err)
	check(t, asked.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, from, err := asked.ReadFrom(buffer)
	check(t, err)
	one.remove(t, site)
	_, err = asked.WriteTo([]byte("answer"), from)
	check(t, err)
	check(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	if _, err := c.Read(buffer); err != nil {
		t.Errorf("the answer did not arrive: %v", err)
	}
}
