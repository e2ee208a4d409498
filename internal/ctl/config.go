package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
)

// defaultClient is the default client name of the config commands.
const defaultClient = "contivctl"

// configuring holds the state shared by the config commands.
type configuring struct {
	*cli
	via, client, address string
	// undecodable is the last warning about undecodable values in etcd.
	undecodable string
}

func (c *cli) configCommand() *cobra.Command {
	g := &configuring{cli: c}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Configure the vswitch of a node",
		Long: "Configure the vswitch of a node, in addition to Contiv's own configuration. Files hold values in\n" +
			"YAML or JSON, one document per value, with its key or its model:\n\n" +
			"  key: config/vpp/v2/interfaces/loop1\n" +
			"  value: {name: loop1, type: SOFTWARE_LOOPBACK, enabled: true, ip_addresses: [10.9.9.9/32]}\n" +
			"  ---\n" +
			"  model: vpp.route\n" +
			"  value: {dst_network: 10.8.0.0/16, outgoing_interface: loop1, next_hop_addr: 10.9.9.1}\n\n" +
			"contivctl calls the agent over gRPC: at --grpc, or at " + target.GRPCSocket + " next to the agent's socket, or\n" +
			"at port " + target.GRPCPort + " of its host. With --via etcd, it writes the values to etcd. Values belong to the\n" +
			"client (--client) that applied them, and only this client can delete them.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			return text.Hinted(fmt.Errorf("config has no command %q", args[0]), args[0], names)
		},
	}
	f := cmd.PersistentFlags()
	f.StringVar(&g.via, "via", "grpc", "how to reach the node: grpc or etcd")
	f.StringVar(&g.client, "client", defaultClient, "name of the gRPC client, which owns the values")
	f.StringVar(&g.address, "grpc", "", "gRPC address of the agent: unix:///PATH or HOST:PORT (default: see above)")
	cmd.AddCommand(g.getCommand(), g.applyCommand(), g.deleteCommand(), g.diffOfFilesCommand(),
		g.watchCommand(), g.waitCommand(), g.editCommand(), g.schemaCommand())
	return cmd
}

// checkConfiguring refuses flags of the config commands that have no effect together.
func checkConfiguring(cmd *cobra.Command) error {
	if !cmd.HasParent() || cmd.Parent().Name() != "config" {
		return nil
	}
	given := func(name string) bool { f := cmd.Flag(name); return f != nil && f.Changed }
	anyOf := func(names ...string) string {
		if i := slices.IndexFunc(names, given); i >= 0 {
			return names[i]
		}
		return ""
	}
	overEtcd, own := cmd.Flag("via").Value.String() == "etcd", cmd.Flag("own")
	switch {
	case cmd.Name() == "schema" && anyOf("via", "client", "grpc") != "":
		return Misused(fmt.Errorf("%s does not query agents: drop --%s", cmd.CommandPath(), anyOf("via", "client", "grpc")))
	case overEtcd && given("client"):
		return Misused(errors.New("--client requires gRPC: drop it, or --via etcd"))
	case given("client") && own != nil && own.Value.String() != "true":
		return Misused(errors.New("--client requires --own: add it, or drop --client"))
	case !overEtcd && given("async"):
		return Misused(errors.New("--async requires --via etcd, because unfinished changes over gRPC could be lost: drop it"))
	case given("grpc") && given("all"):
		return Misused(errors.New("--all requires REST: use --agent instead of --grpc"))
	case given("grpc") && !overEtcd && !given("dry-run"):
		if other := anyOf("config", "agent", "etcd-endpoints", "etcd-config", "kubeconfig", "context", "node"); other != "" {
			return Misused(fmt.Errorf("--grpc selects the agent: drop --%s", other))
		}
	}
	return nil
}

// node returns the selected agent, or an error if several are selected.
func (g *configuring) node(ctx context.Context) (*Agent, error) {
	agents, err := g.targets.Selected(ctx, nil)
	if err != nil {
		return nil, err
	}
	if len(agents) > 1 {
		return nil, Misused(fmt.Errorf("only one node can be configured at a time: select it with --node: %s", strings.Join(target.Names(agents), ", ")))
	}
	return agents[0], nil
}

// own returns a client of the node and the values that it requests now: those with the keys, or
// all. The caller closes the client.
func (g *configuring) own(ctx context.Context, keys ...string) (*client.Client, []client.Value, error) {
	c, err := g.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	values, err := c.Get(ctx, keys...)
	if err := g.tolerate(err); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, values, nil
}

// dial returns a client of the node, which the caller closes.
func (g *configuring) dial(ctx context.Context) (*client.Client, error) {
	switch g.via {
	case "grpc":
		return g.dialGRPC(ctx)
	case "etcd":
		if g.address != "" {
			return nil, Misused(errors.New("--grpc and --via etcd exclude each other: drop one of them"))
		}
		return g.dialEtcd(ctx)
	}
	return nil, text.Hinted(fmt.Errorf("--via %q is not known", g.via), g.via, []string{"grpc", "etcd"})
}

func (g *configuring) dialGRPC(ctx context.Context) (*client.Client, error) {
	address, secure := g.address, g.targets.CAFile != "" || g.targets.CertFile != "" || g.targets.KeyFile != ""
	options := client.GRPC{Name: g.client}
	if address == "" {
		agent, err := g.node(ctx)
		if err != nil {
			return nil, err
		}
		there, overTLS, err := agent.GRPCAddress()
		if err != nil {
			return nil, err
		}
		address, secure = there, secure || overTLS
		if dial := agent.DialGRPC(); dial != nil {
			secure = false // it is a socket
			options.DialOptions = append(options.DialOptions, grpc.WithContextDialer(dial))
		}
	}
	if secure {
		c, err := g.targets.Configuration()
		if err != nil {
			return nil, err
		}
		if options.TLS, err = c.TLS(); err != nil {
			return nil, err
		}
	}
	return client.DialGRPC(address, options)
}

func (g *configuring) dialEtcd(ctx context.Context) (*client.Client, error) {
	c, err := g.targets.Configuration()
	if err != nil {
		return nil, err
	}
	node := g.targets.Node
	if node == "" && len(c.Agents) == 1 {
		for node = range c.Agents {
		}
	}
	if node == "" {
		return nil, Misused(errors.New("--via etcd requires a node: set it with --node"))
	}
	reach, err := g.targets.Etcd(c)
	if err != nil {
		return nil, err
	}
	if len(reach.Endpoints) == 0 {
		if g.targets.Kubeconfig != "" || g.targets.Context != "" {
			return nil, Misused(errors.New("a kubeconfig gives no access to etcd: drop --via etcd, or create credentials with `contivctl credentials` and use --etcd-config"))
		}
		reach.Endpoints = []string{etcd.LocalEndpoint}
	}
	if err := errors.Join(reach.CheckFiles(), target.Refused(ctx, reach.Endpoints)); err != nil {
		return nil, err
	}
	if err := c.CheckNode(ctx, reach, node); err != nil {
		return nil, err
	}
	return client.NewEtcd(node, reach)
}

// selectors sorts words: names of models become key prefixes, others are parts of keys.
func selectors(words []string) (prefixes, parts []string) {
	for _, word := range words {
		if m, err := modelNamed(word); err == nil {
			prefixes = append(prefixes, m.KeyPrefix())
		} else {
			parts = append(parts, nodePrefix.ReplaceAllString(word, ""))
		}
	}
	return prefixes, parts
}

// meantBy returns the values selected by words: keys, parts of keys, or models. No words select
// all.
func meantBy(words []string, values []client.Value) ([]client.Value, error) {
	if len(words) == 0 {
		return values, nil
	}
	prefixes, parts := selectors(words)
	keys := keysOfValues(values)
	wanted := make(map[string]bool)
	for _, part := range parts {
		found := matching(keys, part)
		if len(found) == 0 {
			return nil, hintedModel(part, keys)
		}
		for _, key := range found {
			wanted[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(values), func(v client.Value) bool {
		return !wanted[v.Key] && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(v.Key, p) })
	}), nil
}

// hintedModel returns the error for a word that selects no value and may be a mistyped model.
func hintedModel(word string, keys []string) error {
	var known []string
	for _, m := range models.All() {
		known = append(known, m.Name())
	}
	if nearest, ok := config.Nearest(word, known); ok && !strings.Contains(word, "/") {
		return Misused(fmt.Errorf("no key or model matches %q: did you mean %q?", word, nearest))
	}
	if nearest, ok := config.Nearest(word, keys); ok {
		return Misused(fmt.Errorf("no key contains %q: did you mean %q?", word, nearest))
	}
	return Misused(fmt.Errorf("no key contains %q: `contivctl config get` lists the keys, `contivctl models` the models", word))
}

func keysOfValues(values []client.Value) (keys []string) {
	for _, v := range values {
		keys = append(keys, v.Key)
	}
	return keys
}
