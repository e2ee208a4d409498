package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/readiness"
	"github.com/contiv/contiv/kvscheduler"
)

// A node works with a full etcd. `contivctl status` shows the remedy until space is available.
func TestFullEtcdIsAProblem(t *testing.T) {
	full := errors.New("etcd is full: raise its quota")
	fine := func() error { return nil }
	scheduler := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { scheduler.Close() })
	dir := t.TempDir()
	monitor := newHealth(healthOptions{
		sources:   readiness.Sources{Ready: fine, Connected: fine, NodeConfig: fine, Warnings: func(context.Context) []string { return nil }},
		scheduler: scheduler, owners: health.NoOwners,
		directories: directories(options{runDir: dir, bolt: filepath.Join(dir, "bolt.db"), grpcBolt: filepath.Join(dir, "grpc.db")}),
		checks:      []health.Check{etcdSpace(func(context.Context) error { return full })},
	}).monitor
	problems := monitor.Look(t.Context())
	if len(problems) != 1 || problems[0].Text != full.Error() || monitor.Verdict(problems) != health.Degraded {
		t.Errorf("problems are %+v, the verdict is %s", problems, monitor.Verdict(problems))
	}
	full = nil
	if problems := monitor.Look(t.Context()); len(problems) > 0 || monitor.Verdict(problems) != health.Healthy {
		t.Errorf("with space again, problems are %+v", problems)
	}
}
