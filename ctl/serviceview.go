package ctl

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/nat"
)

// servicePrefix of a word names a service: svc/NAMESPACE/NAME, or svc/NAME with a namespace
// beside it.
const servicePrefix = "svc/"

// serviceNamed returns the service that a word names.
func serviceNamed(namespace, word string) (id processor.ID, is bool, err error) {
	word, is = strings.CutPrefix(word, servicePrefix)
	if !is {
		return id, false, nil
	}
	if before, name, ok := strings.Cut(word, "/"); ok {
		namespace, word = before, name
	}
	if id = (processor.ID{Namespace: cmp.Or(namespace, "default"), Name: word}); id.Name == "" || strings.Contains(id.Name, "/") {
		err = fmt.Errorf("service %q: write it svc/NAMESPACE/NAME, such as svc/default/web", servicePrefix+word)
	}
	return id, true, err
}

// natKeys are the keys of the service's values, which are the same on all nodes.
func natKeys(id processor.ID) []string {
	return []string{nat.Key(id, false), nat.Key(id, true)}
}

// ExplainedService is what "explain" tells of a service on one node.
type ExplainedService struct {
	service.ServiceReport
	// State is the worst of its values'.
	State string `json:"state"`
	// Explained are its values, the worst first.
	Explained []*Explained `json:"explained"`
}

func askExplainedService(ctx context.Context, a *Agent, id processor.ID) (explained ExplainedService, err error) {
	var report service.Report
	if err := a.Get(ctx, service.URL, url.Values{"service": {id.String()}}, &report); err != nil {
		return explained, err
	}
	if len(report.Services) != 1 {
		return explained, fmt.Errorf("service %v is not translated on this node: %s", id, whoElse(report.Translator))
	}
	explained.ServiceReport = report.Services[0]
	for _, v := range explained.Values {
		e, err := askExplained(ctx, a, v.Key)
		if err != nil {
			return explained, err
		}
		explained.Explained = append(explained.Explained, e)
	}
	slices.SortStableFunc(explained.Explained, func(a, b *Explained) int { return badness(a) - badness(b) })
	if len(explained.Explained) > 0 {
		explained.State = valueState(explained.Explained[0]).String()
	}
	return explained, nil
}

// explainService shows what nodes do for a service: its addresses, endpoints, and why
// those of its values that are not as they should be are so.
func (c *cli) explainService(ctx context.Context, agents []*Agent, id processor.ID) error {
	return show(c, target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (ExplainedService, error) {
		return askExplainedService(ctx, a, id)
	}), writeServices)
}

func writeServices(p printer, good []answer[ExplainedService]) {
	var reports []answer[service.Report]
	for _, a := range good {
		p.Printf("%s: service %s/%s is %s\n", a.Agent.Name, a.Value.Namespace, a.Value.Name, a.Value.State)
		for _, f := range a.Value.Frontends {
			if f.Inside == 0 {
				p.Printf("  %s %s has no endpoint for pods of the node and its own processes\n", f.Address, f.Protocol)
			}
			if f.Outside == 0 {
				p.Printf("  %s %s has no endpoint for other clients\n", f.Address, f.Protocol)
			}
		}
		reports = append(reports, answer[service.Report]{Agent: a.Agent, Value: service.Report{Services: []service.ServiceReport{a.Value.ServiceReport}}})
	}
	p.Printf("\n")
	printService(p, reports)
	for _, a := range good {
		for _, e := range a.Value.Explained {
			if badness(e) < len(worstFirst) {
				p.Printf("\n")
				writeExplanation(p, a.Agent.Name, e)
			}
		}
	}
}

// timelineOfService shows the changes of a service's values on all nodes since a time.
func (c *cli) timelineOfService(ctx context.Context, agents []*Agent, id processor.ID, since time.Time) error {
	return show(c, target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (keyTimelines, error) {
		all, err := timelinesOf(ctx, a, natKeys(id), since)
		if err == nil && len(all.revisions) == 0 {
			err = fmt.Errorf("its history has no values of service %v", id)
		}
		return all, err
	}), writeKeyTimelines)
}
