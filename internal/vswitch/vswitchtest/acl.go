package vswitchtest

import (
	"fmt"
	"slices"
	"testing"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// runACLs tests access lists with two hosts behind interfaces "left" and "right" of a vswitch,
// routed and bridged.
func runACLs(t *testing.T, c Config) {
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		t.Skip("this driver carries no packets")
	}
	for name, bridged := range map[string]bool{"routed": false, "bridged": true} {
		t.Run(name, func(t *testing.T) {
			lab := newACLLab(t, c, bridged)
			for _, test := range aclCases {
				if test.node && (bridged || !lab.agent.vs.Capabilities().HostStackShared) {
					continue // the node's sockets do not use the vswitch's stack
				}
				t.Run(test.name, func(t *testing.T) { lab.check(t, test) })
			}
			t.Run("rules change under a running connection", func(t *testing.T) { lab.checkRunning(t) })
			t.Run("reply traffic of a removed list", func(t *testing.T) { lab.checkForgotten(t, c.ReflectionsStay) })
			t.Run("replacing rules leaves no gap", func(t *testing.T) { lab.checkReplacement(t) })
			t.Run("MAC-IP lists", func(t *testing.T) { lab.checkMACIP(t) })
			t.Run("a restarted agent finds them, and they count meanwhile", func(t *testing.T) { lab.checkRestart(t) })
		})
	}
}

type aclLab struct {
	site        PacketSite
	agent       *agent
	values      []proto.Message
	keys        []string // of the current lists
	left, right *Host
	// Prefixes of the hosts' networks. Host 2 is left, hosts 3 and 4 are right, host 1 is the
	// vswitch if it routes.
	leftNet, rightNet [2]string // IPv4, IPv6
}

const leftMAC = "02:fe:00:00:ac:02"

func newACLLab(t *testing.T, c Config, bridged bool) *aclLab {
	t.Helper()
	lab := &aclLab{site: c.NewSite(t).(PacketSite), leftNet: leftNet, rightNet: rightNet}
	tap := func(name string, net [2]string) *vpp_interfaces.Interface {
		iface := &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true,
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
		if !bridged {
			iface.IpAddresses = []string{net[0] + "1/24", net[1] + "1/64"}
		}
		return iface
	}
	if bridged {
		lab.rightNet = lab.leftNet
		lab.values = append(lab.values, &vpp_l2.BridgeDomain{
			Name: "lan", Flood: true, UnknownUnicastFlood: true, Forward: true, Learn: true,
			Interfaces: []*vpp_l2.BridgeDomain_Interface{{Name: "left"}, {Name: "right"}},
		})
	}
	lab.values = append(lab.values, tap("left", lab.leftNet), tap("right", lab.rightNet))
	lab.agent = startAgent(t, lab.site)
	lab.agent.resync(lab.values...)
	lab.agent.wantConfigured(lab.values)
	plug := func(name string, net [2]string, numbers ...int) *Host {
		host := lab.site.Plug(t, models.TapHostIfName(name))
		if name == "left" {
			host.Exec(t, "ip link set dev eth0 address "+leftMAC)
		}
		host.Exec(t, "ip link set dev eth0 up")
		for _, n := range numbers {
			host.Exec(t, fmt.Sprintf("ip addr add %s%d/24 dev eth0", net[0], n))
			host.Exec(t, fmt.Sprintf("ip addr add %s%d/64 dev eth0 nodad", net[1], n))
		}
		if !bridged {
			host.Exec(t, "ip route add default via "+net[0]+"1")
			host.Exec(t, "ip route add default via "+net[1]+"1")
		}
		return host
	}
	lab.left = plug("left", lab.leftNet, 2)
	lab.right = plug("right", lab.rightNet, 3, 4)
	for _, server := range []struct {
		host    *Host
		net     [2]string
		numbers []int
	}{{lab.left, lab.leftNet, []int{2}}, {lab.right, lab.rightNet, []int{3, 4}}} {
		for version := range 2 {
			for _, n := range server.numbers {
				for _, port := range []int{80, 8080} {
					server.host.Echo(t, "tcp", fmt.Sprint(server.net[version], n), port)
					server.host.Echo(t, "udp", fmt.Sprint(server.net[version], n), port)
				}
			}
		}
	}
	if !bridged && lab.agent.vs.Capabilities().HostStackShared {
		for version := range 2 {
			for _, network := range []string{"tcp", "udp"} {
				lab.site.Self().Echo(t, network, lab.leftNet[version]+"1", 80)
			}
		}
	}
	// Without lists all traffic passes. This also resolves the neighbours.
	lab.check(t, aclCase{probes: []probe{
		{"right", "tcp", "left", 80, true}, {"left", "udp", "right", 80, true}, {"left", "ping", "right2", 0, true},
		{"right", "tcp6", "left", 80, true}, {"left", "udp6", "right", 80, true}, {"left", "ping6", "right2", 0, true},
	}})
	if t.Failed() {
		t.FailNow()
	}
	return lab
}

var leftNet, rightNet = [2]string{"10.21.0.", "fd21::"}, [2]string{"10.22.0.", "fd22::"}

// probe is a connection attempt of a host: left, right or node. Kinds are tcp, udp, ping, tcp6,
// udp6 and ping6. Destinations are left, right, right2 and node.
type probe struct {
	from, kind, to string
	port           int
	passes         bool
}

type aclCase struct {
	name   string
	lists  []*vpp_acl.ACL
	probes []probe
	node   bool // the node sends or answers probes
}

func (lab *aclLab) check(t *testing.T, c aclCase) {
	t.Helper()
	lab.set(t, c.lists...)
	for _, p := range c.probes {
		if err := lab.send(p); (err == nil) != p.passes {
			t.Errorf("%s from %s to %s, port %d: passes %v, want %v (%v)", p.kind, p.from, p.to, p.port, err == nil, p.passes, err)
		}
	}
}

func (lab *aclLab) set(t *testing.T, lists ...*vpp_acl.ACL) {
	t.Helper()
	lab.agent.t = t
	txn := lab.agent.NewTransaction()
	for _, key := range lab.keys {
		txn.Delete(key)
	}
	lab.keys = nil
	values := slices.Clone(lab.values)
	for _, list := range lists {
		txn.Put(models.Key(list), list)
		values, lab.keys = append(values, list), append(lab.keys, models.Key(list))
	}
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatalf("setting lists: %v", err)
	}
	lab.agent.wantConfigured(values)
}

func (lab *aclLab) send(p probe) error {
	hosts := map[string]*Host{"left": lab.left, "right": lab.right, "node": lab.site.Self()}
	version, network := 0, p.kind
	if network[len(network)-1] == '6' {
		version, network = 1, network[:len(network)-1]
	}
	dst := map[string]string{
		"left": lab.leftNet[version] + "2", "right": lab.rightNet[version] + "3", "right2": lab.rightNet[version] + "4", "node": lab.leftNet[version] + "1",
	}[p.to]
	return hosts[p.from].Probe(network, dst, p.port, p.passes)
}
