package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/spf13/cobra"
)

func (c *cli) policiesCommand() *cobra.Command {
	var namespace string
	cmd := listing(&cobra.Command{
		Use:   "policies [NAME]",
		Short: "Show the network policies and their state on the nodes",
		Long: `Show the network policies of the cluster, the pods that they select, and the nodes that do not enforce
them yet. With NAME, show the state of one policy on each node, since when, the transaction, and the
reason if it is not enforced.

NAME is NAMESPACE/NAME, the name of a ClusterNetworkPolicy, or a name in the namespace of -n. Without -n,
a name must be unique in the cluster. Without NAME, -n lists the policies of one namespace.

The exit code is 0 if all nodes answered and enforce all listed policies, else 1.`,
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
				id, err := policyID(ctx, agents, namespace, args[0])
				if err != nil {
					return err
				}
				query = url.Values{"policy": {id}}
			}
			answers := target.GetAll[policy.Report](ctx, agents, policy.URL, query)
			for i := range answers {
				answers[i].Value.Policies = onlyIn(namespace, answers[i].Value.Policies, func(r policy.PolicyReport) string { return r.Namespace })
			}
			err = show(c, answers, func(p printer, good []answer[policy.Report]) {
				if len(args) == 1 {
					printPolicy(p, good)
					return
				}
				printPolicies(p, good)
			})
			for _, a := range answers {
				if err == nil && slices.ContainsFunc(a.Value.Policies, func(r policy.PolicyReport) bool { return !r.Realised }) {
					err = ErrReported
				}
			}
			return err
		},
	})
	listedNamespaceFlag(cmd, &namespace)
	return cmd
}

// policyLine is a policy with its state on all nodes.
type policyLine struct {
	policy.PolicyReport
	pods, realised, nodes int
	not                   []string // nodes where it is not realised
}

func printPolicies(p printer, good []answer[policy.Report]) {
	var names []string
	lines := map[string]*policyLine{}
	for _, a := range good {
		for _, r := range a.Value.Policies {
			name := r.ID()
			line := lines[name]
			if line == nil {
				line = &policyLine{PolicyReport: r}
				lines[name], names = line, append(names, name)
			}
			line.nodes++
			line.pods += len(r.Pods)
			if r.Realised {
				line.realised++
			} else {
				line.not = append(line.not, fmt.Sprintf("%s: %s", a.Agent.Name, strings.Join(r.Reasons, "; ")))
			}
		}
	}
	t := p.Table("POLICY", "TIER", "PRIORITY", "PODS", "REALISED", "WHY-NOT")
	t.Spare("PRIORITY", "TIER")
	for _, name := range names {
		line := lines[name]
		t.Add(name, line.Tier, priorityOf(line.PolicyReport), strconv.Itoa(line.pods), fmt.Sprintf("%d/%d", line.realised, line.nodes), strings.Join(line.not, " | "))
	}
	t.Print()
}

func printPolicy(p printer, good []answer[policy.Report]) {
	t := p.Table("NODE", "PODS", "REALISED", "TXN", "SINCE", "WHY-NOT")
	for _, a := range good {
		for _, r := range a.Value.Policies {
			txn, since := "", ""
			if r.Txn != nil {
				txn = strconv.FormatUint(*r.Txn, 10)
			}
			if r.Since != nil {
				since = r.Since.Local().Format(time.DateTime)
			}
			t.Add(a.Agent.Name, strings.Join(r.Pods, ","), map[bool]string{true: "yes", false: "no"}[r.Realised], txn, since, strings.Join(r.Reasons, "; "))
		}
	}
	t.Print()
}

func priorityOf(r policy.PolicyReport) string {
	if r.Namespace != "" {
		return ""
	}
	return strconv.Itoa(int(r.Priority))
}

func (c *cli) denialsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "denials",
		Short: "Show traffic denied by network policies",
		Long: `Show the number of packets to and from the pods of each node that policies denied, and the connections
denied in the last 30 seconds with the policies responsible. With -f, keep showing connections as they
are denied; of many denials, only a sample is shown.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				if err := c.checkFollowed(); err != nil {
					return err
				}
				return c.followDenials(cmd.Context())
			}
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			return show(c, target.GetAll[denials.Report](ctx, agents, denials.URL, nil), printDenials)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep showing connections as they are denied")
	return cmd
}

func printDenials(p printer, good []answer[denials.Report]) {
	counts := p.Table("NODE", "POD", "DIRECTION", "PACKETS", "POLICIES")
	events := p.Table(deniedHeader...)
	events.Spare("PACKETS")
	for _, a := range good {
		if a.Value.Unknown != "" {
			counts.Add(a.Agent.Name, "", "", "", a.Value.Unknown)
		}
		for _, n := range a.Value.Counts {
			policies := strings.Join(n.Policies, ",")
			if n.Isolated {
				policies = "isolated by " + policies
			}
			counts.Add(a.Agent.Name, n.Pod, n.Direction, strconv.FormatUint(n.Packets, 10), policies)
		}
		for _, e := range a.Value.Events {
			events.Add(deniedLine(a.Agent.Name, e)...)
		}
	}
	counts.Print()
	p.Printf("\n")
	events.Print()
}

var deniedHeader = []string{"TIME", "NODE", "FROM", "TO", "PORT", "PACKETS", "WHY"}

func deniedLine(node string, e denials.Event) []string {
	why := e.Why
	if e.Probe {
		why = "sent by `contivctl why`, or at that time: " + why
	}
	return []string{e.Time.Local().Format(time.TimeOnly), node, deniedEnd(e.From, e.Src), deniedEnd(e.To, e.Dst), deniedPort(e), strconv.FormatUint(e.Packets, 10), why}
}

func deniedEnd(pod string, addr netip.Addr) string {
	if pod == "" {
		return addr.String()
	}
	return fmt.Sprintf("%s (%v)", pod, addr)
}

func deniedPort(e denials.Event) string {
	name := map[uint8]string{policyrules.ICMP: "icmp", policyrules.ICMPv6: "icmp", policyrules.TCP: "tcp", policyrules.UDP: "udp", policyrules.SCTP: "sctp"}[e.Protocol]
	switch {
	case name == "":
		return fmt.Sprintf("protocol %d", e.Protocol)
	case e.Port == 0:
		return name
	}
	return fmt.Sprintf("%d/%s", e.Port, name)
}

type followedDenial struct {
	Node  string        `json:"node"`
	Event denials.Event `json:"event"`
}

// followDenials shows denied connections until ctx ends. Agents may restart meanwhile.
func (c *cli) followDenials(ctx context.Context) error {
	agents, err := c.targets.Selected(ctx, nil)
	if err != nil {
		return err
	}
	last, trouble, unknown, header := map[string]uint64{}, map[string]string{}, map[string]string{}, true
	ticker := time.NewTicker(c.poll)
	defer ticker.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, c.targets.Timeout)
		answers := target.Ask(limited, agents, func(ctx context.Context, a *Agent) (r denials.Report, err error) {
			err = a.Get(ctx, denials.URL, url.Values{"after": {strconv.FormatUint(last[a.Name], 10)}}, &r)
			return r, err
		})
		cancel()
		var news []followedDenial
		for _, a := range answers {
			name := a.Agent.Name
			if why := kindOfTrouble(a.Err); why != trouble[name] && ctx.Err() == nil {
				if trouble[name] = why; a.Err != nil {
					c.report(a.Agent, a.Err)
				}
			}
			if a.Err != nil {
				continue
			}
			if why := a.Value.Unknown; why != unknown[name] && why != "" {
				fmt.Fprintf(c.errOut, "%s: %s: %s\n", c.name, name, why)
			}
			unknown[name] = a.Value.Unknown
			last[name] = a.Value.Last
			for _, e := range a.Value.Events {
				news = append(news, followedDenial{name, e})
			}
		}
		slices.SortStableFunc(news, func(a, b followedDenial) int { return a.Event.Time.Compare(b.Event.Time) })
		if err := c.printFollowedDenials(news, header); err != nil {
			return err
		}
		header = header && len(news) == 0
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *cli) printFollowedDenials(news []followedDenial, header bool) error {
	const line = "%-8s %-12s %-36s %-36s %-9s %7s  %s\n"
	for i, n := range news {
		switch c.format {
		case asJSON:
			data, err := json.Marshal(n)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "%s\n", data)
		case asYAML:
			fmt.Fprintln(c.out, "---")
			if err := c.format.encode(c.out, n); err != nil {
				return err
			}
		default:
			if header && i == 0 {
				c.printer().Printf(line, anys(deniedHeader)...)
			}
			c.printer().Printf(line, anys(deniedLine(n.Node, n.Event))...)
		}
	}
	return nil
}
