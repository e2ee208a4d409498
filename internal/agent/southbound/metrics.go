package southbound

import (
	"errors"
	"net/http"

	"github.com/contiv/contiv/api/ligato/govppmux"
	"github.com/contiv/contiv/internal/agent/northbound"
	"github.com/contiv/contiv/internal/lib/rest"
)

// metered is a vswitch that counts the agent's requests to it.
type metered interface{ Metrics() *govppmux.Metrics }

// namedMetrics serves the metrics of `agentctl metrics get`. Prometheus has all others.
func (s *Southbound) namedMetrics(w http.ResponseWriter, r *http.Request) {
	vs, has := s.vs.(metered)
	switch {
	case r.PathValue("name") != northbound.MetricsModel:
		rest.Error(w, http.StatusNotFound, errors.New("unknown metric "+r.PathValue("name")+": use "+northbound.MetricsModel+", or /metrics for Prometheus"))
	case !has:
		rest.Error(w, http.StatusNotFound, errors.New(northbound.MetricsModel+" counts requests to VPP, but the vswitch of this node is the Linux kernel"))
	default:
		rest.JSON(w, vs.Metrics())
	}
}
