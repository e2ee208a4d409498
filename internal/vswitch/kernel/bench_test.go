package kernel

import (
	"context"
	"fmt"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
)

func BenchmarkPod(b *testing.B) {
	for _, others := range []int{0, 100, 500} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			site := newNode(b)
			vs := site.Open(b)
			b.Cleanup(func() { vs.Close() })
			addGateway(b, vs)
			for n := range others {
				addPod(b, vs, n)
			}
			b.Run("add", func(b *testing.B) {
				for b.Loop() {
					addPod(b, vs, 1000)
					b.StopTimer()
					deletePod(b, vs, 1000)
					b.StartTimer()
				}
			})
			b.Run("add and delete", func(b *testing.B) {
				for b.Loop() {
					addPod(b, vs, 1000)
					deletePod(b, vs, 1000)
				}
			})
			if others > 0 {
				b.Run("find", func(b *testing.B) {
					for b.Loop() {
						found := findPod(b, vs, 0)
						if len(found) != 3 {
							b.Fatal(found)
						}
					}
				})
			}
			b.Run("list interfaces", func(b *testing.B) {
				for b.Loop() {
					_, err := vs.Interfaces().List(b.Context(), nil)
					check(b, err)
				}
			})
		})
	}
}

func podValues(n int) (*vpp_interfaces.Interface, *vpp_l3.ARPEntry, *vpp_l3.Route) {
	tap := fmt.Sprintf("vpp-tap-0123456789abcdef-%d", n)
	ip := fmt.Sprintf("10.1.%d.%d", n/250, n%250+2)
	return &vpp_interfaces.Interface{
			Name: tap, Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: 1450, PhysAddress: "02:fe:01:02:03:04",
			Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: vswitchtest.GatewayLoop},
			Link:       &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		},
		&vpp_l3.ARPEntry{Interface: tap, IpAddress: ip, PhysAddress: "02:fe:01:02:03:05", Static: true},
		&vpp_l3.Route{DstNetwork: ip + "/32", NextHopAddr: ip, OutgoingInterface: tap}
}

func addPod(t testing.TB, vs vswitch.VSwitch, n int) {
	t.Helper()
	ctx := context.Background()
	tap, arp, route := podValues(n)
	check(t, vs.Interfaces().Create(ctx, tap))
	check(t, vs.Interfaces().SetUnnumbered(ctx, tap.GetName(), vswitchtest.GatewayLoop))
	check(t, vs.Neighbours().Create(ctx, arp))
	check(t, vs.Routes().Create(ctx, route))
}

func deletePod(t testing.TB, vs vswitch.VSwitch, n int) {
	t.Helper()
	ctx := context.Background()
	tap, arp, route := podValues(n)
	check(t, vs.Routes().Delete(ctx, route))
	check(t, vs.Neighbours().Delete(ctx, arp))
	check(t, vs.Interfaces().UnsetUnnumbered(ctx, tap.GetName()))
	check(t, vs.Interfaces().Delete(ctx, tap))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
