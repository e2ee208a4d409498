package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/client/clienttest"
	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the commands' output into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"contivctl": main, "contiv-netctl": main})
}

// In addition to testscript's commands, scripts have
//
//	agent NAME    serve the fixture NAME on the socket $WORK/NAME.sock
//	etcd          start an etcd, at $ETCD
//	vswitch       start the agent of node1 with an in-memory vswitch; it serves gRPC on the
//	              socket $WORK/grpc.sock, and uses the etcd if it runs
//
// The configuration of contivctl names node1 and node2, which need not run. With -update, the test
// writes the commands' output into the scripts.
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
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"agent": startAgent, "etcd": startEtcd, "vswitch": startVSwitch,
		},
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

func startEtcd(ts *testscript.TestScript, neg bool, args []string) {
	server, err := etcdserver.Start(context.Background(), etcdserver.Options{
		DataDir: ts.MkAbs("etcd"), ClientURLs: []string{"http://127.0.0.1:0"}, PeerURL: "http://127.0.0.1:0",
		UnsafeNoSync: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(server.Close)
	ts.Setenv("ETCD", server.Endpoint())
}

func startVSwitch(ts *testscript.TestScript, neg bool, args []string) {
	socket, err := listener.Unix(ts.MkAbs("grpc.sock"))
	if err != nil {
		ts.Fatalf("%v", err)
	}
	o := clienttest.Options{Listener: socket}
	if endpoint := ts.Getenv("ETCD"); endpoint != "" {
		o.Etcd = []string{endpoint}
	}
	agent, err := clienttest.Start(o)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() {
		if err := agent.Close(); err != nil {
			ts.Logf("%v", err)
		}
	})
}
