package main

import (
	"log/slog"
	"maps"
	"net/http"

	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/prometheus/client_golang/prometheus"
)

// southboundComponent is the KVScheduler with the vswitch and the linux devices that it configures.
type southboundComponent struct {
	component
	*southbound.Southbound
}

// southbound returns the options of the southbound that the flags set.
func (o options) southbound(log *slog.Logger) southbound.Options {
	return southbound.Options{VSwitch: o.vswitch, VPPSocket: o.vppSocket, VPPXDPDevices: o.vppXDPDevices, Log: log}
}

// openSouthbound also starts to read the state of the vswitch, which takes time. recorder receives each
// transaction.
func openSouthbound(o southbound.Options, recorder func(kvscheduler.Committed), metrics prometheus.Registerer) (*southboundComponent, error) {
	o.Recorder, o.Metrics = recorder, metrics
	s, err := southbound.Open(o)
	if err != nil {
		return nil, err
	}
	s.ReadAhead()
	rest := map[string]http.Handler{"/scheduler/": inspect.Handler(s.Scheduler)}
	maps.Copy(rest, s.Handlers())
	return &southboundComponent{component{name: "southbound", rest: rest, close: s.Close}, s}, nil
}

// capabilities are the vswitch's features for the plugins.
type capabilities struct {
	network  ipnet.Capabilities
	services service.Capabilities
	policies policy.Capabilities
}

// capabilitiesOf returns the vswitch's features. docs/design/vpp.md describes the effect of each.
func capabilitiesOf(vs vswitch.VSwitch) capabilities {
	c := vs.Capabilities()
	return capabilities{
		network: ipnet.Capabilities{HostStackShared: c.HostStackShared, MultipleVRFs: c.MultipleVRFs, TAPs: c.TAPs,
			SourceGuards: c.SourceGuards, ConnectionLimits: c.ConnectionLimits},
		services: service.Capabilities{HostStackShared: c.HostStackShared, IPv6SourceNAT: c.IPv6SourceNAT, ClientScopes: c.ClientScopes, ResetsConnections: c.ResetsConnections, SegmentRouting: c.SegmentRouting},
		policies: policy.Capabilities{Filter: c.Filter},
	}
}
