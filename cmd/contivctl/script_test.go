package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/listener"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"contivctl": main, "contiv-netctl": main})
}

// Scripts have, beside those of testscript, the command
//
//	agent NAME    serve the fixture NAME on the socket $WORK/NAME.sock
//
// The configuration of contivctl names node1 and node2, which need not run. Run with -update, the
// test writes what commands print into the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("HOME", env.WorkDir)
			agents := ""
			for _, name := range []string{"node1", "node2"} {
				agents += fmt.Sprintf("  %s: unix://%s/%s.sock\n", name, env.WorkDir, name)
			}
			env.Setenv("CONTIVCTL_CONFIG", "agents.yaml")
			return os.WriteFile(filepath.Join(env.WorkDir, "agents.yaml"), []byte("agents:\n"+agents), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"agent": startAgent},
	})
}

func startAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || fixtures[args[0]] == nil {
		ts.Fatalf("usage: agent NAME, of a fixture")
	}
	l, err := listener.Unix(ts.MkAbs(args[0] + ".sock"))
	if err != nil {
		ts.Fatalf("%v", err)
	}
	server := &http.Server{Handler: fixtures[args[0]]}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	ts.Defer(func() {
		server.Close()
		<-done
	})
}
