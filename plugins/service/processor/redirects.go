package processor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/kubeaddr"
)

// Redirect is where services reach a pod instead of at the address of eth0, for one IP version: at the
// interface that the pod's annotation contivpp.io/service-endpoint-if names.
type Redirect struct {
	Interface string
	Addr      netip.Addr
	// Subnet is the pod subnet of the node that publishes Addr, which is in it. The redirect holds for pods
	// whose eth0 is in it, too: a node decides about its own pods only.
	Subnet netip.Prefix
	// Node is its name.
	Node string
}

// Redirects are those of pods, by the pod.
type Redirects map[ID][]Redirect

// Add adds the addresses of a pod's interface that a node with these pod subnets publishes. It returns what is
// wrong with them: those are ignored.
func (r Redirects) Add(node string, subnets []netip.Prefix, pod ID, iface string, addrs ...netip.Addr) (mistakes []string) {
	for _, addr := range addrs {
		at := slices.IndexFunc(subnets, func(p netip.Prefix) bool { return p.Contains(addr) })
		switch {
		case at < 0:
			mistakes = append(mistakes, fmt.Sprintf("%v of pod %v (%s) is no address of the pod subnet of node %s", addr, pod, iface, node))
		case slices.ContainsFunc(r[pod], func(o Redirect) bool { return o.Subnet == subnets[at] }):
			mistakes = append(mistakes, fmt.Sprintf("%v is a second address of pod %v (%s) of node %s", addr, pod, iface, node))
		default:
			r[pod] = append(r[pod], Redirect{iface, addr, subnets[at], node})
		}
	}
	return mistakes
}

// podOf returns the pod that an endpoint is, which is always one of the slice's namespace.
func podOf(s *endpointslice.EndpointSlice, e *endpointslice.EndpointSlice_Endpoint) (pod ID, is bool) {
	ref := e.GetTargetRef()
	if ref.GetKind() != "Pod" || ref.GetNamespace() != "" && ref.GetNamespace() != s.GetNamespace() {
		return ID{}, false
	}
	return ID{s.GetNamespace(), ref.GetName()}, true
}

// at returns the redirect of a pod with the address.
func (r Redirects) at(pod ID, eth0 netip.Addr) (Redirect, bool) {
	for _, redirect := range r[pod] {
		if redirect.Subnet.Contains(eth0) {
			return redirect, true
		}
	}
	return Redirect{}, false
}

// SetRedirects replaces the redirects. It returns the services that look different now.
func (p *Processor) SetRedirects(next Redirects) (changed []ID) {
	for _, of := range next {
		slices.SortFunc(of, func(a, b Redirect) int {
			return cmp.Or(a.Subnet.Addr().Compare(b.Subnet.Addr()), a.Addr.Compare(b.Addr))
		})
	}
	before := p.redirects
	p.redirects = next
	differs := map[ID]bool{}
	for _, of := range []Redirects{before, next} {
		for pod := range of {
			if !slices.Equal(before[pod], next[pod]) {
				differs[pod] = true
			}
		}
	}
	if len(differs) == 0 {
		return nil
	}
	for id, of := range p.slices {
		if p.services[id] == nil {
			continue
		}
		for _, s := range of {
			if slices.ContainsFunc(s.GetEndpoints(), func(e *endpointslice.EndpointSlice_Endpoint) bool {
				pod, is := podOf(s, e)
				return is && differs[pod]
			}) {
				changed = append(changed, id)
				break
			}
		}
	}
	slices.SortFunc(changed, ID.Compare)
	return changed
}

// Redirects returns the last argument of SetRedirects.
func (p *Processor) Redirects() Redirects { return p.redirects }

// Foreign returns the redirects of a service's pods that are ignored, because the pod is not of the node that
// publishes them, in sentences.
func (p *Processor) Foreign(id ID) (texts []string) {
	for _, s := range p.slices[id] {
		for _, e := range s.GetEndpoints() {
			pod, is := podOf(s, e)
			if !is || len(e.GetAddresses()) == 0 {
				continue
			}
			addr, err := kubeaddr.ParseAddr(e.GetAddresses()[0])
			if _, held := p.redirects.at(pod, addr); held || err != nil {
				continue
			}
			for _, r := range p.redirects[pod] {
				if r.Addr.Is6() == addr.Is6() {
					texts = append(texts, fmt.Sprintf("node %s says that pod %v is reached at %v (%s), which does not count: %v is no address of that node's pods", r.Node, pod, r.Addr, r.Interface, addr))
				}
			}
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
