package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models/manifest"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/descriptors"
	"github.com/contiv/contiv/vswitch/fake"
	"github.com/prometheus/client_golang/prometheus"
)

// validator asks the descriptors of an agent whether values are valid. That does not depend on the vswitch, so that one in memory
// stands in for it: nothing is connected to, and nothing changes. A nil validator only reads files.
type validator struct{ host *southbound }

func newValidator() (*validator, error) {
	host, err := openHost("", nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	host.vs = fake.NewNetwork().NewNode("check-config", vswitch.Capabilities{}).Open()
	if err := descriptors.Register(host.scheduler, host.vs); err != nil {
		host.Close()
		return nil, err
	}
	return &validator{host}, nil
}

func (v *validator) Close() {
	if v != nil {
		v.host.Close()
	}
}

// checkFile returns all mistakes in a file with values.
func (v *validator) checkFile(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	values, err := manifest.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if v == nil {
		return nil
	}
	var mistakes []error
	for _, value := range values {
		var wrong *kvscheduler.TransactionError
		err := v.host.scheduler.ValidateSemantically(ctx, kvscheduler.KeyValue{Key: value.Key, Value: value.Message})
		if !errors.As(err, &wrong) {
			mistakes = append(mistakes, err)
			continue
		}
		for _, one := range wrong.Errors {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: value of %s: %w", path, value.Line, one.Key, one.Err))
		}
	}
	return errors.Join(mistakes...)
}
