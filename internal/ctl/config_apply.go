package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/terminal"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// applying holds the options of commands that change values.
type applying struct {
	files                              files
	revert, prune, wait, async, dryRun bool
}

func (g *configuring) applyCommand() *cobra.Command {
	var o applying
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Apply the values in files in one transaction",
		Long: "Create or update the values in the files in one transaction. The agent retries failed values,\n" +
			"unless --revert is given. A value with a missing dependency is PENDING, which is not an error;\n" +
			"--wait waits for it, at most for --timeout.\n\n" +
			"The exit code is 1 if a value failed, or is UNIMPLEMENTED in the node's vswitch.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := o.files.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			if len(want.values) == 0 && !o.prune {
				return Misused(errors.New("the files have no values: use --prune to delete all values"))
			}
			ctx, cancel := g.limited(cmd)
			defer cancel()
			return g.apply(ctx, want, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP((*[]string)(&o.files), "file", "f", nil, "file with values, directory of such files, or - for standard input; repeatable")
	f.BoolVar(&o.revert, "revert", false, "undo the whole transaction if a value fails (not with --via etcd)")
	f.BoolVar(&o.prune, "prune", false, "delete the client's values that are not in the files; with --via etcd, all values of the node in etcd that are not in the files")
	f.BoolVar(&o.wait, "wait", false, "wait until all values are configured or have failed permanently")
	f.BoolVar(&o.async, "async", false, "with --via etcd: do not wait for the agent")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the operations that the node would execute, without executing them")
	return cmd
}

func (g *configuring) apply(ctx context.Context, want *parsed, o applying) error {
	if o.async && o.wait {
		return Misused(errors.New("--async and --wait exclude each other: drop one of them"))
	}
	c, before, err := g.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	txn := c.Txn().Put(want.messages()...)
	var removed []string
	if o.prune {
		txn.Replace()
		for _, v := range before {
			if _, stays := want.origin[v.Key]; !stays {
				removed = append(removed, v.Key)
			}
		}
	}
	if o.dryRun {
		return g.plan(ctx, want, removed)
	}
	if err := g.refuseInvalid(ctx, want); err != nil {
		return err
	}
	return g.commit(ctx, c, txn, o, done(before, want, removed))
}

// plan shows the operations that the scheduler would execute.
func (g *configuring) plan(ctx context.Context, want *parsed, removed []string) error {
	agent, err := g.node(ctx)
	if err != nil {
		return err
	}
	return g.showPlan(ctx, agent, planFor(want, removed))
}

// refusedError reports values that no node can configure.
type refusedError struct{ mistakes error }

func (e *refusedError) Error() string { return "nothing is stored: " + e.mistakes.Error() }

// refuseInvalid asks the node to validate the values, so that no invalid one is stored. If the node
// cannot be asked, the values' states show the errors later.
func (g *configuring) refuseInvalid(ctx context.Context, want *parsed) error {
	if g.address != "" || len(want.values) == 0 { // --grpc may name another agent
		return nil
	}
	agents, err := g.targets.Selected(ctx, nil)
	if err != nil || len(agents) != 1 {
		return nil
	}
	var reply inspect.PlanReply
	if agents[0].Post(ctx, planPath, nil, planFor(want, nil), &reply) != nil {
		return nil
	}
	var mistakes []error
	for _, op := range reply.Planned {
		if place, ours := want.origin[op.Key]; ours && op.NewState == pb.ValueState_INVALID && op.NewErr != nil {
			mistakes = append(mistakes, fmt.Errorf("%s, %s: %w", place, op.Key, op.NewErr))
		}
	}
	if len(mistakes) > 0 {
		return &refusedError{errors.Join(mistakes...)}
	}
	return nil
}

// Applied is an element of the output of commands that change values, in JSON and YAML.
type Applied struct {
	Key string `json:"key"`
	// Change to the requested values: "created", "changed", "unchanged" or "removed".
	Change string `json:"change"`
	// State of the value afterwards, and its reason; empty if the agent was not asked.
	State       string `json:"state,omitempty"`
	Explanation string `json:"explanation,omitempty"`
}

// done reports the change of each value, in file order.
func done(before []client.Value, want *parsed, removed []string) (list []Applied) {
	old := make(map[string]proto.Message)
	for _, v := range before {
		old[v.Key] = v.Message
	}
	for _, v := range want.values {
		a := Applied{Key: v.Key, Change: "created"}
		if was, ok := old[v.Key]; ok && proto.Equal(was, v.Message) {
			a.Change = "unchanged"
		} else if ok {
			a.Change = "changed"
		}
		list = append(list, a)
	}
	for _, key := range removed {
		list = append(list, Applied{Key: key, Change: "removed"})
	}
	return list
}

// commit executes the transaction and shows its result.
func (g *configuring) commit(ctx context.Context, c *client.Client, txn *client.Txn, o applying, list []Applied) error {
	if o.revert {
		txn.Revert()
	}
	if o.async {
		txn.Async()
	}
	end := target.Waiting(ctx, "the transaction")
	result, failure := txn.Commit(ctx)
	end()
	if result == nil {
		return failure
	}
	for _, warning := range result.Warnings {
		g.warn(errors.New("warning: " + warning))
	}
	if errors.Is(failure, client.ErrUnanswered) {
		return failure
	}
	if o.wait && failure == nil {
		end := target.Waiting(ctx, "the values to be settled")
		_, failure = c.Wait(ctx, result.Keys...)
		end()
	}
	if !o.async {
		// The states are shown even after a timeout.
		told, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.targets.Timeout)
		defer cancel()
		failure = errors.Join(failure, addStates(told, c, list, o.wait && failure == nil))
	}
	if err := g.showApplied(list); err != nil {
		return err
	}
	return failure
}

// addStates adds the states to the list. It returns an error for permanent failures: if all values
// are settled, the failed ones; otherwise the unsupported ones.
func addStates(ctx context.Context, c *client.Client, list []Applied, settled bool) error {
	var keys []string
	for _, a := range list {
		keys = append(keys, a.Key)
	}
	if len(keys) == 0 {
		return nil
	}
	statuses, err := c.Status(ctx, keys...)
	if err != nil {
		return err
	}
	failed := 0
	for _, s := range statuses {
		i := slices.IndexFunc(list, func(a Applied) bool { return a.Key == s.GetValue().GetKey() })
		list[i].State = s.GetValue().GetState().String()
		list[i].Explanation = client.Explain(s)
		if list[i].Change != "removed" && client.Failed(s) && (settled || s.GetValue().GetState() == pb.ValueState_UNIMPLEMENTED) {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s not configured", count(failed, "value"))
	}
	return nil
}

func (g *configuring) showApplied(list []Applied) error {
	if g.format != asTable {
		return g.format.encode(g.out, append([]Applied{}, list...))
	}
	t := g.printer().Table("CHANGE", "KEY", "STATE")
	for _, a := range list {
		if a.Change == "removed" && strings.HasPrefix(a.Explanation, "NONEXISTENT") {
			a.Explanation = ""
		}
		t.Add(a.Change, a.Key, a.Explanation)
	}
	t.Print()
	return nil
}

func (g *configuring) deleteCommand() *cobra.Command {
	var o applying
	var prefix, yes bool
	cmd := &cobra.Command{
		Use:   "delete KEY... | --prefix PREFIX... | -f FILE|DIR|-",
		Short: "Delete values in one transaction",
		Long: "Delete values of the client, given by key or by file. With --prefix, show all values with keys that\n" +
			"begin with KEY, and ask before deleting them. Values of other clients remain, even with the same keys.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (len(o.files) == 0) {
				return Misused(errors.New("select the values to delete with KEY or -f FILE"))
			}
			ctx, cancel := g.limited(cmd)
			defer cancel()
			c, before, err := g.own(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if yes && !prefix {
				return Misused(errors.New("--yes requires --prefix: other deletions need no confirmation"))
			}
			var keys []string
			if prefix {
				keys, err = g.withPrefixes(cmd, args, before, yes)
			} else {
				keys, err = g.toDelete(cmd, args, o.files, before)
			}
			if err != nil {
				return err
			}
			return g.commit(ctx, c, c.Txn().DeleteKeys(keys...), o, done(nil, &parsed{}, keys))
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP((*[]string)(&o.files), "file", "f", nil, "file with the values, directory of such files, or - for standard input; repeatable")
	f.BoolVar(&prefix, "prefix", false, "delete all values with keys that begin with KEY")
	f.BoolVar(&yes, "yes", false, "with --prefix: do not ask for confirmation")
	f.BoolVar(&o.revert, "revert", false, "undo the whole transaction if a value fails (not with --via etcd)")
	f.BoolVar(&o.async, "async", false, "with --via etcd: do not wait for the agent")
	return cmd
}

// withPrefixes returns the keys with one of the prefixes, after the user's consent.
func (g *configuring) withPrefixes(cmd *cobra.Command, prefixes []string, before []client.Value, yes bool) ([]string, error) {
	if len(prefixes) == 0 {
		return nil, Misused(errors.New("--prefix requires a prefix of the keys to delete"))
	}
	var keys []string
	for _, prefix := range prefixes {
		prefix = nodePrefix.ReplaceAllString(prefix, "")
		found := len(keys)
		for _, key := range keysOfValues(before) {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		if len(keys) == found {
			return nil, Misused(fmt.Errorf("no key begins with %q: `%s config get --own` shows the client's values", prefix, g.name))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if yes {
		return keys, nil
	}
	for _, key := range keys {
		fmt.Fprintln(g.errOut, key)
	}
	if !terminal.Confirmed(cmd.InOrStdin(), g.errOut, "Delete "+count(len(keys), "value")+"?") {
		return nil, errors.New("nothing was deleted: answer y, or use --yes")
	}
	return keys, nil
}

// toDelete returns the client's keys selected by the arguments.
func (g *configuring) toDelete(cmd *cobra.Command, words []string, f files, before []client.Value) ([]string, error) {
	known := keysOfValues(before)
	if len(words) > 0 {
		var keys []string
		for _, word := range words {
			key, err := g.ownKey(nodePrefix.ReplaceAllString(word, ""), known)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return slices.Compact(keys), nil
	}
	want, err := f.read(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, key := range want.keys() {
		if !slices.Contains(known, key) {
			fmt.Fprintf(g.errOut, "%s: %s is not there already\n", g.name, key)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ownKey returns the key of a value of the client.
func (g *configuring) ownKey(word string, known []string) (string, error) {
	if models.CheckKey(word) == nil && strings.Contains(g.undecodable, word) {
		return word, nil
	}
	if slices.Contains(known, word) {
		return word, nil
	}
	if found := matching(known, word); len(found) > 0 {
		return "", Misused(fmt.Errorf("%q is not a complete key: did you mean %s? To delete all keys with this prefix, use --prefix", word, strings.Join(found[:min(len(found), 3)], " or ")))
	}
	whose := fmt.Sprintf("client %q (--client) has", g.client)
	if g.via == "etcd" {
		whose = "etcd has"
	}
	return "", Misused(fmt.Errorf("%s no value with %q in its key: `%s explain KEY` shows the sources of a value, `%s config get --own` the client's values",
		whose, word, g.name, g.name))
}

// tolerate prints errors about undecodable values in etcd, and returns all others.
func (g *configuring) tolerate(err error) error {
	if bad, ok := errors.AsType[*client.UndecodableError](err); ok {
		g.warn(bad)
		g.undecodable = bad.Error()
		return nil
	}
	return err
}

// warn prints a problem that does not stop the command.
func (g *configuring) warn(err error) { fmt.Fprintf(g.errOut, "%s: %v\n", g.name, err) }
