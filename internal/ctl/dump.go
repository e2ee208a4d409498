package ctl

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

const dump = "/scheduler/dump"

// views lists the views by their REST names.
var views = []string{"SB", "NB", "cached"}

func (c *cli) dumpCommand() *cobra.Command {
	var view, descriptor string
	cmd := &cobra.Command{
		Use:   "dump [KEY]",
		Short: "Print values: actual, desired or cached",
		Long: "Print values with their content. --view selects the actual values, read from the vswitch now (SB,\n" +
			"the default), the desired values (NB), or the scheduler's cache (cached). KEY is a prefix of keys, or\n" +
			"any part of the key of a known value.\n\n" +
			"Without arguments, list the descriptors and key prefixes.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			query := url.Values{}
			if view != "" {
				i := slices.IndexFunc(views, func(v string) bool { return strings.EqualFold(v, view) })
				if i < 0 {
					return text.Hinted(fmt.Errorf("--view %q is not known", view), view, views)
				}
				query.Set("view", views[i])
			}
			if descriptor != "" {
				query.Set("descriptor", descriptor)
			}
			if len(args) == 1 {
				query.Set("key-prefix", args[0])
			}
			if len(query) == 0 {
				return show(c, target.GetAll[inspect.DumpIndex](ctx, agents, dump, nil), writeIndex)
			}
			return c.showDump(ctx, agents, query)
		},
	}
	cmd.Flags().StringVar(&view, "view", "", "SB, NB or cached (default SB)")
	cmd.Flags().StringVar(&descriptor, "descriptor", "", "print only values of this descriptor")
	return listing(cmd)
}

func (c *cli) showDump(ctx context.Context, agents []*Agent, query url.Values) error {
	answers := target.GetAll[record.Dump](ctx, agents, dump, query)
	descriptor, prefix := query.Get("descriptor"), query.Get("key-prefix")
	for i, a := range answers {
		if descriptor != "" && target.IsNotFound(a.Err) {
			answers[i].Err = hintDescriptor(ctx, a.Agent, a.Err, descriptor)
		}
	}
	if prefix == "" || anyValue(answers) || anyError(answers) {
		return show(c, answers, writeDump)
	}
	keys := presentKeys(ctx, agents)
	found := matching(keys, prefix)
	if len(found) == 0 {
		pod, _, err := podNamed(ctx, agents, "", prefix)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(slices.Clone(pod.Keys), func(key string) bool { return !slices.Contains(keys, key) })
	}
	if len(found) == 0 {
		return hintPrefix(prefix)
	}
	first, last := found[0], found[len(found)-1]
	query.Set("key-prefix", first[:common(first, last)]) // they are sorted
	answers = target.GetAll[record.Dump](ctx, agents, dump, query)
	for i := range answers {
		answers[i].Value = slices.DeleteFunc(answers[i].Value, func(v kvscheduler.DumpedValue) bool { return !slices.Contains(found, v.Key) })
	}
	return show(c, answers, writeDump)
}

// hintDescriptor adds the most similar descriptor to the error about an unknown one.
func hintDescriptor(ctx context.Context, a *Agent, err error, descriptor string) error {
	var index inspect.DumpIndex
	if a.Get(ctx, dump, nil, &index) != nil {
		return err
	}
	return text.Hinted(err, descriptor, index.Descriptors)
}

// hintPrefix explains why no value has the key prefix.
func hintPrefix(prefix string) error {
	err := fmt.Errorf("no key begins with %q", prefix)
	var known []string
	for _, m := range models.All() {
		if strings.HasPrefix(prefix, m.KeyPrefix()) || strings.HasPrefix(m.KeyPrefix(), prefix) {
			return Misused(err) // valid prefix without values
		}
		known = append(known, m.KeyPrefix())
	}
	return text.Hinted(err, prefix, known)
}

func writeIndex(p printer, good []answer[inspect.DumpIndex]) {
	for _, a := range good {
		p.Printf("%s:\n", a.Agent.Name)
		p.Printf("  descriptors:\n")
		for _, d := range a.Value.Descriptors {
			p.Printf("    %s\n", d)
		}
		p.Printf("  key prefixes:\n")
		for _, prefix := range a.Value.KeyPrefixes {
			p.Printf("    %s\n", prefix)
		}
	}
}

// writeDump prints a line per value and its content below.
func writeDump(p printer, good []answer[record.Dump]) {
	for i, a := range good {
		if i > 0 {
			p.Printf("\n")
		}
		p.Printf("%s: %s\n", a.Agent.Name, count(len(a.Value), "value"))
		t := p.Table("STATE", "FROM", "DESCRIPTOR", "KEY")
		contents := fieldsTexts(len(a.Value), "  ", func(i int) proto.Message { return a.Value[i].Value })
		for i, v := range a.Value {
			t.Add(v.State.String(), v.Origin.String(), v.Descriptor, v.Key)
			if contents[i] != "" {
				t.Add(" ", " ", " ", contents[i])
			}
			if metadata := metadataText(v.Metadata); metadata != "" {
				t.Add(" ", " ", " ", "  metadata:  "+metadata)
			}
		}
		if len(a.Value) > 0 {
			t.Print()
		}
	}
}

// content returns the JSON of a value; equal values have equal JSON.
func content(m proto.Message) string {
	if m == nil {
		return "no value"
	}
	return record.Compact(m)
}

// count formats a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// common returns the length of the common prefix of two texts.
func common(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
