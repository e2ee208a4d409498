package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
)

// URL serves the states of policies. ?policy=NAMESPACE/NAME, or the name of a cluster network
// policy, selects one.
const URL = "/contiv/v1/policies"

// Report is the response of URL.
type Report struct {
	Policies []PolicyReport `json:"policies"`
}

// PolicyReport is the state of a policy on this node.
type PolicyReport struct {
	// Namespace is empty for cluster network policies.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Tier is "NetworkPolicy", "Admin" or "Baseline".
	Tier     string `json:"tier"`
	Priority int32  `json:"priority,omitempty"`
	Realised bool   `json:"realised"`
	// Reasons lists some reasons why the policy is not realised.
	Reasons []string `json:"reasons,omitempty"`
	// Txn and Since identify the last state change; nil if unknown.
	Txn   *uint64    `json:"txn,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Pods lists the selected pods of this node.
	Pods []string `json:"pods"`
}

// ID returns NAMESPACE/NAME, or NAME for a ClusterNetworkPolicy.
func (r PolicyReport) ID() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// Unknown returns the error for an unknown policy name.
func Unknown(name string) error {
	return fmt.Errorf("policy %q not found: use NAMESPACE/NAME, or NAME for a ClusterNetworkPolicy", name)
}

// Handler serves URL.
func (p *Policy) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("policy")
		report := p.report(name)
		if name != "" && len(report.Policies) == 0 {
			rest.Error(w, http.StatusNotFound, Unknown(name))
			return
		}
		rest.JSON(w, report)
	})
}

func (p *Policy) report(only string) Report {
	p.real.mu.Lock()
	defer p.real.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	report := Report{Policies: []PolicyReport{}}
	for _, known := range p.processor.Policies() {
		if only != "" && known.ID.String() != only {
			continue
		}
		s := p.real.states[known.ID]
		r := PolicyReport{Namespace: known.ID.Namespace, Name: known.ID.Name, Tier: known.Tier.String(), Priority: known.Priority,
			Realised: s.realised, Reasons: s.reasons, Txn: s.txn, Pods: []string{}}
		if s.since.IsZero() {
			r.Reasons = []string{"the agent has just received it"}
		} else {
			r.Since = &s.since
		}
		for _, pods := range [][]processor.PodID{known.Wired, known.Unwired} {
			for _, pod := range pods {
				r.Pods = append(r.Pods, pod.String())
			}
		}
		report.Policies = append(report.Policies, r)
	}
	return report
}

// PodOf returns the pod with an address, on any node, as namespace/name, or "".
func (p *Policy) PodOf(addr netip.Addr) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.processor.PodOf(addr); ok {
		return id.String()
	}
	return ""
}

// Denying is processor.Denying for the local pod with an address.
func (p *Policy) Denying(addr netip.Addr, direction filter.AccessList_Direction, byRule bool) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.processor.PodOf(addr); ok {
		for _, policy := range p.processor.Denying(id, direction, byRule) {
			list = append(list, policy.String())
		}
	}
	return list
}
