package ctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// ConfigChange is an element of the output of "config diff" in JSON and YAML.
type ConfigChange struct {
	Key string `json:"key"`
	// What is "new", "changed" or "removed".
	What string `json:"what"`
	// Fields that differ: "mtu: 1450 → 9000".
	Fields []string `json:"fields,omitempty"`

	old, new proto.Message
}

func (g *configuring) diffOfFilesCommand() *cobra.Command {
	var from files
	var prune, unified bool
	cmd := &cobra.Command{
		Use:   "diff -f FILE|DIR|-",
		Short: "Show how files differ from the client's values",
		Long: "Compare the values in files with the client's values on the node, field by field, or line by line\n" +
			"with --unified. To see the node's operations, use \"contivctl config apply --dry-run\".\n\n" +
			"The exit code is 1 if the values differ, and 2 if they cannot be compared.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer func() {
				if err != nil && !errors.Is(err, ErrReported) {
					err = &exitError{err, 2}
				}
			}()
			want, err := from.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			ctx, cancel := g.limited(cmd)
			defer cancel()
			var compared []string
			if keys := want.keys(); !prune && len(keys) <= maxNamedKeys {
				compared = keys
			}
			c, before, err := g.own(ctx, compared...)
			if err != nil {
				return err
			}
			defer c.Close()
			return g.showDiff(differences(before, want, prune), unified)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP((*[]string)(&from), "file", "f", nil, "file with values, directory of such files, or - for standard input; repeatable")
	f.BoolVar(&prune, "prune", false, "treat values that are not in the files as deleted")
	f.BoolVarP(&unified, "unified", "u", false, "compare lines instead of fields")
	return cmd
}

// differences returns the changes, sorted by key.
func differences(before []client.Value, want *parsed, prune bool) (list []ConfigChange) {
	old := make(map[string]proto.Message)
	for _, v := range before {
		old[v.Key] = v.Message
	}
	for _, v := range want.values {
		was, ok := old[v.Key]
		switch {
		case !ok:
			list = append(list, ConfigChange{Key: v.Key, What: "new", new: v.Message})
		case !proto.Equal(was, v.Message):
			list = append(list, ConfigChange{Key: v.Key, What: "changed", Fields: changes(was, v.Message), old: was, new: v.Message})
		}
		delete(old, v.Key)
	}
	if prune {
		for key, was := range old {
			list = append(list, ConfigChange{Key: key, What: "removed", old: was})
		}
	}
	slices.SortFunc(list, func(a, b ConfigChange) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (g *configuring) showDiff(list []ConfigChange, unified bool) error {
	var err error
	switch {
	case g.format != asTable:
		err = g.format.encode(g.out, append([]ConfigChange{}, list...))
	case len(list) == 0:
		g.printer().Printf("no difference\n")
	case unified:
		err = g.writeUnified(list)
	default:
		t := g.printer().Table("WHAT", "KEY")
		for _, c := range list {
			t.Add(c.What, c.Key)
			if c.What == "new" {
				t.Add(" ", "  "+fieldsText(c.new))
			}
			for _, f := range c.Fields {
				t.Add(" ", "  "+f)
			}
		}
		t.Print()
	}
	if err == nil && len(list) > 0 {
		err = ErrReported
	}
	return err
}

func (g *configuring) writeUnified(list []ConfigChange) error {
	text := func(key string, m proto.Message) ([]byte, error) {
		if m == nil {
			return nil, nil
		}
		return formatManifest([]client.Value{{Key: key, Message: record.Redact(m)}})
	}
	for _, c := range list {
		before, err := text(c.Key, c.old)
		if err != nil {
			return err
		}
		after, err := text(c.Key, c.new)
		if err != nil {
			return err
		}
		// The first line of diff's output is the command line.
		_, lines, _ := strings.Cut(string(diff.Diff("node "+c.Key, before, "file "+c.Key, after)), "\n")
		if _, err := fmt.Fprint(g.out, lines); err != nil {
			return err
		}
	}
	return nil
}
