// Package valuecheck checks a directory of files with values to configure, without configuring them.
package valuecheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models/manifest"
	"github.com/prometheus/client_golang/prometheus"
)

// Validator validates values with an agent's descriptors. An in-memory vswitch suffices for that,
// so nothing is connected or changed. A nil Validator only reads files.
type Validator struct{ node *southbound.Southbound }

// New returns a Validator. The caller closes it.
func New() (*Validator, error) {
	vs := fake.NewNetwork().NewNode("check-config", vswitch.Capabilities{}).Open()
	node, err := southbound.OpenWith(vs, southbound.Options{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &Validator{node}, nil
}

func (v *Validator) Close() {
	if v != nil {
		v.node.Close()
	}
}

// Ignored returns an error for files in a --config-dir that look like configuration but are ignored by
// the agent.
func Ignored(dir string) error {
	entries, _ := os.ReadDir(dir) // the caller has checked that it is readable
	flags := map[string]string{
		"contiv.conf": "--contiv-config", "controller.conf": "--controller-config", "service.conf": "--service-config", "etcd.conf": "--etcd-config",
	}
	var mistakes []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		meant, near := config.Nearest(e.Name(), slices.Sorted(maps.Keys(flags)))
		switch ext := filepath.Ext(e.Name()); {
		case e.IsDir() || ext == ".yaml":
		case ext == ".yml" || ext == ".json":
			mistakes = append(mistakes, fmt.Errorf("%s is ignored: values must be in files named *.yaml", path))
		case near:
			mistakes = append(mistakes, fmt.Errorf("%s is ignored: did you mean %s? Set its path with %s", path, meant, flags[meant]))
		}
	}
	return errors.Join(mistakes...)
}

// File returns all mistakes in a file of values, and whether the file has no values.
func (v *Validator) File(ctx context.Context, path string) (empty bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	values, err := manifest.Examine(data)
	var mistakes []error
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("%s: %w", path, err))
	}
	empty = err == nil && len(values) == 0
	if v == nil {
		return empty, errors.Join(mistakes...)
	}
	for _, value := range values {
		var wrong *kvscheduler.TransactionError
		err := v.node.Scheduler.ValidateSemantically(ctx, kvscheduler.KeyValue{Key: value.Key, Value: value.Message})
		if !errors.As(err, &wrong) {
			mistakes = append(mistakes, err)
			continue
		}
		for _, one := range wrong.Errors {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: value of %s: %w", path, value.Line, one.Key, one.Err))
		}
	}
	return empty, errors.Join(mistakes...)
}
