package statscollector_test

import (
	"errors"
	"testing"

	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/prometheus/client_golang/prometheus"
)

func TestSessionsAreCounted(t *testing.T) {
	var failure error
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(statscollector.NewSessions("node1", func() (uint64, error) { return 42, failure }, plugintest.Logger()))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "natSessions" || families[0].GetMetric()[0].GetGauge().GetValue() != 42 {
		t.Errorf("told: %v, %v; want natSessions to be 42", families, err)
	}
	failure = errors.New("gone")
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("told of a vswitch that cannot be read: %v, %v", families, err)
	}
}
