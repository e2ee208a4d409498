package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func findPod(t testing.TB, vs vswitch.VSwitch, n int) map[string]proto.Message {
	t.Helper()
	tap, arp, route := podValues(n)
	found := map[string]proto.Message{}
	interfaces, err := vs.Interfaces().Find(t.Context(), []*vpp_interfaces.Interface{tap})
	check(t, err)
	for _, v := range interfaces {
		found[models.Key(v)] = v
	}
	entries, err := vs.Neighbours().Find(t.Context(), []*vpp_l3.ARPEntry{arp})
	check(t, err)
	for _, v := range entries {
		found[models.Key(v)] = v
	}
	routes, err := vs.Routes().Find(t.Context(), []*vpp_l3.Route{route})
	check(t, err)
	for _, v := range routes {
		found[models.Key(v)] = v
	}
	return found
}

func listPod(t testing.TB, vs vswitch.VSwitch, n int) map[string]proto.Message {
	t.Helper()
	tap, arp, route := podValues(n)
	keys := map[string]bool{models.Key(tap): true, models.Key(arp): true, models.Key(route): true}
	found := map[string]proto.Message{}
	interfaces, err := vs.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{tap})
	check(t, err)
	for _, v := range interfaces {
		found[models.Key(v)] = v
	}
	entries, err := vs.Neighbours().List(t.Context(), []*vpp_l3.ARPEntry{arp})
	check(t, err)
	for _, v := range entries {
		found[models.Key(v)] = v
	}
	routes, err := vs.Routes().List(t.Context(), []*vpp_l3.Route{route})
	check(t, err)
	for _, v := range routes {
		found[models.Key(v)] = v
	}
	for key := range found {
		if !keys[key] {
			delete(found, key)
		}
	}
	return found
}

func TestFindSeesWhatListSees(t *testing.T) {
	tap, _, _ := podValues(0)
	device := own.DeviceName(own.DevInterface, tap.GetName())
	for name, test := range map[string]struct {
		damage string
		exist  int
	}{
		"intact":                           {"", 3},
		"down":                             {"ip link set $DEV down", 1},
		"other MTU":                        {"ip link set $DEV mtu 1300", 3},
		"other MAC":                        {"ip link set $DEV address 02:00:00:00:00:99", 2},
		"further address":                  {"ip addr add 10.99.0.1/32 dev $DEV", 3},
		"borrowed address is gone":         {"ip addr flush dev $DEV", 1},
		"renamed":                          {"ip link set $DEV name elsewhere", 3},
		"device is gone":                   {"ip link del $DEV", 0},
		"route is gone":                    {"ip route del 10.1.0.2", 2},
		"route of another program instead": {"ip route del 10.1.0.2; ip route add 10.1.0.2 dev $DEV proto 99", 2},
		"route is hidden":                  {"ip route prepend 10.1.0.2 dev $DEV proto 99", 3},
		"shorter route only":               {"ip route del 10.1.0.2; ip route add 10.1.0.0/24 dev $DEV proto 121", 2},
		"neighbour is gone":                {"ip neigh del 10.1.0.2 dev $DEV", 2},
		"neighbour of another program":     {"ip neigh del 10.1.0.2 dev $DEV; ip neigh add 10.1.0.2 dev $DEV lladdr 02:00:00:00:00:98 nud permanent", 2},
		"neighbour with another MAC":       {"ip neigh replace 10.1.0.2 dev $DEV lladdr 02:00:00:00:00:98 nud permanent proto 121", 3},
	} {
		t.Run(name, func(t *testing.T) {
			site := newNode(t)
			vs := site.Open(t)
			t.Cleanup(func() { vs.Close() })
			addGateway(t, vs)
			addPod(t, vs, 0)
			addPod(t, vs, 1)
			for command := range strings.SplitSeq(test.damage, ";") {
				if command != "" {
					site.Exec(t, strings.ReplaceAll(strings.TrimSpace(command), "$DEV", device))
				}
			}
			// List last: it may record changes.
			found, listed := findPod(t, vs, 0), listPod(t, vs, 0)
			if diff := cmp.Diff(listed, found, protocmp.Transform()); diff != "" {
				t.Errorf("Find differs (-List +Find):\n%s", diff)
			}
			if len(listed) != test.exist {
				t.Errorf("%d values exist, want %d: %v", len(listed), test.exist, listed)
			}
			if len(findPod(t, vs, 1)) != 3 {
				t.Error("the other pod is not found")
			}
		})
	}
}

func addGateway(t testing.TB, vs vswitch.VSwitch) {
	t.Helper()
	topo := vswitchtest.Topology{Node: 1, NIC: nic}
	for _, v := range topo.Values() {
		if iface, ok := v.(*vpp_interfaces.Interface); ok && iface.GetName() == vswitchtest.GatewayLoop {
			check(t, vs.Interfaces().Create(t.Context(), iface))
			check(t, vs.Interfaces().AddAddress(t.Context(), iface.GetName(), netip.MustParsePrefix(iface.GetIpAddresses()[0])))
		}
	}
}
