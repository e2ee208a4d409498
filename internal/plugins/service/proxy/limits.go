package proxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// Limits of this node for services. Only LimitNoResets can be fixed on the node. All but limitPods
// apply to a vswitch without client scopes.
const (
	LimitRanges   = "loadBalancerSourceRanges do not hold for pods and processes of this node: services have more ports and ranges than VPP compares, and these have the most"
	limitResets   = "resetRemovedEndpoints has no effect for clients outside with an endpoint on another node, because neither has a socket on this node"
	LimitNoResets = "resetRemovedEndpoints has no effect on this node: its Linux kernel lacks CONFIG_INET_DIAG_DESTROY"
	limitSelf     = "a pod that is reached at another interface than eth0 (contivpp.io/service-endpoint-if) does not reach itself through its service: VPP compares addresses, and the pod's kernel drops packets from its own address"
	limitAffinity = "sessionAffinity has no time-out on this node: VPP chooses the endpoint by the client's address"

	limitHost = "external IPs and load balancers' IPs that are addresses of the host's own network cards are not translated on this node: VPP leads all packets for them to the host"
	// Redirected packets have lost the client's address.
	limitHostRanges = "load balancers' IPs with loadBalancerSourceRanges have no clients that come by network cards of the host: VPP does not see their addresses"
	limitPods       = "cluster IPs, external IPs and load balancers' IPs of the pod network are ignored, for they are addresses of pods; so is 255.255.255.255"
)

// limits maps what the vswitch cannot do for a service, as a sentence, to the affected addresses, joined
// by commas; "" stands for all.
type limits map[string]string

func (l limits) add(limit string, applies bool) {
	if applies {
		l[limit] = ""
	}
}

// addAddresses adds a limit of some addresses, if there are any.
func (l limits) addAddresses(limit string, addresses []netip.Addr) {
	if len(addresses) == 0 {
		return
	}
	var texts []string
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	l[limit] = strings.Join(texts, ", ")
}

// limits returns the limits of a service.
func (r *renderer) limits(id processor.ID, versions []version) limits {
	l := limits{}
	l.addAddresses(limitHost, r.services.Explainer().HostAddresses(id))
	l.addAddresses(limitPods, r.services.Explainer().PodAddresses(id))
	for _, v := range versions {
		l.add(limitHostRanges, slices.ContainsFunc(v.all.Frontends, r.entrances.hidesClients))
		if !r.node.Caps.ClientScopes && len(v.rest.Frontends) > 0 {
			l.addSettings(v.rest, r.node)
		}
	}
	return l
}

// addSettings adds the settings of a service that have no effect on a vswitch without client scopes.
func (l limits) addSettings(svc *processor.Service, node *localnode.Node) {
	resets := node.Settings.ResetRemovedEndpoints
	tcp := func(f processor.Frontend) bool { return f.Protocol == processor.TCP }
	fromOutside := func(f processor.Frontend) bool { return tcp(f) && f.Kind != processor.ClusterIP && !f.KeepSource }
	l.add(limitResets, resets && node.Caps.ResetsConnections && slices.ContainsFunc(svc.Frontends, fromOutside))
	l.add(LimitNoResets, resets && !node.Caps.ResetsConnections && slices.ContainsFunc(svc.Frontends, tcp))
	l.add(limitAffinity, svc.Affinity > 0)
	l.add(limitSelf, slices.ContainsFunc(svc.Frontends, func(f processor.Frontend) bool {
		return slices.ContainsFunc(f.Outside, func(e processor.Endpoint) bool { return e.Local && e.Interface != "" })
	}))
}

func with(text, affected string) string {
	if affected == "" {
		return text
	}
	return text + " (" + affected + ")"
}

// Unrestricted reports whether the source ranges of a service do not hold for pods and processes of
// this node.
func (p *Proxy) Unrestricted(id processor.ID) bool { return p.ranges.unfit[id] }

func (p *Proxy) limitsOf(id processor.ID) limits {
	all := limits{}
	if t := p.translations[id]; t != nil {
		maps.Copy(all, t.limits)
	}
	all.add(LimitRanges, p.Unrestricted(id))
	return all
}

// LimitsOf returns the limits that apply to a service.
func (p *Proxy) LimitsOf(id processor.ID) (texts []string) {
	all := p.limitsOf(id)
	for _, limit := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, with(limit, all[limit]))
	}
	return texts
}

// Limits returns the selected limits with their services.
func (p *Proxy) Limits(selected func(limit string) bool) (texts []string) {
	services := map[string][]string{}
	for id := range p.translations {
		for limit, affected := range p.limitsOf(id) {
			services[limit] = append(services[limit], with(id.String(), affected))
		}
	}
	for _, limit := range slices.Sorted(maps.Keys(services)) {
		if selected(limit) {
			slices.Sort(services[limit])
			texts = append(texts, fmt.Sprintf("%s; services: %s", limit, strings.Join(services[limit], ", ")))
		}
	}
	return texts
}

// ClosedNodePorts explains that node ports are open on no address of the node, or returns "".
func (p *Proxy) ClosedNodePorts() string {
	node, open := p.Services.Node(), p.node.Settings.NodePortAddresses
	if !p.Translates() || len(open) == 0 || len(node.Addresses) == 0 || len(node.NodePorts) > 0 {
		return ""
	}
	return fmt.Sprintf("node ports are open, and healthCheckNodePort is answered, on no address of this node: nodePortAddresses in service.conf has %v, and none of %v", open, node.Addresses)
}
