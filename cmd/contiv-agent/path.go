package main

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/health/path"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/policy/verdict"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// explainPaths answers contivctl why for this node.
func explainPaths(o options, sb *southbound, hostStack bool, nodes *nodesync.NodeSync, addresses *ipam.IPAM, pods *ipnet.IPNet, services *service.Service, mtu func() uint32, overhead func(netip.Addr) int) *path.Explainer {
	return path.New(path.Options{
		Node: o.nodeName,
		Pods: func() ([]path.Pod, error) { return wiredPods(pods, sb) },
		Nodes: func() []path.Node {
			return pathNodes(nodes.GetAllNodes(), addresses)
		},
		MTU: func() int { return int(mtu()) }, Warnings: func(ctx context.Context) []string { return sb.Warnings(ctx) },
		HostStack: hostStack, Overhead: overhead,
		OurRoute: func(protocol int) bool { return protocol == own.ProtoOurs || protocol == own.ProtoLeased },
		OurTable: func(name string) bool { return name == "contiv" || strings.HasPrefix(name, "contiv-") },
		Verdicts: []func(context.Context, path.Question) path.Verdict{
			func(ctx context.Context, q path.Question) path.Verdict { return policyVerdict(ctx, sb, hostStack, q) },
			func(_ context.Context, q path.Question) (v path.Verdict) {
				v.Wrong, v.Way = services.Explain(service.Connection{From: q.From, To: q.To, Protocol: processor.Protocol(strings.ToUpper(q.Protocol)), Port: q.Port})
				return v
			},
		},
	})
}

// policyVerdict is what policies say. The kernel judges what it forwards: not what is sent by the
// node itself, or to it.
func policyVerdict(ctx context.Context, sb *southbound, hostStack bool, q path.Question) (v path.Verdict) {
	own := func(addr netip.Prefix) bool { return addr.Addr() == q.From || addr.Addr() == q.To }
	if hostStack && slices.ContainsFunc(hostLinks{}.addresses(), own) {
		return v
	}
	v.Wrong, v.Way = verdict.Explain(ctx, sb.scheduler, verdict.Connection(q.From, q.To, q.Protocol, q.Port))
	return v
}

func wiredPods(pods *ipnet.IPNet, sb *southbound) (list []path.Pod, err error) {
	report, err := pods.PodsReport()
	for _, p := range report.Pods {
		pod := path.Pod{Name: p.Namespace + "/" + p.Name, NetNS: p.NetNS, Interface: p.Interface, MTU: int(p.MTU), Addresses: addressesOf(p)}
		pod.Device, _, _ = sb.Device(p.VPPInterface)
		list = append(list, pod)
	}
	return list, err
}

func pathNodes(nodes nodesync.Nodes, addresses *ipam.IPAM) (list []path.Node) {
	plan := addresses.Plan()
	for _, n := range nodes {
		node := path.Node{Name: n.Name}
		for _, ip := range n.VPPIPs {
			node.Addresses = append(node.Addresses, ip.Addr())
		}
		for _, ip := range n.MgmtIPs {
			if !slices.Contains(node.Addresses, ip) {
				node.Addresses = append(node.Addresses, ip)
			}
		}
		for _, family := range plan.Families() {
			if subnet, err := addresses.PodSubnet(&family, n); err == nil {
				node.Pods, node.Gateways = append(node.Pods, subnet), append(node.Gateways, ipam.Gateway(subnet).Addr())
			}
		}
		list = append(list, node)
	}
	return list
}
