package proxy

import (
	"log/slog"
	"net/netip"

	"github.com/contiv/contiv/internal/plugins/service/health"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// HealthChecks answers health checks of load balancers: a port of the node, and a port of each
// service with externalTrafficPolicy Local.
type HealthChecks struct {
	node     *localnode.Node
	services *processor.Processor
	ports    *health.Server
	healthz  *health.Node // port of the node
}

func newHealthChecks(node *localnode.Node, services *processor.Processor, healthy func() bool, log *slog.Logger) *HealthChecks {
	return &HealthChecks{
		node: node, services: services,
		ports: health.New(healthy, log), healthz: health.NewNode(node.Settings.HealthzBindAddress, healthy, log),
	}
}

// answer serves the ports of the current services.
func (h *HealthChecks) answer() {
	h.healthz.Serve(true)
	var only []netip.Addr
	if len(h.node.Settings.NodePortAddresses) > 0 {
		if only = h.node.ListeningAddresses(); len(only) == 0 {
			h.ports.Set(nil, nil)
			return
		}
	}
	h.ports.Set(h.services.HealthChecks(), only)
}

// leave closes the ports, because another proxy answers.
func (h *HealthChecks) leave() {
	h.ports.Set(nil, nil)
	h.healthz.Serve(false)
}

func (h *HealthChecks) retry() {
	h.ports.Retry()
	h.healthz.Retry()
}

func (h *HealthChecks) close() {
	h.ports.Close()
	h.healthz.Close()
}

// PortProblems returns the ports of services that are not served.
func (h *HealthChecks) PortProblems() []string { return h.ports.Problems() }

// NodeProblem returns why the port of the node is not served, or "".
func (h *HealthChecks) NodeProblem() string { return h.healthz.Problem() }
