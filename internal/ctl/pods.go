package ctl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/spf13/cobra"
)

func (c *cli) podsCommand() *cobra.Command {
	return perNode(c, listing(&cobra.Command{
		Use:   "pods [NODE]",
		Short: "List the connected pods with addresses and interfaces",
	}), ipnet.PodsURL, func(p printer, good []answer[ipnet.PodsReport]) {
		columns := []string{"NODE", "NAMESPACE", "POD", "IP", "MTU", "CONTAINER", "VSWITCH-INTERFACE"}
		if p.Wide {
			columns = append(columns, "GATEWAY", "INTERFACE", "MAC", "NETNS")
		}
		t := p.Table(columns...)
		t.Spare("CONTAINER", "MTU")
		for _, a := range good {
			for _, pod := range a.Value.Pods {
				t.Add(a.Agent.Name, pod.Namespace, pod.Name, hosts(pod.IPs), strconv.FormatUint(uint64(pod.MTU), 10), pod.ContainerID, pod.VPPInterface,
					pod.Gateway, pod.Interface, pod.MAC, pod.NetNS)
				for _, i := range pod.CustomInterfaces { // a line each, below the pod
					gateway := pod.Gateway
					if len(i.IPs) == 0 {
						gateway = ""
					}
					t.Add(a.Agent.Name, pod.Namespace, pod.Name, hosts(i.IPs), strconv.FormatUint(uint64(pod.MTU), 10), pod.ContainerID, madeAs(i),
						gateway, i.Name, i.MAC, pod.NetNS)
				}
			}
		}
		t.Print()
	})
}

// madeAs returns the vswitch's interface, "-" if none.
func madeAs(i ipnet.CustomIfReport) string {
	if i.Problem != "" {
		return i.Name + " is not made: contivctl explain says why"
	}
	return i.VPPInterface
}

// hosts drops the prefix lengths, which are meaningless for pod addresses.
func hosts(ips []string) string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i], _, _ = strings.Cut(ip, "/")
	}
	return strings.Join(out, ",")
}

func (c *cli) ipamCommand() *cobra.Command {
	return perNode(c, listing(&cobra.Command{
		Use:   "ipam [NODE]",
		Short: "Show the subnets and addresses of the nodes",
	}), ipnet.IPAMURL, func(p printer, good []answer[ipnet.IPAMReport]) {
		columns := []string{"ID", "NODE", "NODE-IP", "POD-SUBNET", "POD-GATEWAY", "VXLAN-IP", "PODS", "CLUSTER-PODS"}
		if p.Wide {
			columns = append(columns, "HOST-NETWORK", "NAT-LOOPBACK")
		}
		t := p.Table(columns...)
		t.Spare("CLUSTER-PODS", "PODS", "POD-GATEWAY")
		for _, a := range good {
			r := a.Value
			t.Add(strconv.FormatUint(uint64(r.NodeID), 10), r.NodeName, r.NodeIP, r.PodSubnetThisNode, r.PodGateway, r.VxlanIP,
				fmt.Sprintf("%d/%d", r.PodIPsUsed, r.PodIPsTotal), r.Config.PodSubnetCIDR, r.VppHostNetwork, r.NATLoopbackIP)
		}
		t.Print()
	})
}
