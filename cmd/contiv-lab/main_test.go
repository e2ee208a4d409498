package main

import (
	"io"
	"strings"
	"testing"
)

func TestUnknownCommands(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate":   `unknown command "frobnicate": contiv-lab --help lists them`,
		"stauts":       `unknown command "stauts" of contiv-lab: did you mean status?`,
		"pod frob":     `unknown command "frob": contiv-lab pod --help lists them`,
		"node strat x": `unknown command "strat" of contiv-lab node: did you mean start?`,
	} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		if err := cmd.Execute(); err == nil || err.Error() != want {
			t.Errorf("contiv-lab %s: got %v, want %s", args, err, want)
		}
	}
	for _, args := range []string{"", "pod"} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		if err := cmd.Execute(); err != nil {
			t.Errorf("contiv-lab %s should print help: %v", args, err)
		}
	}
}

func TestViaEtcd(t *testing.T) {
	for line, want := range map[string]bool{
		"config apply -f x --via etcd": true, "config get --via=etcd": true, "config get --via grpc": false, "config get etcd": false, "values --via": false, "": false,
	} {
		if got := viaEtcd(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
