package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// testOptions returns options for an agent whose files are in a directory of the test. It makes no
// connections before it runs.
func testOptions(t *testing.T) options {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("opening the kernel vswitch needs root: run the test as root")
	}
	dir := t.TempDir()
	var o options
	o.register(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.nodeName, o.runDir, o.historyDir = "node1", dir, filepath.Join(dir, "history")
	o.bolt, o.grpcBolt = filepath.Join(dir, "bolt.db"), filepath.Join(dir, "grpc.db")
	o.http, o.vswitch = nil, southbound.KernelVSwitch
	return o
}

// The order of event handlers is part of the design: each handler uses the results of earlier ones.
func TestEventHandlersInOrder(t *testing.T) {
	a, err := openClusterAgent(t.Context(), testOptions(t), plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	var names []string
	for _, h := range a.eventHandlers() {
		names = append(names, fmt.Sprint(h))
	}
	want := []string{"contivconf", "nodesync", "podmanager", "microservice", "ipam", "recorder", "ipnet", "service", "policy"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// Each check of a component has a place among the problems in the status of the node.
func TestChecksInOrder(t *testing.T) {
	for name, open := range map[string]opener{"cluster": openClusterAgent, "standalone": openStandaloneAgent} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.etcdEndpoints = []string{"http://127.0.0.1:1"}
			a, err := open(t.Context(), o, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			for _, c := range a.checks() {
				if !slices.Contains(checkOrder, c.Name) {
					t.Errorf("check %s has no place in checkOrder", c.Name)
				}
			}
		})
	}
	var names []string
	for _, c := range inOrder([]health.Check{{Name: "policies"}, {Name: "pods"}, {Name: "etcd-space"}}) {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "etcd-space pods policies" {
		t.Errorf("checks are %s", got)
	}
}
