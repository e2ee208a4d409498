package target

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A given cluster is used; kubectl's only if nothing else selects agents and this host has none.
func TestKubeconfigIsAsked(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	remote := []*Agent{Unusable("far", "pod x", errors.New("never asked"))}
	var asked []string
	file := filepath.Join(t.TempDir(), "contivctl.yaml")
	if err := os.WriteFile(file, []byte("agents: {near: \"unix:///run/x.sock\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fallback := []string{"far"}
	if _, err := os.Stat(strings.TrimPrefix(DefaultAgent, "unix://")); err == nil {
		fallback = []string{"local"}
	}
	for _, c := range []struct {
		name    string
		options Options
		nobody  bool
		agents  []string
		asked   string
		err     string
	}{
		{name: "named file", options: Options{Kubeconfig: "k", File: file}, agents: []string{"far"}, asked: "k "},
		{name: "named context", options: Options{Context: "c"}, agents: []string{"far"}, asked: " c"},
		{name: "file of agents", options: Options{File: file}, agents: []string{"near"}},
		{name: "agent", options: Options{Agents: []string{"a=unix:///x"}}, agents: []string{"a"}},
		{name: "agent and cluster", options: Options{Agents: []string{"a=unix:///x"}, Kubeconfig: "k"}, err: "drop --agent"},
		{name: "nothing", agents: fallback},
		{name: "nothing and no cluster", nobody: true, agents: []string{"local"}},
	} {
		asked = nil
		c.options.InCluster = func(_ context.Context, kubeconfig, context string) ([]*Agent, error) {
			asked = append(asked, kubeconfig+" "+context)
			if c.nobody {
				return nil, nil
			}
			return remote, nil
		}
		agents, err := c.options.Selected(t.Context(), nil)
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if got := Names(agents); !slices.Equal(got, c.agents) {
			t.Errorf("%s: %v, want %v", c.name, got, c.agents)
		}
		if c.asked != "" && !slices.Equal(asked, []string{c.asked}) {
			t.Errorf("%s: asked %q, want %q", c.name, asked, c.asked)
		}
	}
}

func TestLocalAgentIsTheLastResort(t *testing.T) {
	if _, err := os.Stat(strings.TrimPrefix(DefaultAgent, "unix://")); err == nil {
		t.Skip("this host has an agent: run the test on a host without one")
	}
	nobody := Options{InCluster: func(context.Context, string, string) ([]*Agent, error) { return nil, nil }}
	t.Setenv("KUBECONFIG", "")
	agents, err := nobody.Selected(t.Context(), nil)
	if err != nil || len(agents) != 1 {
		t.Fatalf("agents %v, error %v", agents, err)
	}
	if err := agents[0].Get(t.Context(), "/", nil, nil); err == nil || !strings.Contains(err.Error(), "no agent runs on this host, and no kubeconfig leads to others") {
		t.Errorf("without agent and kubeconfig: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", missing)
	if agents, err := nobody.Selected(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "KUBECONFIG: stat "+missing) {
		t.Errorf("with a missing kubeconfig: agents %v, error %v", agents, err)
	}
	if agents, err := (Options{Agents: []string{"a=unix:///x"}}).Selected(t.Context(), nil); err != nil || len(agents) != 1 {
		t.Errorf("with --agent and a missing kubeconfig: agents %v, error %v", agents, err)
	}
}
