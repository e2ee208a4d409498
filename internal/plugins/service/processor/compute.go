package processor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

const (
	policyLocal = "Local"
	// labelProxyName assigns a service to another proxy.
	labelProxyName = "service.kubernetes.io/service-proxy-name"
	// labelHeadless excludes a service from all service proxies.
	labelHeadless = "service.kubernetes.io/headless"
)

// Compute returns the translation of one IP version of a service on this node, or nil. slicesOf
// contains all slices of the service, in any order. Invalid parts are ignored.
func Compute(svc *service.Service, slicesOf []*endpointslice.EndpointSlice, redirects Redirects, node Node, ipv6 bool) *Service {
	if !Proxied(svc) {
		return nil
	}
	s := &Service{ID: ID{svc.GetNamespace(), svc.GetName()}}
	if svc.GetSessionAffinity() == "ClientIP" {
		s.Affinity = svc.GetSessionAffinityTimeout()
	}
	addresses := frontendAddresses(svc, node, ipv6)
	if len(addresses) == 0 {
		return nil
	}
	ports := portsOf(slicesOf, ipv6)
	for _, port := range svc.GetPort() {
		if protocolOf(port.GetProtocol()) == "" {
			continue
		}
		s.Frontends = append(s.Frontends, portFrontends(svc, port, addresses, candidates(svc, port, ports, redirects, node, ipv6), node)...)
	}
	slices.SortStableFunc(s.Frontends, CompareFrontends)
	s.Frontends = slices.CompactFunc(s.Frontends, func(a, b Frontend) bool { return a.Addr == b.Addr && a.Protocol == b.Protocol })
	if len(s.Frontends) == 0 {
		return nil
	}
	return s
}

// Proxied reports whether a service has a cluster IP and no label that excludes it. As in
// kube-proxy, the label's value is ignored.
func Proxied(svc *service.Service) bool {
	if svc == nil || svc.GetServiceType() == "ExternalName" {
		return false
	}
	for _, label := range []string{labelProxyName, labelHeadless} {
		if _, excluded := svc.GetLabels()[label]; excluded {
			return false
		}
	}
	return svc.GetClusterIp() != "" && svc.GetClusterIp() != "None"
}

func unproxied(svc *service.Service) string {
	proxy, other := svc.GetLabels()[labelProxyName]
	_, headless := svc.GetLabels()[labelHeadless]
	switch {
	case svc.GetServiceType() == "ExternalName":
		return "it is of type ExternalName: DNS gives clients another name instead of an address, so ask about an address of that name"
	case other && proxy != "":
		return fmt.Sprintf("its label %s leaves it to %s", labelProxyName, proxy)
	case other:
		return fmt.Sprintf("its label %s leaves it to another proxy: remove the label to have it translated", labelProxyName)
	case headless:
		return fmt.Sprintf("its label %s excludes it from translation: remove the label to have it translated", labelHeadless)
	case svc.GetClusterIp() == "None":
		return "it is headless: DNS returns the addresses of its pods, so use one of these addresses"
	case svc.GetClusterIp() == "":
		return "it has no cluster IP yet"
	}
	return "none of its addresses and ports can be translated here"
}

type frontendAddress struct {
	kind Kind
	addr netip.Addr
}

func frontendAddresses(svc *service.Service, node Node, ipv6 bool) (list []frontendAddress) {
	add := func(kind Kind, texts ...string) (found bool) {
		for _, text := range texts {
			addr, ok := usable(text, ipv6)
			if found = found || ok; ok && !node.ofPods(addr) && (kind == ClusterIP || !node.ofHost(addr)) {
				list = append(list, frontendAddress{kind, addr})
			}
		}
		return found
	}
	if !add(ClusterIP, clusterIPs(svc)...) {
		return nil // the service has the other IP version
	}
	add(ExternalIP, svc.GetExternalIps()...)
	if svc.GetServiceType() == "LoadBalancer" {
		add(LoadBalancer, svc.GetLbIngressIps()...)
	}
	if t := svc.GetServiceType(); t == "NodePort" || t == "LoadBalancer" {
		for _, addr := range node.NodePorts {
			if addr.Is6() == ipv6 {
				list = append(list, frontendAddress{NodePort, addr})
			}
		}
	}
	_, restricted := sourceRanges(svc)
	if slices.ContainsFunc(list, func(a frontendAddress) bool { return a.kind == ExternalIP || a.kind == LoadBalancer && !restricted }) {
		for _, addr := range node.Entrances {
			if addr.Is6() == ipv6 {
				list = append(list, frontendAddress{Entrance, addr})
			}
		}
	}
	return list
}

func portFrontends(svc *service.Service, port *service.Service_ServicePort, addresses []frontendAddress, list []candidate, node Node) (frontends []Frontend) {
	cluster := ofCluster(list, node)
	var local []Endpoint
	if svc.GetInternalTrafficPolicy() == policyLocal || svc.GetExternalTrafficPolicy() == policyLocal {
		local = ofNode(list)
	}
	sources, restricted := sourceRanges(svc)
	for _, a := range addresses {
		number := frontendPort(port, a.kind)
		if !validPort(number) {
			continue
		}
		at, protocol := netip.AddrPortFrom(a.addr, uint16(number)), protocolOf(port.GetProtocol())
		_, refused := node.refuses(svc, a.kind, at, protocol)
		if _, used := node.inUse(a.kind, at, protocol); refused || used {
			continue
		}
		f := Frontend{
			Kind: a.kind, Addr: at, Protocol: protocol, Port: port.GetName(), ServicePort: uint16(port.GetPort()),
			Inside: cluster, Outside: cluster,
		}
		switch {
		case a.kind == ClusterIP && svc.GetInternalTrafficPolicy() == policyLocal:
			f.Inside, f.Outside, f.KeepSource = local, local, true
		case a.kind == ClusterIP:
			f.KeepSource = true
		case svc.GetExternalTrafficPolicy() == policyLocal:
			f.Outside, f.KeepSource, f.Drop = local, true, len(local) == 0 && len(cluster) > 0
		}
		f.ByHost = a.kind != ClusterIP && slices.Contains(node.ByHost, a.addr)
		if a.kind == LoadBalancer {
			f.Sources, f.Restricted = sources, restricted
		}
		frontends = append(frontends, f)
	}
	return frontends
}

func frontendPort(port *service.Service_ServicePort, kind Kind) int32 {
	if kind == NodePort || kind == Entrance && validPort(port.GetNodePort()) {
		return port.GetNodePort()
	}
	return port.GetPort()
}

// Malformed source ranges allow no client.
func sourceRanges(svc *service.Service) (list []netip.Prefix, restricted bool) {
	for _, text := range svc.GetLoadbalancerSourceRanges() {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		restricted = true
		if p, err := kubeaddr.ParseNetwork(text); err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list), restricted
}

func usable(text string, ipv6 bool) (netip.Addr, bool) {
	addr, err := kubeaddr.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	ok := addr.Is6() == ipv6 && !addr.IsUnspecified() && !addr.IsLoopback() && !addr.IsMulticast() && !addr.IsLinkLocalUnicast()
	return addr, ok
}

func validPort(n int32) bool { return n > 0 && n <= 65535 }

func protocolOf(text string) Protocol {
	switch p := Protocol(text); p {
	case TCP, UDP, SCTP:
		return p
	case "":
		return TCP
	}
	return ""
}
