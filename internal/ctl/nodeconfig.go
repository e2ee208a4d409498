package ctl

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/spf13/cobra"
)

func (c *cli) nodeConfigCommand() *cobra.Command {
	return perNode(c, listing(&cobra.Command{
		Use:   "nodeconfig [NODE]",
		Short: "Show the configured interfaces and gateways of the nodes, and their source",
	}), contivconf.URL, func(p printer, good []answer[contivconf.Report]) {
		t := p.Table("NODE", "FROM", "MAIN-INTERFACE", "OTHER-INTERFACES", "GATEWAY", "NAT", "REMARK")
		t.Spare("NAT", "FROM", "OTHER-INTERFACES")
		for _, a := range good {
			r := a.Value
			others := make([]string, len(r.OtherInterfaces))
			for i, other := range r.OtherInterfaces {
				others[i] = interfaceText(other)
			}
			remark := ""
			if r.Refused != "" {
				remark = "refused: " + r.Refused
			}
			t.Add(a.Agent.Name, string(r.Source), interfaceText(r.MainInterface), strings.Join(others, ", "), joined(r.Gateways),
				onOff(r.NatExternalTraffic), remark)
		}
		t.Print()
	})
}

// interfaceText formats an interface's name and its assigned addresses, or else its present ones.
func interfaceText(i contivconf.InterfaceReport) string {
	words := []string{i.Name}
	if ips := i.IPs; len(ips) > 0 {
		words = append(words, joined(ips))
	} else if len(i.LinkIPs) > 0 {
		words = append(words, joined(i.LinkIPs))
	}
	if i.UseDHCP {
		words = append(words, "(DHCP)")
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

func joined[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.String()
	}
	return strings.Join(texts, ",")
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
