package l2

import (
	"fmt"
	"slices"
	"testing"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"google.golang.org/protobuf/proto"
)

// bridgeOf returns a bridge domain with a tunnel to each of the nodes.
func bridgeOf(nodes int) *vpp_l2.BridgeDomain {
	bd := &vpp_l2.BridgeDomain{Name: "vxlanBD", Flood: true, Forward: true, MacAge: 3,
		Interfaces:          []*vpp_l2.BridgeDomain_Interface{{Name: "vxlanBVI", BridgedVirtualInterface: true, SplitHorizonGroup: 1}},
		ArpTerminationTable: []*vpp_l2.BridgeDomain_ArpTerminationEntry{{IpAddress: "10.0.0.1", PhysAddress: "02:00:00:00:00:01"}, {IpAddress: "10.0.0.2", PhysAddress: "02:00:00:00:00:02"}},
	}
	for i := range nodes {
		bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: fmt.Sprintf("vxlan%d", i), SplitHorizonGroup: 1})
	}
	return bd
}

func TestEquivalentBridgeDomains(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(*vpp_l2.BridgeDomain)
		equivalent bool
		parameters bool
	}{
		{"nothing", func(*vpp_l2.BridgeDomain) {}, true, true},
		{"order of interfaces", func(bd *vpp_l2.BridgeDomain) { slices.Reverse(bd.Interfaces) }, true, true},
		{"order of the ARP table", func(bd *vpp_l2.BridgeDomain) { slices.Reverse(bd.ArpTerminationTable) }, true, true},
		{"split horizon of the BVI", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces[0].SplitHorizonGroup = 0 }, true, true},
		{"split horizon of a port", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces[1].SplitHorizonGroup = 0 }, false, true},
		{"other BVI", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces[0].BridgedVirtualInterface = false }, false, true},
		{"one interface less", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces = bd.Interfaces[1:] }, false, true},
		{"another interface", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces[2].Name = "tap1" }, false, true},
		{"one twice, another not", func(bd *vpp_l2.BridgeDomain) { bd.Interfaces[2].Name = bd.Interfaces[1].Name }, false, true},
		{"ARP entry", func(bd *vpp_l2.BridgeDomain) { bd.ArpTerminationTable[0].PhysAddress = "02:00:00:00:00:03" }, false, true},
		{"flag", func(bd *vpp_l2.BridgeDomain) { bd.Flood = false }, false, false},
		{"number", func(bd *vpp_l2.BridgeDomain) { bd.MacAge = 4 }, false, false},
	} {
		before := bridgeOf(3)
		after := proto.CloneOf(before)
		c.change(after)
		for range 2 {
			if got := equivalentBD(before, after); got != c.equivalent {
				t.Errorf("%s: equivalent %v", c.name, got)
			}
			if got := sameParametersOfBD(before, after); got != c.parameters {
				t.Errorf("%s: same parameters %v", c.name, got)
			}
			before, after = after, before
		}
	}
}

func TestComparingBridgeDomainsAllocatesNothing(t *testing.T) {
	a, b := bridgeOf(1000), bridgeOf(1000)
	if n := testing.AllocsPerRun(10, func() { equivalentBD(a, b); sameParametersOfBD(a, b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkEquivalentBridgeDomains compares with the cost of proto.Equal, which respects order, and
// of the copy that it would need.
func BenchmarkEquivalentBridgeDomains(b *testing.B) {
	x, y := bridgeOf(1000), bridgeOf(1000)
	for name, compare := range map[string]func() bool{
		"ours":  func() bool { return equivalentBD(x, y) },
		"proto": func() bool { return proto.Equal(x, y) },
		"clone": func() bool { return proto.Equal(proto.CloneOf(x), proto.CloneOf(y)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !compare() {
					b.Fatal("they differ")
				}
			}
		})
	}
}

func TestBridgeDomainValidation(t *testing.T) {
	bd := func(ifaces ...*vpp_l2.BridgeDomain_Interface) error {
		return validateBridgeDomain(&vpp_l2.BridgeDomain{Name: "bd", Interfaces: ifaces})
	}
	bvi := func(name string) *vpp_l2.BridgeDomain_Interface {
		return &vpp_l2.BridgeDomain_Interface{Name: name, BridgedVirtualInterface: true}
	}
	descriptortest.WantInvalid(t, "BD", bd(bvi("a"), &vpp_l2.BridgeDomain_Interface{Name: "b"}), "")
	descriptortest.WantInvalid(t, "two BVIs", bd(bvi("a"), bvi("b")), "interfaces")
	descriptortest.WantInvalid(t, "twice", bd(bvi("a"), &vpp_l2.BridgeDomain_Interface{Name: "a"}), "interfaces")
}

func TestFIBValidation(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	descriptortest.WantInvalid(t, "FIB", validateFIB(&vpp_l2.FIBEntry{BridgeDomain: "bd", PhysAddress: mac, OutgoingInterface: "x"}), "")
	descriptortest.WantInvalid(t, "FIB drop", validateFIB(&vpp_l2.FIBEntry{BridgeDomain: "bd", PhysAddress: mac, Action: vpp_l2.FIBEntry_DROP}), "")
	descriptortest.WantInvalid(t, "FIB", validateFIB(&vpp_l2.FIBEntry{BridgeDomain: "bd", PhysAddress: mac}), "outgoing_interface")
}
