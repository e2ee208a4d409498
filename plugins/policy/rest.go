package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/plugins/policy/processor"
	"github.com/contiv/contiv/rest"
)

// URL of the states of policies. With ?policy=<namespace>/<name>, or the name of a cluster network
// policy, the answer has only that one.
const URL = "/contiv/v1/policies"

// Report is the answer at URL.
type Report struct {
	// Policies has all policies of the cluster, sorted.
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
	// Reasons lists some of the reasons why it is not realised.
	Reasons []string `json:"reasons,omitempty"`
	// Txn and Since are the transaction and the time of the last change of State; nil: not known yet.
	Txn   *uint64    `json:"txn,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Pods has the pods of this node that the policy selects.
	Pods []string `json:"pods"`
}

// ID returns the full name of the policy: NAMESPACE/NAME, or NAME for a ClusterNetworkPolicy.
func (r PolicyReport) ID() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// Unknown returns the error for a name that no policy has.
func Unknown(name string) error {
	return fmt.Errorf("there is no policy %q: it is written NAMESPACE/NAME, a ClusterNetworkPolicy NAME", name)
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

// report returns the report of one policy, or of all.
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
			r.Reasons = []string{"the agent has just been told of it"}
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

// PodOf returns the pod of any node that an address belongs to, as namespace/name; "" if there is none.
func (p *Policy) PodOf(addr netip.Addr) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.processor.PodOf(addr); ok {
		return id.String()
	}
	return ""
}

// Denying returns the policies that deny connections in a direction because of the pod of this node that has
// the address: see processor.Denying.
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
