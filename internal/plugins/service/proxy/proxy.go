// Package proxy makes the vswitch translate Kubernetes services:
//
//	Service, EndpointSlice, Node, Pod ──inputs.go──> processor ──> services to render
//
//	for each: processor.Service ──render.go──┬─ entrances.go ──> host-redirect   addresses of the host
//	                                         ├─ segments.go ───> SRv6            carried addresses
//	                                         ├─ renderer/nat ──> DNat44, DNat66  all other addresses
//	                                         └─ limits.go                        settings without effect
//
//	values.go ────────> transaction: only values that differ
//	sourceranges.go ──> access list, SourceRanges
//	healthchecks.go ──> ports for load balancers
//
// An update requests the same values as a resync would. If another service proxy translates the same
// packets (otherproxies.go), the vswitch translates none.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Options are the inputs of a proxy besides the node.
type Options struct {
	Services     *processor.Processor
	Reservations *localnode.Reservations
	Ports        *podports.Ports
	Segments     *Segments // nil without segment routing
	// OtherProxy returns the trace of another service proxy on this node, or "". Two proxies would
	// conflict.
	OtherProxy func() (string, error)
	// Track applies the conntrack settings of service.conf to the host. It may be called
	// repeatedly, and may be nil.
	Track func() error
	// Healthy reports to load balancers whether this node translates the known services.
	Healthy func() bool
}

// Proxy requests the values that translate services. It is not safe for concurrent use, except
// OtherProxies, Tracking and Health. A nil pointer translates nothing: it handles no events, and owns
// no ports.
type Proxy struct {
	Services     *processor.Processor
	OtherProxies *OtherProxies
	Entrances    *Entrances
	Health       *HealthChecks
	Tracking     *Tracking
	ExternalIPs  *ExternalIPs

	node         *localnode.Node
	log          *slog.Logger
	inputs       *inputs
	segments     *segments
	translations map[processor.ID]*translation
	direct       map[processor.ID][]processor.Served // endpoints that see external clients; few services have some
	ranges       *sourceRanges
	shared       map[string]proto.Message // last requested values that are of no single service
}

// Wanted reports whether the vswitch of a node should translate services. It returns an error if
// the vswitch does not support the settings.
func Wanted(node *localnode.Node, segments bool, log *slog.Logger) (bool, error) {
	settings := node.Settings
	if segments && !node.Caps.SegmentRouting {
		return false, errNoSegments
	}
	if settings.Services == config.KubeProxy {
		if segments {
			log.Warn("useSRv6ForServices has no effect: service.conf leaves services to kube-proxy")
		}
		return false, nil
	}
	if main := node.Config.Routing().MainVRFID; main != 0 && !node.Caps.HostStackShared {
		if settings.Services == config.Auto {
			log.Warn("VPP translates services only in VRF 0: remove mainVRFID from contiv.conf", "mainVRFID", main)
			return false, nil
		}
		return false, fmt.Errorf("service.conf: VPP translates services in VRF 0 only, but mainVRFID is %d: leave mainVRFID out, or set services: %s", main, config.KubeProxy)
	}
	if settings.ResetRemovedEndpoints && !node.Caps.ResetsConnections {
		log.Warn("resetRemovedEndpoints in service.conf has no effect: the Linux kernel of this node ends no connections (CONFIG_INET_DIAG_DESTROY)")
	}
	return true, nil
}

var errNoSegments = errors.New("option useSRv6ForServices: the kernel of this node has no segment routing: it needs Linux 5.3 or later with CONFIG_IPV6_SEG6_LWTUNNEL, and IPv6; set the option to false")

// New returns the proxy of a node.
func New(node *localnode.Node, o Options, log *slog.Logger) *Proxy {
	otherProxies := newOtherProxies(node, o.OtherProxy)
	entrances := &Entrances{node: node, otherProxies: otherProxies}
	externalIPs := newExternalIPs(node.Settings.ExternalIPs)
	p := &Proxy{
		Services: o.Services, OtherProxies: otherProxies, Entrances: entrances,
		Health:   newHealthChecks(node, o.Services, o.Healthy, log),
		Tracking: &Tracking{log: log}, ExternalIPs: externalIPs,
		node: node, log: log,
		inputs:       &inputs{node: node, reservations: o.Reservations, ports: o.Ports, entrances: entrances, services: o.Services, externalIPs: externalIPs, log: log},
		segments:     newSegments(node, o.Segments),
		translations: map[processor.ID]*translation{}, direct: map[processor.ID][]processor.Served{}, ranges: newSourceRanges(node), shared: map[string]proto.Message{},
	}
	if node.Caps.HostStackShared { // otherwise, the host tracks no service connections
		p.Tracking.apply = o.Track
	}
	return p
}

// Close stops the health check servers.
func (p *Proxy) Close() {
	if p != nil {
		p.Health.close()
	}
}

// Translates reports whether the vswitch translates services.
func (p *Proxy) Translates() bool { return p != nil && !p.OtherProxies.conflict() }

// HandlesEvent reports whether an event affects services.
func (p *Proxy) HandlesEvent(event controller.Event) bool {
	return p != nil && (p.inputs.changedBy(event) || p.segments.changedBy(event))
}

// RendersAfter reports whether services may be rendered for the event.
func (p *Proxy) RendersAfter(event controller.Event) bool { return p.inputs.changedBy(event) }

// Resync requests all values. It records the services even beside another proxy, so that
// connections can be explained.
func (p *Proxy) Resync(ctx context.Context, state controller.KubeState, txn controller.ResyncOperations) error {
	if p == nil {
		return nil
	}
	p.OtherProxies.scan()
	conflicting, _ := p.OtherProxies.Conflicting()
	p.Tracking.set(conflicting == "")
	clear(p.shared)
	clear(p.translations)
	clear(p.direct)
	p.ranges.reset()
	p.inputs.reset(ctx, state)
	p.segments.reset(state, conflicting)
	if conflicting != "" {
		p.logConflict(ctx, conflicting)
		p.Health.leave()
	} else {
		p.resyncValues(txn)
		p.Health.answer()
	}
	return p.segments.resync(txn)
}

func (p *Proxy) resyncValues(txn controller.ResyncOperations) {
	p.updateShared(txn)
	if global := p.node.GlobalNAT(); p.node.Loopback(false).IsValid() && txn.Get(models.Key(global)) == nil {
		txn.Put(models.Key(global), global)
	}
	ids := p.Services.IDs()
	for _, id := range ids {
		p.translate(id, resyncTxn{txn})
	}
	p.updateRanges(ids, resyncTxn{txn})
}

// resyncTxn is a resync for code that updates. A resync has no values to delete.
type resyncTxn struct{ controller.ResyncOperations }

func (resyncTxn) Delete(string) {}

func (p *Proxy) logConflict(ctx context.Context, trace string) {
	log := controller.Logger(ctx, p.log)
	if p.node.Settings.Services == config.Auto {
		log.Info("Service proxy disabled: another proxy found", "found", trace)
		return
	}
	log.Error("Service proxy disabled: conflicting proxy found", "found", trace)
}

// Update requests the values that an event changes, and describes the changes. Conflicts reports
// whether a changed service has or had a host port of a pod, so that the pod's ports change, too.
func (p *Proxy) Update(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (what string, conflicts bool, err error) {
	if !p.HandlesEvent(event) {
		return "", false, nil
	}
	var changed []processor.ID
	var ofNode bool
	if p.inputs.changedBy(event) {
		changed, ofNode = p.inputs.record(ctx, event)
	}
	if p.OtherProxies.conflict() {
		return "", false, nil
	}
	if p.segments.changedBy(event) {
		all, err := p.segments.update(event, txn)
		if err != nil {
			return "", false, err
		}
		if all {
			changed = union(changed, p.Services.IDs())
		}
	}
	defer p.Health.answer()
	if ofNode {
		p.updateShared(txn)
	}
	change, err := p.translateAll(changed, txn)
	if err != nil {
		return "", false, err
	}
	return describe(change.texts, change.nodePorts && ofNode), change.conflicts, nil
}

// nodePorts is set if an event of the node changed only services with node ports.
func describe(what []string, nodePorts bool) string {
	const named = 5
	switch {
	case len(what) > 1 && nodePorts:
		return "update nodeport services"
	case len(what) > named:
		return fmt.Sprintf("update %d services", len(what))
	}
	return strings.Join(what, ", ")
}

// UpdatePodPorts keeps services from the host ports of all pods except one of this node.
func (p *Proxy) UpdatePodPorts(except podmanager.PodID, txn controller.UpdateOperations) error {
	if !p.Translates() {
		return nil
	}
	_, err := p.translateAll(p.inputs.setPodPorts(except), txn)
	return err
}
