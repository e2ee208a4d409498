package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/plugins/policy"
	"github.com/contiv/contiv/plugins/service"
)

// A name without a namespace means the object in the namespace of -n, else the only one of that name, as of pods. A name
// that nobody has is one in the namespace "default": agents say what was meant.

// serviceID returns the full name of a service.
func serviceID(ctx context.Context, agents []*Agent, namespace, word string) (string, error) {
	if strings.Contains(word, "/") || namespace != "" {
		return inNamespace(namespace, word), nil
	}
	var ids []string
	for _, a := range target.GetAll[service.Report](ctx, agents, service.URL, nil) {
		for _, s := range a.Value.Services {
			ids = append(ids, s.Namespace+"/"+s.Name)
		}
	}
	return onlyOne("services", ids, word)
}

// policyID returns the full name of a policy. That of a ClusterNetworkPolicy has no namespace.
func policyID(ctx context.Context, agents []*Agent, namespace, word string) (string, error) {
	if strings.Contains(word, "/") || namespace != "" {
		return inNamespace(namespace, word), nil
	}
	var ids []string
	for _, a := range target.GetAll[policy.Report](ctx, agents, policy.URL, nil) {
		for _, p := range a.Value.Policies {
			if p.ID() == word {
				return word, nil
			}
			ids = append(ids, p.ID())
		}
	}
	return onlyOne("policies", ids, word)
}

func inNamespace(namespace, word string) string {
	if strings.Contains(word, "/") {
		return word
	}
	return cmp.Or(namespace, "default") + "/" + word
}

// onlyOne returns the only ID of a name.
func onlyOne(kind string, ids []string, name string) (string, error) {
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return !strings.HasSuffix(id, "/"+name) })
	switch len(ids) {
	case 0:
		return inNamespace("", name), nil
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%q means several %s: %s: give the namespace, also with -n", name, kind, strings.Join(ids, ", "))
}
