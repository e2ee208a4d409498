package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/spf13/cobra"
)

const graphSnapshot = "/scheduler/graph-snapshot"

func (c *cli) graphCommand() *cobra.Command {
	var file, at, namespace string
	cmd := &cobra.Command{
		Use:   "graph [KEY|OBJECT]",
		Short: "Draw the values of a node and their dependencies",
		Long: "Draw the values of a node, with solid lines to dependencies and dashed lines to derived values. With\n" +
			"KEY, a part of keys, draw only the matching values and their dependencies. With --at, draw the values\n" +
			"of a past moment; values changed by that transaction have a golden border.\n\n" +
			objectHelp + "\n\n" +
			"-o dot prints the language of Graphviz. -o svg uses the program dot of Graphviz, or draws plain\n" +
			"columns if dot is not installed.\n\n" +
			momentHelp,
		Example: "  graph --node node1 | dot -Tpng > node1.png\n  graph --node node1 vxlanBVI -o svg --file bvi.svg",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			m, err := parseMoment("--at", at, c.now())
			if err != nil {
				return err
			}
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			var t object
			if len(args) == 1 {
				if t, _, err = c.object(ctx, agents, namespace, args[0]); err != nil {
					return err
				}
			}
			if t.name != "" {
				a, err := t.oneAgent(ctx)
				if err != nil {
					return err
				}
				agents = []*Agent{a}
			}
			if len(agents) > 1 {
				return Misused(fmt.Errorf("a graph shows one node: select it with --node: %s", strings.Join(target.Names(agents), ", ")))
			}
			word := ""
			if len(args) == 1 {
				word = args[0]
			}
			values, err := c.graphed(ctx, agents[0], m, t, word)
			var unreachable *target.UnreachableError
			switch {
			case errors.As(err, &unreachable):
				c.report(agents[0], err)
				return ErrReported
			case err != nil:
				return err
			}
			c.noteStart(ctx, agents[0], m)
			drawing, err := c.draw(ctx, values, m)
			if err != nil {
				return err
			}
			if file != "" {
				return os.WriteFile(file, drawing, 0o666)
			}
			_, err = c.out.Write(drawing)
			return err
		},
	}
	namespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&file, "file", "", "file to write to (default: standard output)")
	cmd.Flags().StringVar(&at, "at", "", "moment to draw (default: now)")
	return withFormats(cmd, asDOT, asSVG, asJSON, asYAML, asJSONPath)
}

// graphed returns the values at a moment: an object's, or those that a word selects, with their
// dependencies; all without a word.
func (c *cli) graphed(ctx context.Context, a *Agent, m moment, t object, word string) ([]*kvscheduler.ValueSnapshot, error) {
	query := url.Values{}
	if c.format == asDOT || c.format == asSVG { // drawings do not show values
		query.Set("outline", "true")
	}
	if word == "" {
		return snapshot(ctx, a, m, query)
	}
	var keys []string
	var err error
	if t.name != "" {
		if keys, err = t.requestedKeys(ctx, a); err != nil {
			return nil, err
		}
	} else if m == (moment{}) {
		present, err := keysAt(ctx, a)
		if err != nil {
			return nil, err
		}
		if keys = matching(present, word); len(keys) == 0 {
			return nil, hintedKey(word, present)
		}
	}
	if len(keys) <= maxNamedKeys {
		query["key"] = keys
	}
	values, err := snapshot(ctx, a, m, query)
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]*kvscheduler.ValueSnapshot)
	var known []string
	for _, v := range values {
		byKey[v.Key] = v
		known = append(known, v.Key)
	}
	if keys == nil {
		if keys = matching(known, word); len(keys) == 0 {
			return nil, hintedKey(word, known)
		}
	}
	return inspect.Neighbourhood(func(key string) *kvscheduler.ValueSnapshot { return byKey[key] }, keys), nil
}

// snapshot returns the values at a moment. Only agents that support the query answer it.
func snapshot(ctx context.Context, a *Agent, m moment, query url.Values) (values []*kvscheduler.ValueSnapshot, err error) {
	t, err := m.at(ctx, a)
	if err != nil {
		return nil, err
	}
	setTime(query, "time", t)
	if beforeStart(ctx, a, t) {
		if values, err = valuesAt(ctx, a, history.ValuesURL, query); err == nil || !unkept(err) && !target.IsNotFound(err) {
			return values, err
		}
	}
	if values, err = valuesAt(ctx, a, graphSnapshot, query); isRefused(err) { // by an older agent
		query.Del("outline")
		query.Del("key")
		values, err = valuesAt(ctx, a, graphSnapshot, query)
	}
	return values, err
}

func valuesAt(ctx context.Context, a *Agent, path string, query url.Values) ([]*kvscheduler.ValueSnapshot, error) {
	var values record.Values
	err := a.Get(ctx, path, query, &values)
	return values, err
}

// draw renders values in the output format.
func (c *cli) draw(ctx context.Context, values []*kvscheduler.ValueSnapshot, m moment) ([]byte, error) {
	var out bytes.Buffer
	if c.format != asDOT && c.format != asSVG {
		err := c.format.encode(&out, record.Values(values))
		return out.Bytes(), err
	}
	txn := kvscheduler.NoSeqNum
	if m.isTxn {
		txn = m.txn.number
	}
	if err := diagram.WriteDOT(&out, values, txn); err != nil {
		return nil, err
	}
	dot := c.printer().Text(out.String())
	if c.format == asDOT {
		return []byte(dot), nil
	}
	program, err := exec.LookPath("dot")
	if err != nil {
		out.Reset()
		err := diagram.WriteSVG(&out, values, txn)
		return []byte(c.printer().Text(out.String())), err
	}
	cmd := exec.CommandContext(ctx, program, "-Tsvg")
	cmd.Stdin = strings.NewReader(dot)
	svg, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(failed.Stderr))
	}
	return svg, err
}
