package ctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
)

// matching returns the keys that a word selects: the equal key, or else the keys that begin with
// it, end with it, or contain it, in this order. A "…", which tables show for the end of an
// identifier, matches that end.
func matching(keys []string, word string) []string {
	parts := strings.Split(word, "…")
	var candidates []string // of often thousands, a few
	for _, key := range keys {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(key, part) }) {
			candidates = append(candidates, key)
		}
	}
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	pattern := strings.Join(parts, "[0-9a-f]*")
	for _, level := range []string{"^" + pattern + "/?$", "^" + pattern, "/" + pattern + "/?$", pattern + "/?$", pattern} {
		// The quoted text is always a valid pattern.
		expression := regexp.MustCompile(level)
		var found []string
		for _, key := range candidates {
			if expression.MatchString(key) {
				found = append(found, key)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// meant returns the only key that a word selects, or the only requestable one among them: keys of
// derived values contain the same name.
func meant(p printer, keys []string, word string) (string, error) {
	found := matching(keys, word)
	var requested []string
	for _, key := range found {
		if _, ok := models.ForKey(key); ok {
			requested = append(requested, key)
		}
	}
	switch {
	case len(found) == 0:
		return "", hintedKey(word, keys)
	case len(found) == 1:
		return found[0], nil
	case len(requested) == 1:
		return requested[0], nil
	}
	const most = 8
	list, more := slices.Clone(found), ""
	if len(found) > most {
		list, more = list[:most], fmt.Sprintf("\n  and %d more", len(found)-most)
	}
	for i, key := range list {
		list[i] = p.Text(text.Line(key))
	}
	return "", Misused(fmt.Errorf("%q matches %d keys; use a longer part of the key:\n  %s%s",
		word, len(found), strings.Join(list, "\n  "), more))
}

// hintedKey returns the error for a word that no key contains. It suggests a key or, for a word
// without slashes, a part of a key.
func hintedKey(word string, keys []string) error {
	err := Misused(fmt.Errorf("no key contains %q", word))
	if nearest, ok := config.Nearest(word, keys); ok {
		return fmt.Errorf("%w: did you mean %q?", err, nearest)
	}
	parts := make(map[string]bool)
	for _, key := range keys {
		for part := range strings.SplitSeq(key, "/") {
			parts[part] = true
		}
	}
	if nearest, ok := config.Nearest(word, slices.Sorted(maps.Keys(parts))); ok && len(word) > 3 {
		return fmt.Errorf("%w: did you mean %q?", err, nearest)
	}
	return fmt.Errorf("%w: `contivctl values` lists the keys", err)
}

// unknown returns the error for a word that selects no present key; it may select an earlier one.
func (c *cli) unknown(ctx context.Context, agents []*Agent, word string, keys []string) error {
	if len(matching(pastKeys(ctx, agents), word)) > 0 {
		return Misused(fmt.Errorf("key %q was deleted: `%s timeline %s` shows its history", word, c.name, word))
	}
	pods := podNames(ctx, agents)
	for _, pod := range pods {
		_, name, _ := strings.Cut(pod, "/")
		pods = append(pods, name)
	}
	if pod, ok := config.Nearest(word, pods); ok {
		return withSilentAgents(ctx, agents, Misused(fmt.Errorf("no value or pod is named %q: did you mean %q?", word, pod)))
	}
	return withSilentAgents(ctx, agents, hintedKey(word, keys))
}

// presentKeys returns the keys of all values on the agents that answer, sorted.
func presentKeys(ctx context.Context, agents []*Agent) []string {
	var all []string
	for _, a := range target.Ask(ctx, agents, keysAt) {
		all = append(all, a.Value...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func keysAt(ctx context.Context, a *Agent) (keys []string, err error) {
	if err = a.Get(ctx, inspect.KeysURL, nil, &keys); !errors.Is(err, target.ErrNotServed) {
		return keys, err
	}
	var values record.Statuses // of an older agent
	err = a.Get(ctx, valueStatus, nil, &values)
	for _, s := range values {
		keys = append(keys, s.Keys()...)
	}
	return keys, err
}

// isRefused reports whether the agent does not know the request's subject.
func isRefused(err error) bool {
	var refused *target.StatusError
	return errors.As(err, &refused) && refused.Status == http.StatusBadRequest
}

// pastKeys returns the keys in the recorded transactions, sorted.
func pastKeys(ctx context.Context, agents []*Agent) []string {
	known := make(map[string]bool)
	for _, a := range target.GetAll[[]string](ctx, agents, history.KeysURL, nil) {
		for _, key := range a.Value {
			known[key] = true
		}
	}
	for _, a := range target.GetAll[[]*kvscheduler.RecordedTxn](ctx, agents, txnHistory, nil) {
		for _, txn := range a.Value {
			for _, op := range txn.Executed {
				known[op.Key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// byKey returns a function that asks an agent about a key at the path.
func byKey[T any](path string) func(ctx context.Context, a *Agent, key string) (T, error) {
	return func(ctx context.Context, a *Agent, key string) (value T, err error) {
		err = a.Get(ctx, path, url.Values{"key": {key}}, &value)
		return value, err
	}
}

// showKey asks all agents about one key and shows the non-empty answers. The word is the key or a
// part of it; the functions in known are called in order until one returns a matching key.
func showKey[T any](ctx context.Context, c *cli, agents []*Agent, word string, question func(ctx context.Context, a *Agent, key string) (T, error), tells func(T) bool,
	table func(p printer, good []answer[T]), known ...func(context.Context, []*Agent) []string) error {
	if word == "" {
		return Misused(errors.New("KEY is empty: `contivctl values` lists the keys"))
	}
	about := func(key string) (answers []answer[T], some bool) {
		answers = target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (T, error) { return question(ctx, a, key) })
		answers = slices.DeleteFunc(answers, func(a answer[T]) bool { return a.Err == nil && !tells(a.Value) })
		return answers, slices.ContainsFunc(answers, func(a answer[T]) bool { return a.Err == nil })
	}
	_, whole := models.ForKey(word)
	if whole { // for a part of a key, agents would search everything in vain
		if answers, some := about(word); some || len(answers) == len(agents) {
			return show(c, answers, table)
		}
	}
	var keys []string
	for _, more := range known {
		keys = append(keys, more(ctx, agents)...)
		if len(matching(keys, word)) > 0 {
			break
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(matching(keys, word)) == 0 {
		answers, some := about(word)
		if some || len(answers) == len(agents) {
			return show(c, answers, table)
		}
		_ = reportErrors(c, answers)
		return c.unknown(ctx, agents, word, keys)
	}
	key, err := meant(c.printer(), keys, word)
	if err != nil {
		return err
	}
	answers, _ := about(key)
	return show(c, answers, table)
}
