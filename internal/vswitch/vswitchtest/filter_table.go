package vswitchtest

import (
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"
)

// FilterCase defines the connections that pass with values of the filter. The conformance suite
// sends packets for each case; drivers may also evaluate the cases without packets.
type FilterCase struct {
	Name   string
	Values []proto.Message
	Probes []FilterProbe
}

// FilterProbe is a connection or an echo request from one host to another.
type FilterProbe struct {
	Src, Dst netip.Addr
	Network  string // tcp, udp, ping
	Port     uint16
	Passes   bool
}

// FilterCases returns the cases except those that involve the node. The networks are 10.21.0.0/24
// and fd21::/64 on one side, 10.22.0.0/24 and fd22::/64 on the other.
func FilterCases() (list []FilterCase) {
	lab := &filterLab{aclLab: &aclLab{leftNet: leftNet, rightNet: rightNet}}
	for _, c := range lab.cases() {
		if c.node {
			continue
		}
		exported := FilterCase{Name: c.name, Values: c.values}
		for _, p := range c.probes {
			network, v6 := strings.CutSuffix(p.kind, "6")
			version := 0
			if v6 {
				version = 1
			}
			addr := func(host string) netip.Addr { return netip.MustParseAddr(lab.addressOf(host)[version]) }
			exported.Probes = append(exported.Probes, FilterProbe{addr(p.from), addr(p.to), network, uint16(p.port), p.passes})
		}
		list = append(list, exported)
	}
	return list
}
