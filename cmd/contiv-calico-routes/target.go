package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/calico/program"
	"github.com/contiv/contiv/internal/lib/damper"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/internal/vswitch/vpp"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

// clientName is this program's name as a client of an agent.
const clientName = "calico-routes"

// target is the vswitch or agent that receives the routes.
type target struct {
	program.Target
	close func()
	// run starts the target's goroutines. handle adds HTTP handlers.
	run    func(ctx context.Context, group *errgroup.Group)
	handle func(*http.ServeMux)
	// err returns why the target cannot forward.
	err func() error
	// warnings returns one warning per route that is not in place.
	warnings func(context.Context) []string
}

func (o *options) openTarget(out io.Writer, metrics prometheus.Registerer, log *slog.Logger) (*target, error) {
	t := &target{
		run: func(context.Context, *errgroup.Group) {}, handle: func(*http.ServeMux) {},
		err: func() error { return nil }, close: func() {}, warnings: func(context.Context) []string { return nil },
	}
	switch {
	case o.dryRun:
		t.Target = program.Printer{Writer: out}
		return t, nil
	case o.agent != "":
		return t, o.dialAgent(t, log)
	}
	return t, o.embed(t, metrics, log)
}

func (o *options) dialAgent(t *target, log *slog.Logger) error {
	config, err := o.agentTLS.config()
	if err != nil {
		return err
	}
	c, err := client.DialGRPC(o.agent, client.GRPC{Name: clientName, TLS: config})
	if err != nil {
		return fmt.Errorf("--agent: %w", err)
	}
	t.Target, t.close = program.Agent{Client: c, Log: log}, func() { c.Close() }
	return nil
}

// embed runs a scheduler and drives the vswitch in this process, like an agent.
func (o *options) embed(t *target, metrics prometheus.Registerer, log *slog.Logger) error {
	var vs vswitch.VSwitch
	var err error
	ready := func(context.Context) error { return nil }
	connected := func() error { return nil }
	if o.vswitch == vppVSwitch {
		v := vpp.Open(vpp.Options{Socket: o.vppSocket, Logger: log})
		vs, ready, connected = v, v.Ready, v.Connected
	} else if vs, err = kernel.New(kernel.Options{Logger: log}); err != nil {
		return err
	}
	s := kvscheduler.New(kvscheduler.Options{Logger: log, Metrics: metrics})
	lin, err := linux.New(s, linux.Options{Logger: log})
	if err != nil {
		s.Close()
		vs.Close()
		return err
	}
	t.close = func() {
		s.Close()
		lin.Close()
		vs.Close()
	}
	if err := errors.Join(netalloc.Register(s), descriptors.Register(s, vs)); err != nil {
		t.close()
		return err
	}
	t.Target = waiting{ready, program.Scheduler{Scheduler: s, Log: log}}
	t.handle = func(mux *http.ServeMux) { mux.Handle("/scheduler/", inspect.Handler(s)) }
	values, drift := health.Values(s), health.Drift(s, health.NoOwners)
	t.warnings = func(ctx context.Context) []string { return append(values.Look(ctx), drift.Look(ctx)...) }
	metrics.MustRegister(health.NewStates(s))
	t.err = func() error {
		if err := connected(); err != nil {
			return err
		}
		if reason := s.Restoring(); reason != "" {
			return fmt.Errorf("the vswitch is being resynchronised: %s", reason)
		}
		return nil
	}
	t.run = func(ctx context.Context, group *errgroup.Group) {
		report := damper.New(ctx, func(reason string, keys ...string) {
			if err := s.ReportDrift(reason, keys...); err != nil {
				log.Warn("Reporting drift failed", "reason", reason, "error", err)
			}
		}).Report
		group.Go(func() error { return notCanceled(vs.Watch(ctx, report)) })
		group.Go(func() error { return notCanceled(lin.Watch(ctx, report)) })
	}
	return nil
}

// waiting is a target in another process, which may not have started yet.
type waiting struct {
	ready func(context.Context) error
	program.Scheduler
}

// readyTimeout is how long to wait for the vswitch before logging that it is missing.
const readyTimeout = 10 * time.Second

func (w waiting) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := w.ready(ctx); err != nil {
		return fmt.Errorf("waiting for the vswitch: %w", err)
	}
	return nil
}

func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// agentTLS names the files for TLS to an agent; empty names disable TLS.
type agentTLS struct{ ca, cert, key string }

func (a agentTLS) config() (*tls.Config, error) {
	if a == (agentTLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, fmt.Errorf("--agent-ca-file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--agent-ca-file %s contains no PEM certificate", a.ca)
		}
	}
	if (a.cert == "") != (a.key == "") {
		return nil, errors.New("--agent-cert-file and --agent-key-file require each other: set both")
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--agent-cert-file and --agent-key-file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (w waiting) Resync(ctx context.Context, values []proto.Message) error {
	if err := w.await(ctx); err != nil {
		return err
	}
	return w.Scheduler.Resync(ctx, values)
}
