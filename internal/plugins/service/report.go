package service

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	configs "github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// URL serves the report about services. ?service=<namespace>/<name> selects one with all details,
// ?endpoint=<address> the services with an endpoint, and ?verbose= all with details.
const URL = "/contiv/v1/services"

// Report is the response of URL.
type Report struct {
	Translator Translator `json:"translator"`
	// Stale explains why changes in etcd are not followed.
	Stale string `json:"stale,omitempty"`
	// Services contains the translated services, sorted. A service requested by name is included
	// even if another proxy translates it.
	Services []ServiceReport `json:"services"`
	// HostPorts contains the host ports of the pod with the requested endpoint.
	HostPorts []HostPortReport `json:"hostPorts,omitempty"`
}

// HostPortReport is a host port that a pod requests.
type HostPortReport struct {
	Port    string `json:"port"` // such as "8080/TCP"
	PodPort uint16 `json:"podPort"`
	// Open lists the addresses on which the port is open.
	Open []netip.AddrPort `json:"open"`
	// Problems explains missing addresses.
	Problems []string `json:"problems,omitempty"`
}

// ServiceReport describes the translation of a service for both IP versions.
type ServiceReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Affinity is the duration of session affinity in seconds, or 0.
	Affinity uint32 `json:"affinity,omitempty"`
	// Cluster or Local. ExternalTrafficPolicy is empty without external addresses.
	InternalTrafficPolicy string           `json:"internalTrafficPolicy,omitempty"`
	ExternalTrafficPolicy string           `json:"externalTrafficPolicy,omitempty"`
	HealthCheckNodePort   int32            `json:"healthCheckNodePort,omitempty"`
	Frontends             []FrontendReport `json:"frontends"`
	// Endpoints is the number of addresses with ports in use.
	Endpoints int `json:"endpoints"`
	// Values lists the configured values. It is empty if another proxy translates.
	Values []ValueReport `json:"values"`
	// Limits describes unsupported settings and their effect.
	Limits []string `json:"limits,omitempty"`
	// Details lists all endpoints, on request.
	Details []EndpointReport `json:"details,omitempty"`
	// Unserved explains missing endpoints, on request.
	Unserved string `json:"unserved,omitempty"`
}

// FrontendReport is an address that clients connect to.
type FrontendReport struct {
	Kind     processor.Kind     `json:"kind"`
	Address  string             `json:"address"` // with port
	Protocol processor.Protocol `json:"protocol"`
	Port     string             `json:"port,omitempty"`
	// Numbers of endpoints for clients inside and outside.
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	// NoneInside and NoneOutside explain missing endpoints, on request.
	NoneInside  string `json:"noneInside,omitempty"`
	NoneOutside string `json:"noneOutside,omitempty"`
	// Sources contains the allowed clients if Restricted is set.
	Sources    []string `json:"sources,omitempty"`
	Restricted bool     `json:"restricted,omitempty"`
}

// EndpointReport is an endpoint and its use by this node.
type EndpointReport struct {
	Address string `json:"address"` // with port
	// Interface and Listed are set if the pod is not reached at eth0 (annotation
	// contivpp.io/service-endpoint-if). Listed is the eth0 address.
	Interface string `json:"interface,omitempty"`
	Listed    string `json:"listed,omitempty"`
	// Pod is NAMESPACE/NAME, or empty if unknown.
	Pod         string             `json:"pod,omitempty"`
	Protocol    processor.Protocol `json:"protocol"`
	Port        string             `json:"port,omitempty"`
	Node        string             `json:"node,omitempty"`
	Zone        string             `json:"zone,omitempty"`
	Ready       bool               `json:"ready"`
	Serving     bool               `json:"serving"`
	Terminating bool               `json:"terminating"`
	Inside      bool               `json:"inside"`
	Outside     bool               `json:"outside"`
	Why         string             `json:"why,omitempty"`
}

// ValueReport is the state of the value of one IP version of a service.
type ValueReport struct {
	Key   string `json:"key"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// Txn is the last transaction that changed the value, or nil if unknown.
	Txn *uint64 `json:"txn,omitempty"`
}

// reporter reports services and host ports. It changes nothing.
type reporter struct {
	view
	connected func() error // may be nil
}

// handler serves URL.
func (p *reporter) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("service")
		if text := r.URL.Query().Get("endpoint"); text != "" {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				rest.Error(w, http.StatusBadRequest, fmt.Errorf("endpoint must be an IP address: %w", err))
				return
			}
			rest.JSON(w, p.reportOfEndpoint(addr))
			return
		}
		report := p.report(name, name != "" || r.URL.Query().Has("verbose"))
		if name != "" && len(report.Services) == 0 {
			rest.Error(w, http.StatusNotFound, p.unknown(name))
			return
		}
		rest.JSON(w, report)
	})
}

// Unknown returns the error for a service that a report lacks. known lists the reported services.
func Unknown(name string, t Translator, known []string) error {
	if t.Setting == config.KubeProxy {
		return fmt.Errorf("services are left to %s on this node, so %q is unknown: use its cluster IP, or set services: %s in service.conf", config.KubeProxy, name, config.Auto)
	}
	err := fmt.Errorf("service %q not found: use NAMESPACE/NAME", name)
	if near, ok := configs.Nearest(name, known); ok {
		err = fmt.Errorf("service %q not found: did you mean %q?", name, near)
	}
	return err
}

func (p *reporter) unknown(name string) error {
	var known []string
	if p.proxy != nil {
		p.lock.Lock()
		defer p.lock.Unlock()
		for _, id := range p.proxy.Services.IDs() {
			if id.String() == name {
				if why := p.proxy.Services.Explainer().TooLarge(id); why != "" {
					return errors.New(notTranslated(id, why))
				}
				return fmt.Errorf("service %q has no address to translate: %s", name, p.proxy.Services.Explainer().Unproxied(id))
			}
			known = append(known, id.String())
		}
	}
	return Unknown(name, p.translators.translator(), known)
}

func (p *reporter) report(only string, full bool) Report {
	report := Report{Translator: p.translators.translator(), Services: []ServiceReport{}}
	if p.proxy == nil {
		return report
	}
	if p.connected != nil {
		if err := p.connected(); err != nil {
			report.Stale = err.Error()
		}
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	ids := p.proxy.Services.IDs()
	switch {
	case only != "":
		namespace, name, _ := strings.Cut(only, "/")
		ids = slices.DeleteFunc(ids, func(id processor.ID) bool { return id.Namespace != namespace || id.Name != name })
	case !p.proxy.Translates():
		return report
	}
	for _, id := range ids {
		if r := p.reportOf(id, full); len(r.Frontends) > 0 {
			report.Services = append(report.Services, r)
		}
	}
	return report
}

// reportOfEndpoint reports only the endpoints at the address.
func (p *reporter) reportOfEndpoint(addr netip.Addr) Report {
	report := Report{Translator: p.translators.translator(), Services: []ServiceReport{}}
	p.lock.Lock()
	defer p.lock.Unlock()
	report.HostPorts = p.hostPortsAt(addr)
	if !p.proxy.Translates() {
		return report
	}
	for _, id := range p.proxy.Services.IDs() {
		if !slices.ContainsFunc(p.proxy.Services.Explainer().Endpoints(id, addr.Is6()), func(e processor.EndpointUse) bool { return e.Addr.Addr() == addr || e.Listed == addr }) {
			continue
		}
		r := p.reportOf(id, true)
		r.Details = slices.DeleteFunc(r.Details, func(e EndpointReport) bool {
			endpoint, err := netip.ParseAddrPort(e.Address)
			return err != nil || endpoint.Addr() != addr && e.Listed != addr.String()
		})
		report.Services = append(report.Services, r)
	}
	return report
}

func (p *reporter) hostPortsAt(addr netip.Addr) (list []HostPortReport) {
	for _, pod := range p.ports.Local() {
		if !slices.Contains(p.node.Addresses.GetPodIPs(pod.ID), addr) {
			continue
		}
		for _, port := range pod.HostPorts {
			one := *pod
			one.HostPorts = []podmanager.HostPort{port}
			open, err := p.hostPorts.Open(&one)
			r := HostPortReport{Port: port.String(), PodPort: port.PodPort, Open: []netip.AddrPort{}}
			for _, f := range open.Frontends {
				r.Open = append(r.Open, f.Addr)
			}
			for _, f := range open.Redirects {
				at, _ := netip.ParseAddr(f.GetAddress())
				r.Open = append(r.Open, netip.AddrPortFrom(at, uint16(f.GetPort())))
			}
			if err != nil {
				r.Problems = strings.Split(err.Error(), "\n")
			}
			list = append(list, r)
		}
	}
	return list
}

func (p *reporter) reportOf(id processor.ID, full bool) ServiceReport {
	settings := p.proxy.Services.Explainer().Settings(id)
	r := ServiceReport{Namespace: id.Namespace, Name: id.Name, Limits: p.limitsOf(id),
		InternalTrafficPolicy: settings.Internal, ExternalTrafficPolicy: settings.External, HealthCheckNodePort: settings.HealthCheckNodePort}
	for _, ipv6 := range []bool{false, true} {
		svc := p.proxy.Services.Service(id, ipv6)
		if svc == nil {
			continue
		}
		r.Affinity = svc.Affinity
		used := map[processor.Endpoint]bool{}
		for _, f := range svc.Frontends {
			front := FrontendReport{Kind: f.Kind, Address: f.Addr.String(), Protocol: f.Protocol, Port: f.Port, Inside: len(f.Inside), Outside: len(f.Outside), Restricted: f.Restricted}
			if full && len(f.Inside) == 0 {
				front.NoneInside = p.proxy.Services.Explainer().NoEndpoint(id, f, false)
			}
			if full && len(f.Outside) == 0 {
				front.NoneOutside = p.proxy.Services.Explainer().NoEndpoint(id, f, true)
			}
			for _, p := range f.Sources {
				front.Sources = append(front.Sources, p.String())
			}
			for _, addr := range p.proxy.Entrances.HostAddresses(f) { // clients of these addresses are outside
				there := front
				there.Address, there.Inside, there.NoneInside = netip.AddrPortFrom(addr, f.Addr.Port()).String(), front.Outside, front.NoneOutside
				r.Frontends = append(r.Frontends, there)
			}
			r.Frontends = append(r.Frontends, front)
			for _, e := range slices.Concat(f.Inside, f.Outside) {
				used[e] = true
			}
		}
		r.Endpoints += len(used)
		if full {
			for _, e := range p.proxy.Services.Explainer().Endpoints(id, ipv6) {
				pod, listed := "", ""
				if e.Pod.Name != "" {
					pod = e.Pod.String()
				}
				if e.Interface != "" {
					listed = e.Listed.String()
				}
				r.Details = append(r.Details, EndpointReport{
					Address: e.Addr.String(), Interface: e.Interface, Listed: listed, Pod: pod, Protocol: e.Protocol, Port: e.Port, Node: e.Node, Zone: e.Zone,
					Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Inside: e.Inside, Outside: e.Outside, Why: e.Why,
				})
			}
		}
	}
	if full && len(r.Details) == 0 {
		r.Unserved = p.proxy.Services.Explainer().NoEndpoints(id)
	}
	for _, key := range p.proxy.Keys(id) {
		r.Values = append(r.Values, p.reportOfValue(key, full))
	}
	return r
}

func (p *reporter) reportOfValue(key string, full bool) ValueReport {
	if p.value == nil {
		return ValueReport{Key: key}
	}
	return p.value(key, full)
}

// limitsOf returns unsupported settings of a service, and addresses that it does not get.
func (p *reporter) limitsOf(id processor.ID) []string {
	services := p.proxy.Services.Explainer()
	texts := p.proxy.LimitsOf(id)
	for _, l := range services.LostBy(id) {
		texts = append(texts, fmt.Sprintf("%v/%s is one of %s, which has it", l.Addr, l.Protocol, l.HeldBy))
	}
	for _, r := range services.RefusedTo(id) {
		texts = append(texts, refusal(p.node, r)+": "+remedy(p.node, r))
	}
	texts = append(texts, services.ForeignRedirects(id)...)
	if closed := p.proxy.ClosedNodePorts(); closed != "" && p.proxy.Services.HasNodePorts(id) {
		texts = append(texts, closed)
	}
	return append(texts, p.proxy.NotCarried(id)...)
}
