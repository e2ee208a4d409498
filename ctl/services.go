package ctl

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/plugins/service"
	"github.com/spf13/cobra"
)

func (c *cli) servicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "services [NAMESPACE/NAME]",
		Short: "The Kubernetes services that nodes translate, and which endpoints they use",
		Long: `Shows the services that the vswitch of each node translates; of one, all addresses, all endpoints,
and why this node does not use some of them. INSIDE are pods of the node and its own processes, OUTSIDE
all others. "services --node NODE" asks one node.`,
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
				if namespace, name, ok := strings.Cut(args[0], "/"); !ok || namespace == "" || name == "" {
					return fmt.Errorf("service %q: write it NAMESPACE/NAME, such as default/web", args[0])
				}
				query = url.Values{"service": args}
			}
			return show(c, target.GetAll[service.Report](ctx, agents, service.URL, query), func(p printer, good []answer[service.Report]) {
				if len(args) == 1 {
					printService(p, good)
					return
				}
				printServices(p, good)
			})
		},
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

// whoElse says why the vswitch of a node translates nothing.
func whoElse(t service.Translator) string {
	switch {
	case t.Others != "":
		return "found " + t.Others
	case t.Setting == "kube-proxy":
		return "left to kube-proxy"
	}
	return "the agent starts"
}

// stateOf is that of the values of a service: CONFIGURED, or what is not.
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
	endpoints := p.Table("NODE", "ENDPOINT", "PROTOCOL", "PORT", "ON-NODE", "ZONE", "CONDITIONS", "USED", "WHY-NOT")
	values := p.Table("NODE", "VALUE", "STATE", "TXN")
	for _, a := range good {
		for _, s := range a.Value.Services {
			for _, f := range s.Frontends {
				sources := strings.Join(f.Sources, ",")
				if f.Restricted && sources == "" {
					sources = "nobody"
				}
				frontends.Add(a.Agent.Name, string(f.Kind), f.Address, string(f.Protocol), f.Port, strconv.Itoa(f.Inside), strconv.Itoa(f.Outside), sources)
			}
			for _, e := range s.Details {
				endpoints.Add(a.Agent.Name, e.Address, string(e.Protocol), e.Port, e.Node, e.Zone, conditions(e), usedBy(e), e.Why)
			}
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
	frontends.Print()
	p.Printf("\n")
	endpoints.Print()
	p.Printf("\n")
	values.Print()
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

// usedBy says whose connections go to an endpoint.
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
