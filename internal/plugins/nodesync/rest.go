package nodesync

import (
	"errors"
	"net/http"

	"github.com/contiv/contiv/internal/lib/rest"
)

// NodesURL is the path of Handler.
const NodesURL = "/contiv/v1/nodes"

// NodesReport is the response of GET /contiv/v1/nodes.
type NodesReport struct {
	ThisNode string `json:"thisNode"`
	// Sorted by ID, nodes without one last.
	Nodes []NodeReport `json:"nodes"`
}

// NodeReport describes a node.
type NodeReport struct {
	// ID is 0 if no agent has run on the node.
	ID   uint32 `json:"id"`
	Name string `json:"name"`
	// VPPIPs are addresses with prefix lengths.
	VPPIPs []string `json:"vppIPs"`
	// OwnStack reports whether the vswitch has its own network stack. nil: unknown.
	OwnStack *bool `json:"ownStack,omitempty"`

	MgmtIPs []string `json:"mgmtIPs"`
	// PodCIDRs are the pod subnets assigned by Kubernetes.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
}

// Report describes all nodes. It returns false before the first resync.
func (n *NodeSync) Report() (NodesReport, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	report := NodesReport{ThisNode: n.nodeName, Nodes: []NodeReport{}}
	for _, node := range n.nodes.sorted() {
		r := NodeReport{ID: node.ID, Name: node.Name, OwnStack: node.OwnStack, PodCIDRs: node.PodCIDRs, VPPIPs: []string{}, MgmtIPs: []string{}}
		for _, p := range node.VPPIPs {
			r.VPPIPs = append(r.VPPIPs, p.String())
		}
		for _, a := range node.MgmtIPs {
			r.MgmtIPs = append(r.MgmtIPs, a.String())
		}
		report.Nodes = append(report.Nodes, r)
	}
	return report, n.nodes != nil
}

// Handler serves GET /contiv/v1/nodes.
func (n *NodeSync) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		report, ready := n.Report()
		switch {
		case !ready:
			rest.Error(w, http.StatusServiceUnavailable, errors.New("nodes are unknown before the startup resync: try again later"))
		default:
			rest.JSON(w, report)
		}
	})
}
