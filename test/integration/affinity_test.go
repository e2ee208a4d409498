package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// nodePortLab has the endpoints "near" on node1 and "far" on node2, and services with node ports.
type nodePortLab struct {
	*lab.Lab
	node1, node2 lab.Node
	outside      string // network namespace
	pods         []lab.Pod
}

func newNodePortLab(t *testing.T, prefix string) *nodePortLab {
	require(t)
	opts := options(prefix)
	opts.ContivConfig, opts.ServiceConfig = clientsConfig, "services: vswitch\n"
	l := &nodePortLab{Lab: labtest.Up(t, opts)}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	l.node1, l.node2, l.outside = st.Nodes[0], st.Nodes[1], st.Underlay()
	command.In(t, l.outside, "ip address add fd16::fe/112 dev nodes nodad")
	l.pods = labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	labtest.AwaitAddresses(t, l.Lab)
	return l
}

// at returns the node port of a service at a node.
func (l *nodePortLab) at(t *testing.T, node string, ipv6 bool, number int) netip.AddrPort {
	t.Helper()
	for _, addr := range labtest.NodeAddresses(t, l.Lab, node) {
		if addr.Is6() == ipv6 {
			return netip.AddrPortFrom(addr, uint16(30000+number))
		}
	}
	t.Fatalf("%s has no address, IPv6 %v", node, ipv6)
	return netip.AddrPort{}
}

// remembered counts the clients that node1 remembers.
func (l *nodePortLab) remembered(t *testing.T, ipv6 bool) int {
	t.Helper()
	table := map[bool]string{false: "ip", true: "ip6"}[ipv6]
	return strings.Count(command.In(t, l.node1.Netns, "nft list map "+table+" contiv nat-clients"), "expires")
}

// SYN with forged sources add no client to those that a node remembers. Clients that connect stay
// with their endpoint, by TCP and by UDP.
func TestForgedClientsOfServices(t *testing.T) {
	l := newNodePortLab(t, "fc")
	const number, port, forged = 40, 8080, 500
	objects := fmt.Sprintf(clientsService, number, "sessionAffinity: ClientIP")
	for _, p := range l.pods {
		labtest.TellName(t, p.Netns, p.Name, port)
		for _, e := range endpoints(t, l.Lab, p, []string{"10.1.", "fd10:1:"}) {
			objects += fmt.Sprintf(clientsSlice, number, p.Name+strings.ToLower(familyOf(e.Address)), familyOf(e.Address), port, e.Address, p.Node)
		}
	}
	labtest.Apply(t, l.Lab, objects)
	router := wireIn(t, l.outside, "nodes")
	from, to := deviceMAC(t, l.outside, "nodes"), deviceMAC(t, l.node1.Netns, "eth0")
	for _, ipv6 := range []bool{false, true} {
		at := l.at(t, "node1", ipv6, number)
		had := map[string]string{}
		for _, network := range []string{"tcp", "udp"} {
			await.That(t, "the node port works", func() error {
				told, err := labtest.AskName(l.outside, network, at)
				had[network] = told.Name
				return err
			})
		}
		if n := l.remembered(t, ipv6); n != 2 {
			t.Errorf("IPv6 %v: %d clients are remembered, want one by TCP and one by UDP", ipv6, n)
		}
		for i := range forged {
			src := netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})
			if ipv6 {
				src = netip.AddrFrom16([16]byte{0xfd, 0x11, 14: byte(i >> 8), 15: byte(i)})
			}
			router.Send(t, frames.TCP(from, to, netip.AddrPortFrom(src, 4000), at, frames.SYN))
		}
		await.That(t, "endpoints have answered SYN with forged sources", func() error {
			answered := 0
			for _, flow := range connections(t, l.node1, ipv6) {
				src, state := flow.Forward.SrcIP.String(), flow.ProtoInfo
				if tcp, ok := state.(*netlink.ProtoInfoTCP); ok && tcp.State > nl.TCP_CONNTRACK_SYN_SENT && (strings.HasPrefix(src, "11.") || strings.HasPrefix(src, "fd11:")) {
					answered++
				}
			}
			if answered < forged/2 {
				return fmt.Errorf("%d of %d connections have an answer", answered, forged)
			}
			return nil
		})
		if n := l.remembered(t, ipv6); n != 2 {
			t.Errorf("IPv6 %v: %d clients are remembered after SYN with forged sources, want 2", ipv6, n)
		}
		for network, name := range had {
			for range 6 {
				if told, err := labtest.AskName(l.outside, network, at); err != nil || told.Name != name {
					t.Errorf("IPv6 %v, %s: %s answers (%v), was %s", ipv6, network, told.Name, err, name)
				}
			}
		}
		cluster := netip.AddrPortFrom(clusterAddr(number, ipv6), 80)
		for _, netns := range []string{l.pods[0].Netns, l.node1.Netns} {
			names := map[string]bool{}
			for range 6 {
				told, err := labtest.AskName(netns, "tcp", cluster)
				if err != nil {
					t.Fatal(err)
				}
				names[told.Name] = true
			}
			if len(names) != 1 {
				t.Errorf("IPv6 %v: a client in %s comes to %v", ipv6, netns, names)
			}
		}
	}
	labtest.RequireQuiet(t, l.Lab)
}

func familyOf(addr netip.Addr) string {
	if addr.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

// Two services with the node ports of each other as endpoints send no packet back and forth: the
// younger (by name, since both have the same time) refuses clients, and says why.
func TestNodePortsThatLeadToEachOther(t *testing.T) {
	l := newNodePortLab(t, "np")
	const here, there = 41, 42
	objects := fmt.Sprintf(clientsService, here, "") + fmt.Sprintf(clientsService, there, "")
	for _, ipv6 := range []bool{false, true} {
		for number, to := range map[int]netip.AddrPort{here: l.at(t, "node2", ipv6, there), there: l.at(t, "node1", ipv6, here)} {
			objects += fmt.Sprintf(clientsSlice, number, strings.ToLower(familyOf(to.Addr())), familyOf(to.Addr()), to.Port(), to.Addr(), "node2")
		}
	}
	labtest.Apply(t, l.Lab, objects)
	for number, other := range map[int]int{there: here} {
		for _, node := range []string{"node1", "node2"} {
			await.That(t, fmt.Sprintf("service s%d on %s says why its endpoint gets no clients", number, node), func() error {
				var report service.Report
				if err := l.Agent(node).Get(t.Context(), fmt.Sprintf("%s?service=default/s%d", service.URL, number), &report); err != nil {
					return err
				}
				want := fmt.Sprintf("is reserved for the node port of service default/s%d", other)
				if got := fmt.Sprint(report.Services); !strings.Contains(got, want) {
					return fmt.Errorf("%s, want %q", got, want)
				}
				return nil
			})
		}
	}
	for _, ipv6 := range []bool{false, true} {
		for _, network := range []string{"tcp", "udp"} {
			at := l.at(t, "node1", ipv6, here)
			if told, err := labtest.AskName(l.outside, network, at); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s to %v: %v (%v), want a refusal", network, at, told, err)
			}
		}
		for _, node := range []lab.Node{l.node1, l.node2} {
			for _, flow := range connections(t, node, ipv6) {
				if port := flow.Forward.DstPort; port == 30000+there && flow.Reverse.SrcPort != port {
					t.Errorf("%s translates a connection: %v", node.Name, flow)
				}
			}
		}
	}
}
