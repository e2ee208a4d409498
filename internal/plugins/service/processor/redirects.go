package processor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

// Redirect replaces a pod's eth0 address for services of one IP version by an address of the
// interface in the annotation contivpp.io/service-endpoint-if.
type Redirect struct {
	Interface string
	Addr      netip.Addr
	// Subnet is the publishing node's pod subnet that contains Addr. Only pods with an eth0 address
	// in it are redirected, so that a node decides only about its own pods.
	Subnet netip.Prefix
	Node   string
}

// Redirects contains the redirects by pod.
type Redirects map[ID][]Redirect

// Add adds the addresses that a node with these pod subnets publishes for a pod's interface. It
// ignores invalid addresses and returns their errors.
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

// Only pods of the slice's namespace count.
func podOf(s *endpointslice.EndpointSlice, e *endpointslice.EndpointSlice_Endpoint) (pod ID, is bool) {
	ref := e.GetTargetRef()
	if ref.GetKind() != "Pod" || ref.GetNamespace() != "" && ref.GetNamespace() != s.GetNamespace() {
		return ID{}, false
	}
	return ID{s.GetNamespace(), ref.GetName()}, true
}

func (r Redirects) at(pod ID, eth0 netip.Addr) (Redirect, bool) {
	for _, redirect := range r[pod] {
		if redirect.Subnet.Contains(eth0) {
			return redirect, true
		}
	}
	return Redirect{}, false
}

// SetRedirects replaces the redirects and returns the changed services.
func (p *Processor) SetRedirects(next Redirects) (changed []ID) {
	for _, redirects := range next {
		slices.SortFunc(redirects, func(a, b Redirect) int {
			return cmp.Or(a.Subnet.Addr().Compare(b.Subnet.Addr()), a.Addr.Compare(b.Addr))
		})
	}
	before := p.redirects
	p.redirects = next
	differs := map[ID]bool{}
	for _, redirects := range []Redirects{before, next} {
		for pod := range redirects {
			if !slices.Equal(before[pod], next[pod]) {
				differs[pod] = true
			}
		}
	}
	if len(differs) == 0 {
		return nil
	}
	for id, all := range p.slices {
		if p.services[id] == nil {
			continue
		}
		for _, s := range all {
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

// Foreign describes redirects that are ignored because another node than the pod's published them.
func (x Explainer) ForeignRedirects(id ID) (texts []string) {
	for _, s := range x.p.slices[id] {
		for _, e := range s.GetEndpoints() {
			pod, is := podOf(s, e)
			if !is || len(e.GetAddresses()) == 0 {
				continue
			}
			addr, err := kubeaddr.ParseAddr(e.GetAddresses()[0])
			if _, held := x.p.redirects.at(pod, addr); held || err != nil {
				continue
			}
			for _, r := range x.p.redirects[pod] {
				if r.Addr.Is6() == addr.Is6() {
					texts = append(texts, fmt.Sprintf("node %s says that pod %v is reached at %v (%s), which does not count: %v is no address of that node's pods", r.Node, pod, r.Addr, r.Interface, addr))
				}
			}
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
