package ipam

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// URL is the path of Handler.
const URL = "/contiv/v1/ipam/allocations"

// AllocationsReport is the answer of GET /contiv/v1/ipam/allocations.
type AllocationsReport struct {
	// Sorted by namespace and name.
	Pods []PodAllocation
}

// PodAllocation holds the addresses of a pod.
type PodAllocation struct {
	PodID podmanager.PodID
	// MainIP is "" if only custom interfaces of the pod have addresses.
	MainIP string
	// IPs holds MainIP and, in a dual-stack cluster, the second address.
	IPs []string
	// CustomIfIPs maps custom interfaces to their addresses, or to "IP, IP" in a dual-stack
	// cluster.
	CustomIfIPs map[string]string
	// HeldBy lists the holders: "local" if the pod is wired on this node, "kubernetes" if its
	// Kubernetes object exists.
	HeldBy []string
}

// Report lists the addresses in use.
func (i *IPAM) Report() AllocationsReport {
	i.mu.RLock()
	defer i.mu.RUnlock()
	report := AllocationsReport{Pods: []PodAllocation{}}
	for id := range i.allPods() {
		allocation := PodAllocation{PodID: id, CustomIfIPs: map[string]string{}, HeldBy: []string{}}
		for _, addr := range i.pools.addresses(id) {
			allocation.IPs = append(allocation.IPs, addr.String())
		}
		if len(allocation.IPs) > 0 {
			allocation.MainIP = allocation.IPs[0]
		}
		for _, c := range i.custom.ips[id] {
			allocation.CustomIfIPs[c.Interface] = strings.TrimPrefix(allocation.CustomIfIPs[c.Interface]+", "+c.IP.String(), ", ")
		}
		for _, h := range i.holders(id) {
			allocation.HeldBy = append(allocation.HeldBy, string(h))
		}
		report.Pods = append(report.Pods, allocation)
	}
	slices.SortFunc(report.Pods, func(a, b PodAllocation) int { return cmp.Compare(a.PodID.String(), b.PodID.String()) })
	return report
}

// Handler serves GET /contiv/v1/ipam/allocations.
func (i *IPAM) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, i.Report())
	})
}
