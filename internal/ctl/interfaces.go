package ctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
)

func (c *cli) interfacesCommand() *cobra.Command {
	return listing(&cobra.Command{
		Use:   "interfaces [NODE]",
		Short: "List the interfaces of the vswitches with states and counters",
		Long: `List the interfaces of the vswitches and their pods. LINK is UP, DOWN (no carrier) or "disabled", and
SINCE is the time of the last change of LINK. RX counts packets received by the vswitch.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			pods := target.GetAll[ipnet.PodsReport](ctx, agents, ipnet.PodsURL, nil) // none without Kubernetes
			return show(c, target.GetAll[ifstate.Report](ctx, agents, ifstate.URL, nil), func(p printer, good []answer[ifstate.Report]) {
				writeInterfaces(p, good, pods)
			})
		},
	})
}

func writeInterfaces(p printer, good []answer[ifstate.Report], pods []answer[ipnet.PodsReport]) {
	type place struct{ node, iface string }
	of := map[place]ipnet.PodReport{}
	for _, a := range pods {
		for _, pod := range a.Value.Pods {
			of[place{a.Agent.Name, pod.VPPInterface}] = pod
		}
	}
	t := p.Table("NODE", "NAMESPACE", "POD", "INTERFACE", "TYPE", "DEVICE", "LINK", "SINCE", "MTU", "SPEED", "RX", "TX", "DROPS", "MAC")
	t.Spare("SPEED", "SINCE", "MTU", "MAC", "TYPE", "DROPS", "NAMESPACE")
	for _, a := range good {
		for _, data := range a.Value.Interfaces {
			var s vpp_interfaces.InterfaceState
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &s); err != nil {
				t.Add(a.Agent.Name, "", "", "?", err.Error())
				continue
			}
			pod := of[place{a.Agent.Name, s.GetName()}]
			t.Add(append([]string{a.Agent.Name, pod.Namespace, pod.Name}, interfaceRow(&s)...)...)
		}
	}
	t.Print()
}

func interfaceRow(s *vpp_interfaces.InterfaceState) []string {
	link := s.GetOperStatus().String()
	if s.GetAdminStatus() == vpp_interfaces.InterfaceState_DOWN {
		link = "disabled"
	}
	since := ""
	if s.GetLastChange() != 0 {
		since, _, _ = strings.Cut(stamp(time.Unix(s.GetLastChange(), 0)), ".")
	}
	row := []string{s.GetName(), s.GetType().String(), s.GetInternalName(), link, since, strconv.FormatUint(uint64(s.GetMtu()), 10), speed(s.GetSpeed())}
	counters := []string{"", "", ""}
	if n := s.GetStatistics(); n != nil {
		for i, count := range []uint64{n.GetInPackets(), n.GetOutPackets(), n.GetDropPackets()} {
			counters[i] = strconv.FormatUint(count, 10)
		}
	}
	return append(append(row, counters...), s.GetPhysAddress())
}

// speed formats bits per second; "" if unknown.
func speed(bits uint64) string {
	switch {
	case bits == 0:
		return ""
	case bits%1e9 == 0:
		return fmt.Sprintf("%dG", bits/1e9)
	}
	return fmt.Sprintf("%dM", bits/1e6)
}

func (c *cli) dropsCommand() *cobra.Command {
	return perNode(c, listing(&cobra.Command{
		Use:   "drops [NODE]",
		Short: "Show packets dropped as spoofed or forbidden",
		Long: `Show the number of dropped packets by sender and reason:

  mac          source MAC address of another interface
  ipv4, ipv6   source address of another interface
  arp, nd      ARP or neighbour discovery for an address of another interface
  connections  connection beyond podConnectionLimit, or opened too fast for it
  vxlan        VXLAN from a pod, or from a host that is not a node
  loopback     destination is a loopback address of the node
  ranges       source is outside loadBalancerSourceRanges (nodes with VPP only)`,
	}), statscollector.DropsURL, func(p printer, good []answer[statscollector.DropsReport]) {
		t := p.Table("NODE", "NAMESPACE", "POD", "INTERFACE", "REASON", "PACKETS")
		for _, a := range good {
			for _, d := range a.Value.Drops {
				t.Add(a.Agent.Name, d.Namespace, d.Pod, d.Interface, d.Reason, strconv.FormatUint(d.Packets, 10))
			}
		}
		t.Print()
	})
}
