package statscollector_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/prometheus/client_golang/prometheus"
)

func TestSessionsAreCounted(t *testing.T) {
	tcp := uint64(30)
	for name, test := range map[string]struct {
		count statscollector.SessionCount
		err   error
		want  map[string]float64
	}{
		"by protocol":                   {statscollector.SessionCount{All: 42, TCP: &tcp}, nil, map[string]float64{"natSessions": 42, "tcpNatSessions": 30, "otherNatSessions": 12}},
		"all together":                  {statscollector.SessionCount{All: 42}, nil, map[string]float64{"natSessions": 42}},
		"a vswitch that cannot be read": {statscollector.SessionCount{}, errors.New("gone"), map[string]float64{}},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(statscollector.NewSessions("node1", func() (statscollector.SessionCount, error) { return test.count, test.err }, plugintest.Logger()))
		families, err := registry.Gather()
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if err != nil || !maps.Equal(got, test.want) {
			t.Errorf("%s: told %v, %v; want %v", name, got, err, test.want)
		}
	}
}
