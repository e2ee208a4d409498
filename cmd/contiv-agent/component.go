package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// component is a part of the agent: an open resource, and what it contributes to the agent. All fields
// except name are optional.
type component struct {
	name string
	// events handle the events of the event loop.
	events []controller.EventHandler
	// rest maps patterns of http.ServeMux to handlers of the REST API.
	rest    map[string]http.Handler
	metrics []prometheus.Collector
	checks  []health.Check
	// tasks run concurrently until their context ends. An error of a task ends the agent.
	tasks []task
	// stop ends the work of the component, within ctx. Tasks of all components have been asked to end.
	stop func(ctx context.Context) error
	// close releases the resource. All tasks have ended.
	close func()
}

// task is a part of a component that runs until ctx ends.
type task func(ctx context.Context) error

// opener opens the components of a kind of agent.
type opener func(context.Context, options, *slog.Logger) (*agent, error)

// agent is a list of open components.
type agent struct {
	components []component
	registry   *prometheus.Registry
	rest       *http.ServeMux
	log        *slog.Logger
	// started logs that all components have started.
	started func()
}

func newAgent(log *slog.Logger) *agent {
	return &agent{registry: prometheus.NewRegistry(), rest: http.NewServeMux(), log: log}
}

// add appends a component. It registers its REST handlers and metrics.
func (a *agent) add(c component) {
	a.components = append(a.components, c)
	for pattern, handler := range c.rest {
		a.rest.Handle(pattern, handler)
	}
	a.registry.MustRegister(c.metrics...)
}

// eventHandlers returns the event handlers of all components, in the order in which they handle an event.
func (a *agent) eventHandlers() (handlers []controller.EventHandler) {
	for _, c := range a.components {
		handlers = append(handlers, c.events...)
	}
	return handlers
}

// checks returns the health checks of all components.
func (a *agent) checks() (checks []health.Check) {
	for _, c := range a.components {
		checks = append(checks, c.checks...)
	}
	return checks
}

// stopTimeout bounds the time for stopping all components.
const stopTimeout = 10 * time.Second

// run starts the tasks of all components, and stops the components in the opposite order when ctx ends or
// a task fails. It returns an error that requires a restart of the agent. The caller closes the agent.
func (a *agent) run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	for _, c := range a.components {
		for _, run := range c.tasks {
			group.Go(func() error { return run(running) })
		}
	}
	a.started()
	<-running.Done()

	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var stopped []error
	for _, c := range slices.Backward(a.components) {
		if c.stop != nil {
			stopped = append(stopped, c.stop(stopping))
		}
	}
	failed := group.Wait()
	a.log.Info("Agent ended")
	return errors.Join(failed, errors.Join(stopped...))
}

// close closes the components in the opposite order.
func (a *agent) close() {
	for _, c := range slices.Backward(a.components) {
		if c.close != nil {
			c.close()
		}
	}
}

// closeAfter closes the agent if opening it has failed with *err.
func (a *agent) closeAfter(err *error) {
	if *err != nil {
		a.close()
	}
}

// componentLog returns the logger of a component, with a separate level.
func componentLog(log *slog.Logger, name string) *slog.Logger {
	return log.With(loglevel.Component, name)
}

// untilEnd makes a task of a function that runs until ctx ends and cannot fail.
func untilEnd(run func(ctx context.Context)) task {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

// notCanceled drops the error of a deliberately cancelled context.
func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
