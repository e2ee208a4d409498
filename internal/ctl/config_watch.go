package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

func (g *configuring) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [KEY|MODEL]...",
		Short: "Show the states of values as they change",
		Long: "Show the states of values, then each change of a state, until interrupted. KEY is a key or, with a\n" +
			"final \"/\", a prefix of keys; MODEL is a name from \"contivctl models\". With --via etcd, only the\n" +
			"values in etcd are watched.",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, word := range args {
				if _, err := modelNamed(word); err != nil && !strings.Contains(word, "/") {
					return fmt.Errorf("keys have slashes, and %w", err)
				}
			}
			ctx := cmd.Context()
			c, err := g.dial(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			asking, cancel := g.limited(cmd)
			_, err = c.Get(asking)
			cancel()
			if err := g.tolerate(err); err != nil { // no agent answers
				return err
			}
			prefixes, keys := selectors(args)
			return g.follow(ctx, c, append(prefixes, keys...))
		},
	}
	return withFormats(cmd, asTable, asJSON)
}

// follow shows statuses until ctx ends. After a restart of the agent, it shows its values again.
func (g *configuring) follow(ctx context.Context, c *client.Client, selected []string) error {
	told := false
	for {
		var lost error
		for s, err := range c.WatchStatus(ctx, selected...) {
			if lost = err; err != nil {
				break
			}
			if told {
				fmt.Fprintf(g.errOut, "%s: it is back\n", g.name)
				told = false
			}
			if err := g.showStatus(s); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil // it was interrupted
		}
		if lost != nil && status.Code(lost) != codes.Unavailable {
			return lost
		}
		if !told {
			fmt.Fprintf(g.errOut, "%s: %v: waiting for it to return\n", g.name, cmp.Or(lost, errors.New("the agent ended the connection")))
			told = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(g.poll):
		}
	}
}

// showStatus prints a status on one line.
func (g *configuring) showStatus(s *client.Status) error {
	if g.format == asJSON {
		data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(g.out, "%s\n", data)
		return err
	}
	g.printer().Printf("%s  %s  %s\n", stamp(time.Now()), text.Line(s.GetValue().GetKey()), client.Explain(s))
	return nil
}

func (g *configuring) waitCommand() *cobra.Command {
	var from files
	cmd := &cobra.Command{
		Use:   "wait KEY... | -f FILE|DIR|-",
		Short: "Wait until values are configured or have failed",
		Long: "Wait until the values are configured or have failed, at most for --timeout, and show their states.\n" +
			"The exit code is 1 if a value is not configured.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (len(from) == 0) {
				return Misused(errors.New("select the values to wait for with KEY or -f FILE"))
			}
			var keys []string
			for _, key := range args {
				keys = append(keys, nodePrefix.ReplaceAllString(key, ""))
			}
			if len(from) > 0 {
				want, err := from.read(cmd.InOrStdin())
				if err != nil {
					return err
				}
				keys = want.keys()
			}
			ctx, cancel := g.limited(cmd)
			defer cancel()
			return g.waitFor(ctx, keys)
		},
	}
	cmd.Flags().StringArrayVarP((*[]string)(&from), "file", "f", nil, "file with the values, directory of such files, or - for standard input; repeatable")
	return cmd
}

func (g *configuring) waitFor(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := models.CheckKey(key); err != nil {
			return Misused(err)
		}
	}
	c, err := g.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	done := target.Waiting(ctx, "the values to be settled")
	statuses, err := c.Wait(ctx, keys...)
	done()
	if unsettled, ok := errors.AsType[*client.UnsettledError](err); ok && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not settled within %v", g.targets.Timeout)
		statuses = unsettled.Statuses
	} else if err != nil {
		return err
	}
	var list []ConfigStatus
	missing := 0
	for _, s := range statuses {
		text := client.Explain(s)
		if text != "CONFIGURED" {
			missing++
		}
		list = append(list, ConfigStatus{s.GetValue().GetKey(), s.GetValue().GetState().String(), text})
	}
	if showErr := g.showStatuses(list); showErr != nil {
		return showErr
	}
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d of %s not configured", missing, count(len(list), "value"))
	}
	return err
}

// ConfigStatus is an element of the output of "config wait" in JSON and YAML.
type ConfigStatus struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Explanation string `json:"explanation"`
}

func (g *configuring) showStatuses(list []ConfigStatus) error {
	if g.format != asTable {
		return g.format.encode(g.out, append([]ConfigStatus{}, list...))
	}
	t := g.printer().Table("KEY", "STATE")
	for _, s := range list {
		t.Add(s.Key, s.Explanation)
	}
	t.Print()
	return nil
}
