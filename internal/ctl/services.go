package ctl

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
	"github.com/spf13/cobra"
)

func (c *cli) servicesCommand() *cobra.Command {
	var namespace string
	cmd := listing(&cobra.Command{
		Use:   "services [NAME]",
		Short: "Show the Kubernetes services of each node and the endpoints that it uses",
		Long: `Show the Kubernetes services that the vswitch of each node implements. With NAME, show all addresses
and endpoints of one service, and why a node does not use some of them. "at NAME" is an interface of
the pod other than eth0, selected by the annotation contivpp.io/service-endpoint-if. INSIDE are the pods
and processes of the node, OUTSIDE all other clients.

NAME is NAMESPACE/NAME, or a name in the namespace of -n. Without -n, a name must be unique in the
cluster. Without NAME, -n lists the services of one namespace.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			var query url.Values
			if len(args) == 1 {
				id, err := serviceID(ctx, agents, namespace, args[0])
				if err != nil {
					return err
				}
				query = url.Values{"service": {id}}
			}
			answers := target.GetAll[service.Report](ctx, agents, service.URL, query)
			for i := range answers {
				answers[i].Value.Services = onlyIn(namespace, answers[i].Value.Services, func(s service.ServiceReport) string { return s.Namespace })
			}
			return show(c, answers, func(p printer, good []answer[service.Report]) {
				printStale(p, good)
				if len(args) == 1 {
					printService(p, good)
					return
				}
				printServices(p, good)
			})
		},
	})
	listedNamespaceFlag(cmd, &namespace)
	return cmd
}

// printStale lists the nodes with outdated services.
func printStale(p printer, good []answer[service.Report]) {
	nodes := map[string][]string{}
	for _, a := range good {
		if a.Value.Stale != "" {
			nodes[a.Value.Stale] = append(nodes[a.Value.Stale], a.Agent.Name)
		}
	}
	for _, line := range text.Stale(nodes) {
		p.Printf("%s\n\n", line)
	}
}

func printServices(p printer, good []answer[service.Report]) {
	t := p.Table("NODE", "NAMESPACE", "SERVICE", "FRONTENDS", "ENDPOINTS", "STATE")
	for _, a := range good {
		if !a.Value.Translator.VSwitch {
			t.Add(a.Agent.Name, "", "", "", "", "not translated: "+whoElse(a.Value.Translator))
			continue
		}
		for _, s := range a.Value.Services {
			first := s.Frontends[0]
			frontends := fmt.Sprintf("%s %s", first.Address, first.Protocol)
			if n := len(s.Frontends) - 1; n > 0 {
				frontends += fmt.Sprintf(" +%d", n)
			}
			t.Add(a.Agent.Name, s.Namespace, s.Name, frontends, strconv.Itoa(s.Endpoints), stateOf(s))
		}
	}
	t.Print()
}

// whoElse returns the reason why the node's vswitch translates no services.
func whoElse(t service.Translator) string {
	switch {
	case t.OtherProxy != "":
		text := "found " + t.OtherProxy
		if !t.Since.IsZero() {
			text += ", since " + t.Since.Local().Format("01-02 15:04:05")
		}
		return text
	case t.Setting == "kube-proxy":
		return "left to kube-proxy"
	}
	return "the agent starts"
}

// stateOf returns CONFIGURED, or the other states of a service's values.
func stateOf(s service.ServiceReport) string {
	var states []string
	for _, v := range s.Values {
		text := v.State
		if v.Error != "" {
			text += ": " + v.Error
		}
		if !slices.Contains(states, text) {
			states = append(states, text)
		}
	}
	return strings.Join(states, ", ")
}

func printService(p printer, good []answer[service.Report]) {
	frontends := p.Table("NODE", "KIND", "FRONTEND", "PROTOCOL", "PORT", "INSIDE", "OUTSIDE", "SOURCES")
	frontends.Spare("PORT", "KIND")
	endpoints := p.Table("NODE", "ENDPOINT", "PROTOCOL", "PORT", "ON-NODE", "ZONE", "CONDITIONS", "USED", "WHY-NOT")
	endpoints.Spare("ZONE", "PORT", "CONDITIONS")
	values := p.Table("NODE", "VALUE", "STATE", "TXN")
	var left, settings, limits, nowhere []string
	unserved, translated, served := "", false, false
	for _, a := range good {
		if t := a.Value.Translator; !t.VSwitch && len(a.Value.Services) > 0 {
			left = append(left, fmt.Sprintf("%s: not translated by the vswitch: %s", a.Agent.Name, whoElse(t)))
		}
		for _, s := range a.Value.Services {
			if text := settingsOf(s); !slices.Contains(settings, text) {
				settings = append(settings, text)
			}
			for _, text := range s.Limits {
				limits = append(limits, fmt.Sprintf("%s: %s", a.Agent.Name, text))
			}
			for _, f := range s.Frontends {
				sources := strings.Join(f.Sources, ",")
				if f.Restricted && sources == "" {
					sources = "nobody"
				}
				frontends.Add(a.Agent.Name, string(f.Kind), f.Address, string(f.Protocol), f.Port, strconv.Itoa(f.Inside), strconv.Itoa(f.Outside), sources)
				nowhere = append(nowhere, nowhereOf(a.Agent.Name, f)...)
			}
			for _, e := range s.Details {
				endpoints.Add(a.Agent.Name, endpointText(e), string(e.Protocol), e.Port, e.Node, e.Zone, conditions(e), usedBy(e), e.Why)
			}
			translated, served = translated || len(s.Values) > 0, served || len(s.Details) > 0
			unserved = cmp.Or(unserved, s.Unserved)
			for _, v := range s.Values {
				txn, state := "", v.State
				if v.Txn != nil {
					txn = strconv.FormatUint(*v.Txn, 10)
				}
				if v.Error != "" {
					state += ": " + v.Error
				}
				values.Add(a.Agent.Name, v.Key, state, txn)
			}
		}
	}
	for _, text := range left {
		p.Printf("%s\n", text)
	}
	if len(left) > 0 {
		p.Printf("\n")
	}
	for _, text := range settings {
		p.Printf("%s\n\n", text)
	}
	frontends.Print()
	p.Printf("\n")
	if served {
		for _, text := range nowhere {
			p.Printf("%s\n\n", text)
		}
		endpoints.Print()
	} else {
		p.Printf("The service has no endpoints%s\n", prefixed(": ", unserved))
	}
	if translated {
		p.Printf("\n")
		values.Print()
	}
	for _, text := range limits {
		p.Printf("\n%s\n", text)
	}
}

// settingsOf lists the service's settings that affect its translation.
func settingsOf(s service.ServiceReport) string {
	affinity := "sessionAffinity None"
	if s.Affinity > 0 {
		affinity = fmt.Sprintf("sessionAffinity ClientIP for %d s", s.Affinity)
	}
	list := []string{affinity, prefixed("internalTrafficPolicy ", s.InternalTrafficPolicy), prefixed("externalTrafficPolicy ", s.ExternalTrafficPolicy)}
	if s.HealthCheckNodePort > 0 {
		list = append(list, fmt.Sprintf("healthCheckNodePort %d", s.HealthCheckNodePort))
	}
	return strings.Join(slices.DeleteFunc(list, func(text string) bool { return text == "" }), ", ")
}

// nowhereOf explains why a frontend has no endpoints for some or all clients.
func nowhereOf(node string, f service.FrontendReport) (texts []string) {
	at := fmt.Sprintf("%s: %s %s has no endpoint", node, f.Address, f.Protocol)
	switch {
	case f.NoneInside == f.NoneOutside && f.NoneInside != "":
		return []string{at + ": " + f.NoneInside}
	case f.NoneInside != "":
		texts = append(texts, at+" for pods of the node and its own processes: "+f.NoneInside)
	}
	if f.NoneOutside != "" {
		texts = append(texts, at+" for other clients: "+f.NoneOutside)
	}
	return texts
}

// endpointText includes the endpoint's interface unless it is the pod's eth0.
func endpointText(e service.EndpointReport) string {
	if e.Interface == "" {
		return e.Address
	}
	return fmt.Sprintf("%s at %s", e.Address, e.Interface)
}

func conditions(e service.EndpointReport) string {
	var list []string
	for _, c := range []struct {
		holds bool
		name  string
	}{{e.Ready, "ready"}, {e.Serving, "serving"}, {e.Terminating, "terminating"}} {
		if c.holds {
			list = append(list, c.name)
		}
	}
	return strings.Join(list, ",")
}

// usedBy describes the clients of an endpoint.
func usedBy(e service.EndpointReport) string {
	switch {
	case e.Inside && e.Outside:
		return "yes"
	case e.Inside:
		return "inside"
	case e.Outside:
		return "outside"
	}
	return "no"
}

// servicePrefix is the prefix of service names on the command line: svc/NAMESPACE/NAME, or svc/NAME
// with a separate namespace.
const servicePrefix = "svc/"

func serviceNamed(ctx context.Context, agents []*Agent, namespace, word string) (id processor.ID, is bool, err error) {
	name, is := strings.CutPrefix(word, servicePrefix)
	if !is {
		return id, false, nil
	}
	if checkName("service", name) != nil {
		return id, true, Misused(fmt.Errorf("service %q: use svc/NAMESPACE/NAME, such as svc/default/web", word))
	}
	full, err := serviceID(ctx, agents, namespace, name)
	id.Namespace, id.Name, _ = strings.Cut(full, "/")
	return id, true, err
}

// natKeys returns the keys of the service's values. They are the same on all nodes.
func natKeys(id processor.ID) []string {
	return []string{nat.Key(id, false), nat.Key(id, true)}
}

// ExplainedService is the output of "explain" for a service on one node.
type ExplainedService struct {
	service.ServiceReport
	// Translator is the component that translates services on the node.
	Translator service.Translator `json:"translator"`
	// State is the worst state of its values.
	State string `json:"state"`
	// Explained holds its values, the worst first.
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
	explained.ServiceReport, explained.Translator = report.Services[0], report.Translator
	var keys []string
	for _, v := range explained.Values {
		keys = append(keys, v.Key)
	}
	if explained.Explained, err = explainAll(ctx, a, keys); err != nil {
		return explained, err
	}
	explained.State = worstState(explained.Explained)
	return explained, nil
}

// explainService shows a service's addresses and endpoints on each node, and the reasons for values
// in another state than CONFIGURED.
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
		reports = append(reports, answer[service.Report]{Agent: a.Agent, Value: service.Report{Translator: a.Value.Translator, Services: []service.ServiceReport{a.Value.ServiceReport}}})
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
