package vpp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
)

// TestConformanceOfVPPWithDPDK runs the suite on a real VPP with a DPDK NIC.
func TestConformanceOfVPPWithDPDK(t *testing.T) {
	vpptest.NeedDPDK(t)
	vswitchtest.Run(t, vswitchtest.Config{
		SessionsOfDNAT: true, NoICMPErrors: true, ErrorsOfNoConnection: true,
		NewSite: func(t testing.TB) vswitchtest.Site {
			part := strings.Split(t.Name()+"/", "/")[1]
			if !slices.Contains([]string{"port", "scheduler", "packets", "access_lists"}, part) {
				t.Skip("runs without DPDK, in TestConformanceOfVPP: not adapted to a NIC whose device the kernel of its namespace sees, too")
			}
			return newDPDKSite(t)
		},
	})
}

// dpdkSite uses DPDK instead of VPP's AF_PACKET:
//
//	peer ── uplink ══ eth0 ── DPDK ── VPP ── …
type dpdkSite struct {
	*processSite
	nic vpptest.DPDKDevice
}

func newDPDKSite(t testing.TB) dpdkSite {
	t.Helper()
	s := dpdkSite{
		processSite: &processSite{node: newNamespace(t), peer: newNamespace(t), taps: vhostNet()},
		nic:         vpptest.DPDKPacket(nicDevice),
	}
	s.node.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name eth0 netns %s", nicDevice, nsName(s.peer)))
	completeChecksums(t, s.peer) // DPDK forwards them unchanged
	s.node.Exec(t, "ip link set dev "+nicDevice+" up")
	s.peer.Exec(t, "ip link set dev eth0 name "+uplink+" up")
	s.Process = vpptest.NewDPDKProcess(t, s.node.NetNS, s.nic, func() {})
	return s
}

func (s dpdkSite) NIC() string { return s.nic.Name }

func (s dpdkSite) Connect(t testing.TB, other vswitchtest.PacketSite) {
	t.Helper()
	s.processSite.Connect(t, other.(dpdkSite).processSite)
}

// Accidents omits changes of the NIC.
func (s dpdkSite) Accidents() []vswitchtest.Accident {
	return slices.DeleteFunc(s.processSite.Accidents(), func(a vswitchtest.Accident) bool { return a.Name == "NIC down" })
}
