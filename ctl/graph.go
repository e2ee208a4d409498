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

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/spf13/cobra"
)

const graphSnapshot = "/scheduler/graph-snapshot"

func (c *cli) graphCommand() *cobra.Command {
	var file, at, namespace string
	cmd := &cobra.Command{
		Use:   "graph [KEY|THING]",
		Short: "The values of a node and what they need, as a drawing",
		Long: "Draws the values of a node, with solid lines to what they need and dashed ones to what is\n" +
			"derived from them. With KEY, which may be a part of keys, only those values are drawn, and what\n" +
			"they need. With --at, as they were then; the changes of a transaction have a golden border.\n\n" +
			thingHelp + "\n\n" +
			"-o dot is the language of Graphviz; -o svg is drawn by its program dot, or in plain\n" +
			"columns if that is not installed here.\n" +
			"A moment is " + momentForms + ".",
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
			var t thing
			if len(args) == 1 {
				if t, _, err = thingNamed(ctx, agents, namespace, args[0]); err != nil {
					return err
				}
			}
			if t.name != "" {
				a, err := t.oneAgent()
				if err != nil {
					return err
				}
				agents = []*Agent{a}
			}
			if len(agents) > 1 {
				return fmt.Errorf("one drawing shows one node: name it with --node, one of %s", strings.Join(target.Names(agents), ", "))
			}
			values, err := snapshot(ctx, agents[0], m)
			if err != nil {
				c.report(agents[0], err)
				return ErrReported
			}
			c.noteStart(ctx, agents[0], m)
			if len(args) == 1 {
				if values, err = drawn(ctx, agents[0], values, t, args[0]); err != nil {
					return err
				}
			}
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
	cmd.Flags().StringVar(&file, "file", "", "write to this file instead of the standard output")
	cmd.Flags().StringVar(&at, "at", "", "draw the values of this moment")
	return withFormats(cmd, asDOT, asSVG, asJSON, asYAML)
}

func snapshot(ctx context.Context, a *Agent, m moment) (values []*kvscheduler.ValueSnapshot, err error) {
	t, err := m.at(ctx, a)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	setTime(query, "time", t)
	if beforeStart(ctx, a, t) {
		if err := a.Get(ctx, history.ValuesURL, query, &values); err == nil || !unkept(err) && !target.IsNotFound(err) {
			return values, err
		}
		values = nil
	}
	err = a.Get(ctx, graphSnapshot, query, &values)
	return values, err
}

// drawn returns the values of a thing, or of a word if it names no thing, and the values that they need.
func drawn(ctx context.Context, a *Agent, values []*kvscheduler.ValueSnapshot, t thing, word string) ([]*kvscheduler.ValueSnapshot, error) {
	var keys []string
	for _, v := range values {
		keys = append(keys, v.Key)
	}
	if t.name == "" {
		found := matching(keys, word)
		if len(found) == 0 {
			return nil, hintedKey(word, keys)
		}
		return neighbourhood(values, found), nil
	}
	own, err := t.requestedKeys(ctx, a)
	if err != nil {
		return nil, err
	}
	return neighbourhood(values, own), nil
}

// neighbourhood returns values, the values derived from them and those that they need, transitively.
func neighbourhood(values []*kvscheduler.ValueSnapshot, next []string) []*kvscheduler.ValueSnapshot {
	byKey := make(map[string]*kvscheduler.ValueSnapshot)
	for _, v := range values {
		byKey[v.Key] = v
	}
	chosen := make(map[string]bool)
	for len(next) > 0 {
		key := next[len(next)-1]
		next = next[:len(next)-1]
		v := byKey[key]
		if v == nil || chosen[key] {
			continue
		}
		chosen[key] = true
		next = append(next, v.Derived...)
		if v.Base != "" {
			next = append(next, v.Base)
		}
		for _, need := range v.Needs {
			next = append(next, need.Target)
		}
		for _, one := range v.Matching {
			next = append(next, one.Target)
		}
	}
	var out []*kvscheduler.ValueSnapshot
	for _, v := range values {
		if chosen[v.Key] {
			out = append(out, v)
		}
	}
	return out
}

// draw renders values in the format of the output.
func (c *cli) draw(ctx context.Context, values []*kvscheduler.ValueSnapshot, m moment) ([]byte, error) {
	var out bytes.Buffer
	switch c.format {
	case asJSON, asYAML:
		err := c.format.encode(&out, values)
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
