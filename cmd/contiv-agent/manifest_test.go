package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/manifests"
	"github.com/spf13/pflag"
)

// The agent accepts the flags and environment of the manifests, and their probes use its addresses.
func TestManifestsRunTheAgent(t *testing.T) {
	programs := slices.Concat(manifests.Programs(t, "contiv-agent"), manifests.Programs(t, "contiv-init"))
	if len(programs) != 2 {
		t.Errorf("%d containers run an agent", len(programs))
	}
	for _, p := range programs {
		var o options
		flags := pflag.NewFlagSet("contiv-agent", pflag.ContinueOnError)
		o.register(flags)
		if p.Container.Command[0] != "contiv-init" { // takes other flags
			if err := flags.Parse(p.Args); err != nil {
				t.Errorf("%s: %v", p.Object, err)
			}
		}
		for name, value := range p.Env() {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "CONTIV_AGENT_"), "_", "-"))
			if flags.Lookup(flag) == nil {
				t.Errorf("%s: the agent has no flag for %s", p.Object, name)
				continue
			}
			if err := flags.Set(flag, value); err != nil {
				t.Errorf("%s: %s: %v", p.Object, name, err)
			}
		}
		if o.nodeName == "" || o.etcdConfig == "" {
			t.Errorf("%s: the agent is %q, and etcd is found by %q", p.Object, o.nodeName, o.etcdConfig)
		}
		if len(p.Probes()) != 2 {
			t.Errorf("%s has %d probes", p.Object, len(p.Probes()))
		}
		for _, probe := range p.Probes() {
			if address := fmt.Sprintf("%s:%d", probe.HTTPGet.Host, probe.HTTPGet.Port.IntVal); !slices.Contains(o.http, address) {
				t.Errorf("%s: a probe asks %s, the agent answers at %v", p.Object, address, o.http)
			}
			if !slices.Contains([]string{"/readiness", "/liveness"}, probe.HTTPGet.Path) {
				t.Errorf("%s: a probe asks for %s", p.Object, probe.HTTPGet.Path)
			}
		}
	}
}
