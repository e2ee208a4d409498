package main

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/health/path"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/policy/verdict"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/contiv/contiv/vswitch/kernel/redirect"
	"github.com/vishvananda/netlink"
)

// explainPaths returns this node's handler for contivctl why.
func explainPaths(o options, sb *southbound, hostStack bool, nodes *nodesync.NodeSync, addresses *ipam.IPAM, pods *ipnet.IPNet, services *service.Service, mtu func() uint32, conf *contivconf.ContivConf, connected func() error) *path.Explainer {
	return path.New(path.Options{
		Node: o.nodeName, Connected: connected,
		Pods: func() ([]path.Pod, error) {
			report, err := pods.PodsReport()
			return wiredPods(report, func(iface string) string { device, _, _ := sb.Device(iface); return device }), err
		},
		Nodes: func() []path.Node {
			return pathNodes(nodes.GetAllNodes(), addresses)
		},
		MTU: func() int { return int(mtu()) }, Warnings: func(ctx context.Context) []string {
			list := slices.Concat(sb.Warnings(ctx), conf.Warnings())
			if err := nodes.Disagreement(); err != nil {
				list = append(list, err.Error())
			}
			return list
		},
		HostServices: hostServices(hostStack, conf.Routing()),
		HostStack:    hostStack, Overhead: conf.TransportOverhead, Services: networks(conf.Subnets(), func(s contivconf.Subnets) netip.Prefix { return s.Service }),
		PodNetworks: networks(conf.Subnets(), func(s contivconf.Subnets) netip.Prefix { return s.Pods }),
		Devices: func(ctx context.Context) ([]path.Device, error) {
			return vswitchDevices(ctx, sb.vs.States(), conf.Resolved(), nodes.GetAllNodes()[o.nodeName])
		},
		OurRoute:  func(protocol int) bool { return protocol == own.ProtoOurs || protocol == own.ProtoLeased },
		OurFilter: redirect.Ours,
		OurTable:  func(name string) bool { return name == "contiv" || strings.HasPrefix(name, "contiv-") },
		Verdicts: []func(context.Context, path.Question) path.Verdict{
			func(_ context.Context, q path.Question) path.Verdict {
				e := services.Explain(service.Connection{From: q.From, To: q.To, Protocol: processor.Protocol(strings.ToUpper(q.Protocol)), Port: q.Port})
				v := path.Verdict{Wrong: e.Wrong, Way: e.Way, Translated: e.Translated, Entrances: e.Entrances, Endpoints: e.Endpoints, Client: e.Client, Hidden: e.Hidden, Seen: e.Seen, Sightings: e.Sightings, Suspects: e.Suspects}
				for _, i := range e.Interfaces {
					v.Interfaces = append(v.Interfaces, path.PodInterface{Address: i.Address, Pod: i.Pod.String(), Interface: i.Interface})
				}
				return v
			},
			func(ctx context.Context, q path.Question) path.Verdict { return policyVerdict(ctx, sb, hostStack, q) },
		},
	})
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
func vswitchDevices(ctx context.Context, states vswitch.States, resolved contivconf.Resolved, this *nodesync.Node) (list []path.Device, err error) {
	all, err := states.List(ctx)
	if err != nil || this == nil {
		return nil, err
	}
	for _, s := range all {
		if s.GetName() != resolved.Main.Name {
			continue
		}
		for _, ip := range this.VPPIPs {
			d := path.Device{Name: s.GetName(), Address: ip.Addr(), MAC: s.GetPhysAddress(), MTU: int(s.GetMtu()),
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
func kernelDevice(internalName string, addr netip.Addr) (d path.Device, is bool) {
	link, err := netlink.LinkByName(strings.TrimPrefix(internalName, "host-"))
	if err != nil {
		return d, false
	}
	return path.DeviceOf(link, addr), true
}

// policyVerdict returns the decision of policies. The kernel filters forwarded packets only, not
// packets from or to the node itself.
func policyVerdict(ctx context.Context, sb *southbound, hostStack bool, q path.Question) (v path.Verdict) {
	own := func(addr netip.Prefix) bool { return addr.Addr() == q.From || addr.Addr() == q.To }
	if hostStack && slices.ContainsFunc(hostLinks{}.addresses(), own) {
		return v
	}
	for _, from := range q.Sources() {
		wrong, way := verdict.Explain(ctx, sb.scheduler, verdict.Connection(from, q.To, q.Protocol, q.Port))
		v.Wrong, v.Way = append(v.Wrong, wrong...), append(v.Way, way...)
	}
	return v
}

// wiredPods returns the pods of this node, one entry per existing interface. device maps a vswitch
// interface to its host device.
func wiredPods(report ipnet.PodsReport, device func(iface string) string) (list []path.Pod) {
	for _, p := range report.Pods {
		pod := path.Pod{Name: p.Namespace + "/" + p.Name, NetNS: p.NetNS, Interface: p.Interface, MTU: int(p.MTU), Addresses: addressesOf(p), Device: device(p.VPPInterface)}
		list = append(list, pod)
		for _, i := range p.CustomInterfaces {
			if i.Problem == "" {
				list = append(list, path.Pod{Name: pod.Name, NetNS: pod.NetNS, Interface: i.Name, MTU: pod.MTU, Addresses: parsed(i.IPs), Device: device(i.VPPInterface)})
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

func pathNodes(nodes nodesync.Nodes, addresses *ipam.IPAM) (list []path.Node) {
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
		for _, subnet := range addresses.PodSubnets(n) {
			node.Pods, node.Gateways = append(node.Pods, subnet), append(node.Gateways, ipam.Gateway(subnet).Addr())
			node.Masks = append(node.Masks, ipam.NATLoopback(subnet))
		}
		list = append(list, node)
	}
	return list
}
