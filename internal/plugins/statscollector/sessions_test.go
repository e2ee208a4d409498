package statscollector_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/statscollector"
)

func TestSessionsAreCounted(t *testing.T) {
	tcp, unremembered := uint64(30), uint64(7)
	for name, test := range map[string]struct {
		count statscollector.SessionCount
		err   error
		want  map[string]float64
	}{
		"by protocol":                   {statscollector.SessionCount{All: 42, TCP: &tcp}, nil, map[string]float64{"natSessions node1": 42, "tcpNatSessions node1": 30, "otherNatSessions node1": 12}},
		"clients without a place":       {statscollector.SessionCount{All: 42, Unremembered: &unremembered}, nil, map[string]float64{"natSessions node1": 42, "contiv_service_unremembered_clients_total node1": 7}},
		"all together":                  {statscollector.SessionCount{All: 42}, nil, map[string]float64{"natSessions node1": 42}},
		"a vswitch that cannot be read": {statscollector.SessionCount{}, errors.New("gone"), map[string]float64{}},
	} {
		got := plugintest.Metrics(t, statscollector.NewSessions("node1", func() (statscollector.SessionCount, error) { return test.count, test.err }, plugintest.Logger()))
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
