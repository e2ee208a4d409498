package processor

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/kubeaddr"
)

// Anybody who may create services may write any external IP, and many a cluster IP. Those that would lead connections to pods to
// somebody else are nobody's, and so are those that the vswitch cannot translate.

func (n Node) ofHost(addr netip.Addr) bool { return slices.Contains(n.Host, addr) }

// broadcast is the address of all hosts of a link; packets to it are no connections.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (n Node) ofPods(addr netip.Addr) bool {
	return addr == broadcast || slices.ContainsFunc(n.PodNetworks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// AsksForHost returns the external IPs and load balancers' IPs of a service that are addresses of Node.Host.
func (p *Processor) AsksForHost(id ID) []netip.Addr {
	svc := p.services[id]
	if !Proxied(svc) {
		return nil
	}
	return reservedOf(externalIPs(svc), p.node.ofHost)
}

// AsksForPods returns the addresses of a service, cluster IPs included, that are in Node.PodNetworks or that of broadcasts.
func (p *Processor) AsksForPods(id ID) []netip.Addr {
	svc := p.services[id]
	if !Proxied(svc) {
		return nil
	}
	return reservedOf(append(clusterIPs(svc), externalIPs(svc)...), p.node.ofPods)
}

func externalIPs(svc *service.Service) []string {
	asked := slices.Clone(svc.GetExternalIps())
	if svc.GetServiceType() == "LoadBalancer" {
		asked = append(asked, svc.GetLbIngressIps()...)
	}
	return asked
}

func clusterIPs(svc *service.Service) []string {
	if ips := svc.GetClusterIps(); len(ips) > 0 {
		return slices.Clone(ips)
	}
	return []string{svc.GetClusterIp()}
}

func reservedOf(asked []string, reserved func(netip.Addr) bool) (list []netip.Addr) {
	for _, text := range asked {
		if addr, err := kubeaddr.ParseAddr(text); err == nil && reserved(addr) {
			list = append(list, addr)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}
