package ctl

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/spf13/cobra"
)

// completionTimeout bounds the wait after the tab key is pressed.
const completionTimeout = 2 * time.Second

// suggesting returns the possible values of an argument.
type suggesting func(ctx context.Context, agents []*Agent) []string

// complete adds shell completion of arguments and flags, with suggestions from the agents.
func (c *cli) complete(root *cobra.Command) {
	keysAndPods := func(ctx context.Context, agents []*Agent) []string {
		return append(podNames(ctx, agents), presentKeys(ctx, agents)...)
	}
	places := func(ctx context.Context, agents []*Agent) []string {
		return append(podNames(ctx, agents), target.Names(agents)...)
	}
	nodes := func(_ context.Context, agents []*Agent) []string { return target.Names(agents) }
	arguments := map[string][]suggesting{
		"nodeconfig": {nodes}, "pods": {nodes}, "ipam": {nodes}, "interfaces": {nodes}, "drops": {nodes}, "events": {nodes}, "status": {nodes},
		"diff": {nodes}, "plan": {nodes}, "resync": {nodes}, "report": {nodes}, "vppcli": {nodes},
		"values": {keysAndPods}, "explain": {keysAndPods}, "timeline": {keysAndPods}, "dump": {presentKeys}, "graph": {keysAndPods},
		"why": {places, places}, "services": {serviceNames}, "policies": {policyNames},
		"config get": {presentKeys}, "config delete": {presentKeys}, "config edit": {presentKeys}, "config wait": {presentKeys}, "config watch": {presentKeys},
	}
	for path, suggest := range arguments {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil {
			panic("contivctl has no command " + path)
		}
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) < len(suggest):
				names, directive := c.suggest(cmd, suggest[len(args)])
				return withShort(names, word), directive
			case strings.HasPrefix(path, "config ") || path == "status": // any number of keys, or nodes
				return c.suggest(cmd, suggest[0])
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	flags := map[string]suggesting{
		"node":  nodes,
		"state": func(context.Context, []*Agent) []string { return slices.Sorted(maps.Keys(pb.ValueState_value)) },
		"view":  func(context.Context, []*Agent) []string { return views },
		"via":   func(context.Context, []*Agent) []string { return []string{"grpc", "etcd"} },
	}
	each(root, func(cmd *cobra.Command) {
		for name, suggest := range flags {
			if cmd.Flags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
				continue
			}
			_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return c.suggest(cmd, suggest)
			})
		}
		_ = cmd.RegisterFlagCompletionFunc("output", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			known := formatsOf(cmd)
			for i, name := range known {
				if format(name) == asJSONPath {
					known[i] += "="
				}
			}
			return known, cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// each calls visit for a command and its subcommands.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, visit)
	}
}

// suggest asks the agents selected by the flags so far. Silent agents contribute nothing.
func (c *cli) suggest(cmd *cobra.Command, words suggesting) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	if c.from != "" && c.openReport(c.from, cmd) != nil {
		return nil, directive
	}
	targets := c.targets
	if !cmd.Flags().Changed("node") {
		targets.Node = ""
	}
	agents, err := targets.Selected(ctx, nil)
	if err != nil {
		return nil, directive
	}
	return safeForShells(words(ctx, agents)), directive
}

// safeForShells keeps the words without characters that a shell interprets: shells insert what
// several completions have in common without quotes, and names in etcd are untrusted.
func safeForShells(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool {
		return strings.ContainsFunc(word, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:/@%+=,-", c))
		})
	})
}

// withShort adds the completions without namespace, which commands accept if they are unique, for a
// word without namespace.
func withShort(names []string, word string) []string {
	if word == "" || strings.Contains(word, "/") {
		return names
	}
	times := map[string]int{}
	for _, name := range names {
		if _, short, ok := strings.Cut(name, "/"); ok && !strings.Contains(short, "/") {
			times[short]++
		}
	}
	for _, short := range slices.Sorted(maps.Keys(times)) {
		if times[short] == 1 {
			names = append(names, short)
		}
	}
	return names
}

func podNames(ctx context.Context, agents []*Agent) (names []string) {
	for _, a := range target.GetAll[ipnet.PodsReport](ctx, agents, ipnet.PodsURL, nil) {
		for _, p := range a.Value.Pods {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names
}

func policyNames(ctx context.Context, agents []*Agent) (names []string) {
	for _, a := range target.GetAll[policy.Report](ctx, agents, policy.URL, nil) {
		for _, p := range a.Value.Policies {
			names = append(names, p.ID())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func serviceNames(ctx context.Context, agents []*Agent) (names []string) {
	for _, a := range target.GetAll[service.Report](ctx, agents, service.URL, nil) {
		for _, s := range a.Value.Services {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
