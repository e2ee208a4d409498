package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/lib/parallel"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/manifest"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// ConfigValue is an element of the output of "config get" in JSON.
type ConfigValue struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

func (g *configuring) getCommand() *cobra.Command {
	var all, own, secrets bool
	var namespace string
	cmd := &cobra.Command{
		Use:   "get [KEY|MODEL|OBJECT]...",
		Short: "Print the client's values (-o yaml for apply)",
		Long: "Print the values requested by external sources (gRPC clients, etcd, files), merged. With --own, print\n" +
			"only the client's values; with --all, also values of Contiv itself. With --via etcd, print the values\n" +
			"in etcd. KEY is a key or part of a key, MODEL a name from \"contivctl models\". The output of -o yaml\n" +
			"can be edited and applied.\n\n" +
			"The values of an OBJECT come from Contiv itself and need --all. " + objectHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := g.limited(cmd)
			defer cancel()
			if all && own {
				return Misused(errors.New("--all and --own exclude each other: drop one of them"))
			}
			words, agent, err := g.keysOfObjects(ctx, namespace, args, all)
			if err != nil {
				return err
			}
			values, err := g.wanted(ctx, agent, words, all, own)
			if err := g.tolerate(err); err != nil {
				return err
			}
			if values, err = meantBy(words, values); err != nil {
				return err
			}
			return g.showConfig(values, secrets)
		},
	}
	namespaceFlag(cmd, &namespace)
	cmd.Flags().BoolVar(&secrets, "show-secrets", false, "include private keys and passwords, so that the output can be applied elsewhere")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "print all requested values of the node, including values of Contiv itself")
	cmd.Flags().BoolVar(&own, "own", false, "print only the values of --client")
	return listing(cmd)
}

// keysOfObjects replaces object names by the keys of the objects' values. It returns the agent with
// these values, nil if no word names an object.
func (g *configuring) keysOfObjects(ctx context.Context, namespace string, words []string, all bool) (keys []string, one *Agent, err error) {
	if g.via == "etcd" && namespace != "" {
		return nil, nil, Misused(fmt.Errorf("--via etcd accepts keys only: drop -n %s, or --via etcd", namespace))
	}
	if len(words) == 0 || g.via == "etcd" {
		return words, nil, nil
	}
	agents, err := g.targets.Selected(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, word := range words {
		t, found, err := g.object(ctx, agents, namespace, word)
		if err != nil {
			return nil, nil, err
		}
		if !found {
			keys = append(keys, word)
			continue
		}
		if !all {
			return nil, nil, Misused(fmt.Errorf("the values of %s come from Contiv itself: add --all", t.name))
		}
		a, err := t.oneAgent(ctx)
		if err != nil {
			return nil, nil, err
		}
		if one != nil && one != a {
			return nil, nil, Misused(fmt.Errorf("%s and %s are on different nodes: use one of them", word, words[0]))
		}
		own, err := t.requestedKeys(ctx, a)
		if err != nil {
			return nil, nil, err
		}
		keys, one = append(keys, own...), a
	}
	return keys, one, nil
}

// wanted returns values, sorted by key, including at least those selected by the words; with all,
// also the agent's, if it is not nil. The values are valid even with an error.
func (g *configuring) wanted(ctx context.Context, agent *Agent, words []string, all, own bool) ([]client.Value, error) {
	if all {
		if g.via == "etcd" {
			return nil, Misused(errors.New("etcd does not contain values of Contiv itself: drop --via etcd or --all"))
		}
		return g.requested(ctx, agent, words)
	}
	c, err := g.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if own || g.via == "etcd" {
		return c.Get(ctx)
	}
	return c.GetMerged(ctx)
}

// requested returns the values requested from the scheduler, including at least those selected by
// the words.
func (g *configuring) requested(ctx context.Context, agent *Agent, words []string) (values []client.Value, err error) {
	if agent == nil {
		if agent, err = g.node(ctx); err != nil {
			return nil, err
		}
	}
	var dumped record.Dump
	for _, key := range requestedBy(ctx, agent, words) {
		var some record.Dump
		if err := agent.Get(ctx, dump, url.Values{"view": {"NB"}, "key-prefix": {key}}, &some); err != nil {
			return nil, err
		}
		dumped = append(dumped, some...)
	}
	if dumped == nil {
		if err := agent.Get(ctx, dump, url.Values{"view": {"NB"}}, &dumped); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(dumped, func(a, b record.Dumped) int { return strings.Compare(a.Key, b.Key) })
	dumped = slices.CompactFunc(dumped, func(a, b record.Dumped) bool { return a.Key == b.Key })
	for _, v := range dumped {
		if _, ok := models.ForKey(v.Key); ok && v.Value != nil {
			values = append(values, client.Value{Key: v.Key, Message: v.Value})
		}
	}
	return values, nil
}

// requestedBy returns the keys of the values selected by the words. It returns none if a word is a
// model or selects nothing, or if the words select too many.
func requestedBy(ctx context.Context, agent *Agent, words []string) (found []string) {
	prefixes, parts := selectors(words)
	if len(prefixes) > 0 || len(parts) == 0 {
		return nil
	}
	present, err := keysAt(ctx, agent)
	if err != nil {
		return nil
	}
	present = slices.DeleteFunc(present, func(key string) bool { _, requested := models.ForKey(key); return !requested })
	for _, part := range parts {
		meant := matching(present, part)
		if found = append(found, meant...); len(meant) == 0 || len(found) > maxNamedKeys {
			return nil
		}
	}
	return found
}

// showConfig shows values, without secrets unless the user asks for them.
func (g *configuring) showConfig(values []client.Value, secrets bool) error {
	if !secrets {
		values = slices.Clone(values)
		for i := range values {
			values[i].Message = record.Redact(values[i].Message)
		}
	}
	switch g.format {
	case asName:
		g.writeNames(keysOfValues(values))
		return nil
	case asYAML:
		text, err := formatManifest(values)
		if err != nil {
			return err
		}
		_, err = g.out.Write(text)
		return err
	case asTable:
		t := g.printer().Table("KEY")
		contents := fieldsTexts(len(values), "  ", func(i int) proto.Message { return values[i].Message })
		for i, v := range values {
			t.Add(v.Key)
			t.Add(contents[i])
		}
		t.Print()
		return nil
	default:
		list := make([]ConfigValue, 0, len(values))
		for _, v := range values {
			data, err := marshal(v.Message)
			if err != nil {
				return err
			}
			list = append(list, ConfigValue{v.Key, json.RawMessage(data)})
		}
		return g.format.encode(g.out, list)
	}
}

func formatManifest(values []client.Value) ([]byte, error) {
	type part struct {
		text []byte
		err  error
	}
	parts := parallel.Collect(len(values), func(begin, end int) (p part) {
		for _, v := range values[begin:end] {
			value, err := marshal(v.Message)
			if err == nil {
				p.text, err = manifest.Append(p.text, v.Key, value)
			}
			if err != nil {
				return part{err: fmt.Errorf("value of %s: %w", v.Key, err)}
			}
		}
		return p
	})
	texts := make([][]byte, len(parts))
	for i, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
		texts[i] = p.text
	}
	return bytes.Join(texts, []byte("---\n")), nil
}

// marshal returns the JSON of a value, with secrets unless the agent has removed them.
func marshal(v proto.Message) (string, error) {
	raw, ok := v.(*record.RawValue)
	switch {
	case !ok:
		text, err := models.Marshal(v)
		return string(text), err
	case !raw.IsJSON():
		return "", errors.New(raw.JSON)
	}
	return raw.JSON, nil
}
