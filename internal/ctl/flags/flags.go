// Package flags determines which commands honour contivctl's shared flags. The root defines them,
// so every command parses them, but a command that does not use a flag must refuse it: an uninstall
// that ignores --context would remove Contiv from another cluster.
package flags

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// naming lists the shared flags that select agents and how to reach them.
var naming = []string{"config", "agent", "etcd-endpoints", "etcd-config", "kubeconfig", "context", "tls-ca-file", "tls-cert-file", "tls-key-file"}

// uses lists the shared flags honoured by commands, by path below the root. Other commands honour
// all.
var uses = map[string][]string{
	"version":       {"output"},
	"models":        {"output", "full"},
	"config schema": {"output"},
	"check-config":  {},
	"vppcli":        slices.Concat(naming, []string{"node", "timeout", "from"}), // openReport refuses --from
	"report":        slices.Concat(naming, []string{"node", "timeout", "from"}),
}

// usesAnnotation is the key of the annotation that lists the shared flags honoured by a command. A
// command without it honours none.
const usesAnnotation = "uses"

// Annotate annotates a command and its subcommands. Commands added later honour no shared flags.
func Annotate(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		Annotate(sub)
	}
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	used, listed := uses[path]
	if !listed {
		used = append(slices.Clone(naming), "node", "from", "timeout", "full", "output")
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[usesAnnotation] = strings.Join(used, ",")
}

// Honoured reports whether a command honours a shared flag.
func Honoured(cmd *cobra.Command, flag string) bool {
	return slices.Contains(strings.Split(cmd.Annotations[usesAnnotation], ","), flag)
}

// Check returns an error for flags without effect: shared flags that a command does not honour, and
// flags made meaningless by others. A command's flag with the name of a shared one takes the value
// given before the command.
func Check(cmd *cobra.Command) error {
	if err := checkHonoured(cmd); err != nil {
		return text.Mistake(err)
	}
	return text.Mistake(checkNaming(cmd))
}

func checkHonoured(cmd *cobra.Command) (err error) {
	cmd.Root().PersistentFlags().VisitAll(func(shared *pflag.Flag) {
		if err != nil || !shared.Changed || Honoured(cmd, shared.Name) {
			return
		}
		own := cmd.Flag(shared.Name)
		switch {
		case own == nil || own == shared:
			err = fmt.Errorf("%s does not use --%s: drop it", cmd.CommandPath(), shared.Name)
		case own.Changed && own.Value.String() != shared.Value.String():
			err = fmt.Errorf("--%s is set twice, before and after %q: drop one of them", shared.Name, cmd.Name())
		case !own.Changed:
			err = cmd.Flags().Set(own.Name, shared.Value.String())
		}
	})
	if timeout := cmd.Flag("timeout"); err == nil && timeout != nil {
		if d, parseErr := time.ParseDuration(timeout.Value.String()); parseErr == nil && d <= 0 {
			err = fmt.Errorf("--timeout %v: use a duration above 0, such as 10s", d)
		}
	}
	return err
}

// checkNaming refuses flags that select agents if another flag already does.
func checkNaming(cmd *cobra.Command) error {
	given := func(names ...string) (found string) {
		i := slices.IndexFunc(names, func(name string) bool { return Honoured(cmd, name) && cmd.Root().PersistentFlags().Changed(name) })
		if i >= 0 {
			found = names[i]
		}
		return found
	}
	if other := given(naming...); other != "" && given("from") != "" {
		return fmt.Errorf("--from selects the agents of the report: drop --%s", other)
	}
	others := []string{"config", "agent", "etcd-endpoints"}
	if via := cmd.Flag("via"); via == nil || via.Value.String() != "etcd" { // over etcd, these flags give the connection for writing
		others = append(others, "etcd-config", "tls-ca-file", "tls-cert-file", "tls-key-file")
	}
	if other := given(others...); other != "" && given("kubeconfig", "context") != "" {
		return fmt.Errorf("--kubeconfig and --context select the agents: drop --%s", other)
	}
	return nil
}

// ShowOnlyHonoured hides the shared flags that a command does not honour from its help and manual
// page, until it is called for another command.
func ShowOnlyHonoured(cmd *cobra.Command) {
	if cmd.HasParent() {
		cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !Honoured(cmd, f.Name) })
	}
}
