package ipam

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/rest"
)

// URL is the path that Handler is meant for.
const URL = "/contiv/v1/ipam/allocations"

// AllocationsReport is the answer of GET /contiv/v1/ipam/allocations.
type AllocationsReport struct {
	// Pods sorted by namespace and name.
	Pods []PodAllocation
}

// PodAllocation tells the addresses of a pod.
type PodAllocation struct {
	PodID podmanager.PodID
	// MainIP is "" for a pod of which only custom interfaces have addresses.
	MainIP string
	// IPs are MainIP and, in a dual-stack cluster, the address of the other IP
	// version.
	IPs []string
	// CustomIfIPs maps the names of custom interfaces to their addresses, in a dual-stack
	// cluster "IP, IP".
	CustomIfIPs map[string]string
	// HeldBy says why the address is not free: "local" for a pod wired on this
	// node, "kubernetes" for one whose Kubernetes object exists.
	HeldBy []string
}

// Report describes the addresses in use.
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
