package ctl

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/spf13/cobra"
)

func (c *cli) podsCommand() *cobra.Command {
	return perNode(c, &cobra.Command{
		Use:   "pods [NODE]",
		Short: "The pods that are wired, with addresses and interfaces",
	}, ipnet.PodsURL, func(w io.Writer, good []answer[ipnet.PodsReport]) {
		t := newTable("NODE", "NAMESPACE", "POD", "IP", "MTU", "CONTAINER", "VSWITCH-INTERFACE")
		for _, a := range good {
			for _, p := range a.value.Pods {
				t.add(a.agent.Name, p.Namespace, p.Name, hosts(p.IPs), strconv.FormatUint(uint64(p.MTU), 10), shortID(p.ContainerID), shortInterface(p))
			}
		}
		t.write(w)
	})
}

// hosts drops the prefix lengths, which say nothing of a pod's addresses.
func hosts(ips []string) string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i], _, _ = strings.Cut(ip, "/")
	}
	return strings.Join(out, ",")
}

// shortID is a container ID as container runtimes show it.
func shortID(id string) string { return id[:min(12, len(id))] }

// shortInterface shortens the container ID in an interface's name.
func shortInterface(p ipnet.PodReport) string {
	if len(p.ContainerID) > 12 {
		return strings.Replace(p.VPPInterface, p.ContainerID, shortID(p.ContainerID)+"…", 1)
	}
	return p.VPPInterface
}

func (c *cli) ipamCommand() *cobra.Command {
	return perNode(c, &cobra.Command{
		Use:   "ipam [NODE]",
		Short: "The subnets and addresses of the nodes",
	}, ipnet.IPAMURL, func(w io.Writer, good []answer[ipnet.IPAMReport]) {
		t := newTable("ID", "NODE", "NODE-IP", "POD-SUBNET", "POD-GATEWAY", "VXLAN-IP", "PODS", "CLUSTER-PODS")
		for _, a := range good {
			r := a.value
			t.add(strconv.FormatUint(uint64(r.NodeID), 10), r.NodeName, r.NodeIP, r.PodSubnetThisNode, r.PodGateway, r.VxlanIP,
				fmt.Sprintf("%d/%d", r.PodIPsUsed, r.PodIPsTotal), r.Config.PodSubnetCIDR)
		}
		t.write(w)
	})
}
