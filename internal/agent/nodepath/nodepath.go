// Package nodepath gives package pathexplain the view of this node: its pods, networks, services and
// policies.
package nodepath

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/agent/pods"
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/policy/verdict"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/kernel/redirect"
	"github.com/vishvananda/netlink"
)

// Node holds the components of the agent that know this node's part of a path.
type Node struct {
	Name       string
	HostStack  bool // the vswitch forwards in the host's network stack
	Southbound *southbound.Southbound
	Config     *contivconf.ContivConf
	Nodes      *nodesync.NodeSync
	Addresses  *ipam.IPAM
	Network    *ipnet.IPNet
	Services   *service.Service
	Links      hostinfo.Links
	// Connected returns why etcd is unreachable.
	Connected func() error
}

// Explainer returns the node's handler for contivctl why.
func (n Node) Explainer() *pathexplain.Explainer {
	subnets := n.Config.Subnets()
	return pathexplain.New(pathexplain.Options{
		Node: n.Name, Connected: n.Connected,
		Pods: func() ([]pathexplain.Pod, error) {
			report, err := n.Network.PodsReport()
			return connectedPods(report, func(iface string) string { device, _, _ := n.Southbound.Device(iface); return device }), err
		},
		Nodes:        func() []pathexplain.Node { return pathNodes(n.Nodes.GetAllNodes(), n.Addresses) },
		MTU:          func() int { return int(n.Network.GetPodMTU()) },
		Warnings:     n.warnings,
		HostServices: hostServices(n.HostStack, n.Config.Routing()),
		HostStack:    n.HostStack, Overhead: n.Config.TransportOverhead,
		IsClusterIP: n.isClusterIP,
		PodNetworks: networks(subnets, func(s contivconf.Subnets) netip.Prefix { return s.Pods }),
		Devices: func(ctx context.Context) ([]pathexplain.Device, error) {
			return vswitchDevices(ctx, n.Southbound.VSwitch().States(), n.Config.Resolved(), n.Nodes.GetAllNodes()[n.Name])
		},
		OurRoute:  func(protocol int) bool { return protocol == own.ProtoOurs || protocol == own.ProtoLeased },
		OurFilter: redirect.Ours,
		OurTable:  func(name string) bool { return name == "contiv" || strings.HasPrefix(name, "contiv-") },
		Verdicts:  []func(context.Context, pathexplain.Question) pathexplain.Verdict{n.serviceVerdict, n.policyVerdict},
	})
}

// warnings returns warnings of the vswitch, of contiv.conf, and about nodes with another contiv.conf.
func (n Node) warnings(ctx context.Context) []string {
	list := slices.Concat(n.Southbound.Warnings(ctx), n.Config.Warnings())
	if err := n.Nodes.Disagreement(); err != nil {
		list = append(list, err.Error())
	}
	return list
}

func (n Node) isClusterIP(addr netip.Addr) bool {
	plan := n.Config.Subnets()
	return slices.ContainsFunc(plan.Families(), func(f contivconf.Subnets) bool { return f.IsClusterIP(addr) })
}

// hostServices returns the requirement for host processes to reach cluster IPs where VPP translates
// them; "" if none.
func hostServices(hostStack bool, routing contivconf.RoutingConfig) string {
	if hostStack || routing.RouteServiceCIDRToVPP {
		return ""
	}
	return "host processes reach cluster IPs only through kube-proxy, or through VPP with routeServiceCIDRToVPP: true in contiv.conf and a dedicated network card"
}

// networks returns the networks of a kind, of all IP versions.
func networks(s contivconf.Subnets, of func(contivconf.Subnets) netip.Prefix) (list []netip.Prefix) {
	for plan := &s; plan != nil; plan = plan.Second {
		if network := of(*plan); network.IsValid() {
			list = append(list, network)
		}
	}
	return list
}

// vswitchDevices returns the devices by which a separate vswitch reaches other nodes. For an
// interface on a kernel device, the smaller MTU of both counts.
func vswitchDevices(ctx context.Context, states vswitch.States, resolved contivconf.Resolved, this *nodesync.Node) (list []pathexplain.Device, err error) {
	all, err := states.List(ctx)
	if err != nil || this == nil {
		return nil, err
	}
	for _, s := range all {
		if s.GetName() != resolved.Main.Name {
			continue
		}
		for _, ip := range this.VPPIPs {
			d := pathexplain.Device{Name: s.GetName(), Address: ip.Addr(), MAC: s.GetPhysAddress(), MTU: int(s.GetMtu()),
				Up: s.GetAdminStatus() == vpp_interfaces.InterfaceState_UP, Carrier: s.GetOperStatus() == vpp_interfaces.InterfaceState_UP}
			if read, is := kernelDevice(s.GetInternalName(), ip.Addr()); is {
				d.Up, d.Carrier, d.MTU = d.Up && read.Up, d.Carrier && read.Carrier, min(cmp.Or(d.MTU, read.MTU), read.MTU)
			}
			list = append(list, d)
		}
	}
	return list, nil
}

// kernelDevice returns the kernel device that a VPP interface reads by AF_PACKET ("host-eth0") or
// AF_XDP ("eth0"), if any.
func kernelDevice(internalName string, addr netip.Addr) (d pathexplain.Device, is bool) {
	link, err := netlink.LinkByName(strings.TrimPrefix(internalName, "host-"))
	if err != nil {
		return d, false
	}
	return pathexplain.DeviceOf(link, addr), true
}

// serviceVerdict returns the decision of services.
func (n Node) serviceVerdict(_ context.Context, q pathexplain.Question) pathexplain.Verdict {
	e := n.Services.Explain(service.Connection{From: q.From, To: q.To, Protocol: processor.Protocol(strings.ToUpper(q.Protocol)), Port: q.Port})
	v := pathexplain.Verdict{Wrong: e.Wrong, Way: e.Way, Translated: e.Translated, Entrances: e.Entrances, Endpoints: e.Endpoints, Client: e.Client, Hidden: e.Hidden, Seen: e.Seen, Sightings: e.Sightings, Suspects: e.Suspects}
	for _, i := range e.Interfaces {
		v.Interfaces = append(v.Interfaces, pathexplain.PodInterface{Address: i.Address, Pod: i.Pod.String(), Interface: i.Interface})
	}
	return v
}

// policyVerdict returns the decision of policies. The kernel filters forwarded packets only, not
// packets from or to the node itself.
func (n Node) policyVerdict(ctx context.Context, q pathexplain.Question) (v pathexplain.Verdict) {
	own := func(addr netip.Addr) bool { return addr == q.From || addr == q.To }
	if n.HostStack && slices.ContainsFunc(n.Links.Addresses(), own) {
		return v
	}
	for _, from := range q.Sources() {
		wrong, way := verdict.Explain(ctx, n.Southbound.Scheduler, verdict.Connection(from, q.To, q.Protocol, q.Port))
		v.Wrong, v.Way = append(v.Wrong, wrong...), append(v.Way, way...)
	}
	return v
}

// connectedPods returns the pods of this node, one entry per existing interface. device maps a vswitch
// interface to its host device.
func connectedPods(report ipnet.PodsReport, device func(iface string) string) (list []pathexplain.Pod) {
	for _, p := range report.Pods {
		pod := pathexplain.Pod{Name: p.Namespace + "/" + p.Name, NetNS: p.NetNS, Interface: p.Interface, MTU: int(p.MTU), Addresses: pods.Addresses(p), Device: device(p.VPPInterface)}
		list = append(list, pod)
		for _, i := range p.CustomInterfaces {
			if i.Problem == "" {
				list = append(list, pathexplain.Pod{Name: pod.Name, NetNS: pod.NetNS, Interface: i.Name, MTU: pod.MTU, Addresses: parsed(i.IPs), Device: device(i.VPPInterface)})
			}
		}
	}
	return list
}

func parsed(addresses []string) (list []netip.Addr) {
	for _, text := range addresses {
		if addr, err := netip.ParseAddr(text); err == nil {
			list = append(list, addr)
		}
	}
	return list
}

func pathNodes(nodes nodesync.Nodes, addresses *ipam.IPAM) (list []pathexplain.Node) {
	for _, n := range nodes {
		node := pathexplain.Node{Name: n.Name}
		for _, ip := range n.VPPIPs {
			node.Addresses = append(node.Addresses, ip.Addr())
		}
		for _, ip := range n.MgmtIPs {
			if !slices.Contains(node.Addresses, ip) {
				node.Addresses = append(node.Addresses, ip)
			}
		}
		for _, subnet := range addresses.PodSubnets(n) {
			node.Pods, node.Gateways = append(node.Pods, subnet), append(node.Gateways, ipam.Gateway(subnet).Addr())
			node.Masks = append(node.Masks, ipam.NATLoopback(subnet))
		}
		list = append(list, node)
	}
	return list
}
