package kernel

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

func TestFiltersOfOthersStay(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	n.Exec(t, "tc qdisc add dev eth0 clsact")
	n.Exec(t, "tc filter add dev eth0 ingress pref 7 protocol ip u32 match u32 0 0 action mirred egress mirror dev lo")
	dev := &vpp_interfaces.Interface{Name: nic, Type: vpp_interfaces.Interface_DPDK, Enabled: true}
	x := &vpp_l2.XConnectPair{ReceiveInterface: nic, TransmitInterface: "tap1"}
	span := &vpp_interfaces.Span{InterfaceFrom: "tap1", InterfaceTo: nic, Direction: vpp_interfaces.Span_BOTH}
	check(t, v.Interfaces().Create(ctx, dev))
	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	for range 2 {
		check(t, v.XConnects().Create(ctx, x))
		check(t, v.Spans().Create(ctx, span))
	}
	for range 2 {
		check(t, v.XConnects().Delete(ctx, x))
		check(t, v.Spans().Delete(ctx, span))
	}
	if out := n.Exec(t, "tc filter show dev eth0 ingress"); !strings.Contains(out, "pref 7") || strings.Contains(out, "pref 121") {
		t.Errorf("filters now: %s", out)
	}
	if out := n.Exec(t, "tc qdisc show dev c-tap1"); strings.Contains(out, "clsact") {
		t.Errorf("a queueing discipline without filters is left: %s", out)
	}
	if out := n.Exec(t, "ip -o link show dev eth0"); strings.Contains(out, "PROMISC") {
		t.Errorf("the device is still promiscuous: %s", out)
	}
}

func TestRemovedFiltersAreReported(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	x := &vpp_l2.XConnectPair{ReceiveInterface: "tap1", TransmitInterface: "tap2"}
	span := &vpp_interfaces.Span{InterfaceFrom: "tap1", InterfaceTo: "tap2", Direction: vpp_interfaces.Span_TX}
	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	check(t, v.Interfaces().Create(ctx, tap("tap2")))
	check(t, v.XConnects().Create(ctx, x))
	check(t, v.Spans().Create(ctx, span))
	reports := make(chan []string, 100)
	check(t, v.Watch(ctx, func(_ string, keys ...string) { reports <- keys }))
	for side, key := range map[string]string{"ingress": models.Key(x), "egress": models.Key(span)} {
		n.Exec(t, "tc filter del dev c-tap1 "+side)
		for reported := false; !reported; {
			select {
			case keys := <-reports:
				reported = slices.Contains(keys, key)
			case <-time.After(time.Minute):
				t.Fatalf("%s is not reported", key)
			}
		}
	}
}

func TestFramesOfWhatHasNoDevice(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	ctx := t.Context()
	loop := &vpp_interfaces.Interface{Name: "loop", Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true}
	check(t, v.Interfaces().Create(ctx, loop))
	check(t, v.Interfaces().Create(ctx, tap("tap1")))
	for name, err := range map[string]error{
		"cross-connect": v.XConnects().Create(ctx, &vpp_l2.XConnectPair{ReceiveInterface: "tap1", TransmitInterface: "loop"}),
		"span": v.Spans().Create(ctx, &vpp_interfaces.Span{
			InterfaceFrom: "tap1", InterfaceTo: "loop", Direction: vpp_interfaces.Span_RX,
		}),
		"span of a bridge domain": v.Spans().Create(ctx, &vpp_interfaces.Span{
			InterfaceFrom: "tap1", InterfaceTo: "tap1", Direction: vpp_interfaces.Span_RX, IsL2: true,
		}),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kvscheduler.ErrUnsupported)
		}
	}
}
