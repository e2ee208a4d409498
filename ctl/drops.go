package ctl

import (
	"strconv"

	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/spf13/cobra"
)

func (c *cli) dropsCommand() *cobra.Command {
	return perNode(c, &cobra.Command{
		Use:   "drops [NODE]",
		Short: "What pods and others tried to send and must not",
		Long: `Shows how many packets were dropped, by who sent them and for what reason:

  mac          foreign MAC address
  ipv4, ipv6   foreign source address
  arp, nd      ARP or neighbour discovery that claims what is somebody else's
  connections  one more connection than podConnectionLimit
  vxlan        VXLAN from a pod, or from a host that is no node`,
	}, statscollector.DropsURL, func(p printer, good []answer[statscollector.DropsReport]) {
		t := p.Table("NODE", "NAMESPACE", "POD", "INTERFACE", "REASON", "PACKETS")
		for _, a := range good {
			for _, d := range a.Value.Drops {
				t.Add(a.Agent.Name, d.Namespace, d.Pod, d.Interface, d.Reason, strconv.FormatUint(d.Packets, 10))
			}
		}
		t.Print()
	})
}
