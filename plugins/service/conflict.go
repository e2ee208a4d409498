package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/service/config"
)

// OthersPeriod is the interval of checks for other service proxies.
const OthersPeriod = 5 * time.Second

// proxyDetector records the service proxy found by the last resync. It is safe for concurrent use.
type proxyDetector struct {
	mu       sync.Mutex
	known    bool
	evidence string // "" for none
	since    time.Time
}

func (d *proxyDetector) scan(find func() (string, error)) string {
	evidence := detect(find)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known || d.evidence != evidence {
		d.since = time.Now()
	}
	d.known, d.evidence = true, evidence
	return evidence
}

// detect returns the evidence of another proxy, or "". An error counts as evidence, because translating
// twice is worse than not translating.
func detect(find func() (string, error)) string {
	evidence, err := find()
	if err != nil {
		return fmt.Sprint(err)
	}
	return evidence
}

// last returns the result of the last scan; known is false before the first one.
func (d *proxyDetector) last() (evidence string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.evidence, d.known
}

func (d *proxyDetector) detectedAt() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}

func (s *Service) logConflict(ctx context.Context) {
	log := controller.Logger(ctx, s.log)
	if s.proxy.Settings.Services == config.Auto {
		log.Info("Service proxy disabled: another proxy found", "found", s.conflictingProxy)
		return
	}
	log.Error("Service proxy disabled: conflicting proxy found",
		"found", s.conflictingProxy)
}

// WatchOthers calls resync when another service proxy appears or disappears, or when reservations change,
// until ctx ends. It repeats the call after an error. It also retries health check ports and conntrack
// settings that failed.
func (s *Service) WatchOthers(ctx context.Context, period time.Duration, resync func() error) {
	if s.proxy == nil {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for requested := (*string)(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.health.Retry()
		s.healthz.Retry()
		s.tracking.retry()
		who := detect(s.proxy.Others)
		last, known := s.detector.last()
		if s.findHostProxy != nil {
			lastOnHost, _ := s.hostDetector.last()
			who, last = who+" "+detect(s.findHostProxy), last+" "+lastOnHost
		}
		switch {
		case !known: // the first resync checks itself
		case who == last && s.needsDiffer(ctx):
			_ = resync() // it fails during another resync or shutdown: the next tick retries
		case who == last:
			requested = nil
		case requested != nil && *requested == who: // the resync is pending
		case resync() == nil:
			requested = &who
		}
	}
}

// Translator describes the service proxy of this node.
type Translator struct {
	// VSwitch is set if the vswitch translates services.
	VSwitch bool `json:"vswitch"`
	// Setting is the value of services in service.conf.
	Setting string `json:"setting"`
	// Others is the trace of another service proxy, such as a table of kube-proxy. While it exists,
	// the vswitch does not translate.
	Others string `json:"others,omitempty"`
	// Since is the time of the first detection by this agent.
	Since time.Time `json:"since,omitzero"`
}

// Proxies reports whether the vswitch should translate services without another proxy.
func (s *Service) Proxies() bool { return s.proxy != nil }

// Translator returns the service proxy found by the last resync.
func (s *Service) Translator() Translator {
	if s.proxy == nil {
		return Translator{Setting: config.KubeProxy}
	}
	who, known := s.detector.last()
	t := Translator{VSwitch: known && who == "", Setting: s.proxy.Settings.Services, Others: who}
	if who != "" {
		t.Since = s.detector.detectedAt()
	}
	return t
}

func (t Translator) left() string {
	return fmt.Sprintf("services on this node are left to kube-proxy since %s, because of %s: if no kube-proxy runs here, remove its rules with kube-proxy --cleanup",
		t.Since.Format("2006-01-02 15:04:05 MST"), t.Others)
}

func (s *Service) leftNotes() []string {
	switch t := s.Translator(); {
	case t.Setting == config.Auto && t.Others != "":
		return []string{t.left()}
	case s.proxy == nil && s.findKubeProxy != nil && detect(s.findKubeProxy) == "":
		return []string{noKubeProxy + ": cluster IPs lead nowhere, unless something else translates them; " + noKubeProxyRemedy}
	}
	return nil
}

const (
	noKubeProxy       = "services are left to kube-proxy (services: kube-proxy in service.conf), and nothing of it is on this node"
	noKubeProxyRemedy = "start kube-proxy, or set services: auto"
)

func (s *Service) suspect() string {
	if s.proxy != nil {
		return s.Translator().left()
	}
	if s.findKubeProxy == nil {
		return "services on this node are left to kube-proxy"
	}
	if who := detect(s.findKubeProxy); who != "" {
		return fmt.Sprintf("services are left to kube-proxy (services: kube-proxy in service.conf), which does not translate this one, despite %s: check that it runs", who)
	}
	return noKubeProxy + ": " + noKubeProxyRemedy
}

// Warnings returns deviations from service.conf, failed health check ports, and pods without host
// ports.
func (s *Service) Warnings() []string { return append(s.proxyWarnings(), s.lostHostPorts()...) }

func (s *Service) lostHostPorts() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.lostPorts {
		texts = append(texts, strings.ReplaceAll(text, "\n", "; "))
	}
	slices.Sort(texts)
	const most = 3
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("%d more pods are without host ports: `contivctl explain POD` says why", more))
	}
	return texts
}

func (s *Service) proxyWarnings() []string {
	if s.proxy == nil {
		return nil
	}
	t := s.Translator()
	if t.Setting != config.VSwitch || t.Others == "" {
		problems := slices.Concat(s.health.Problems(), s.limits(func(limit string) bool { return limit == limitNoResets }), s.lostClaims(), s.refusedServices(), s.tooLarge())
		problems = append(problems, s.segmentWarnings()...)
		if problem := s.healthz.Problem(); problem != "" {
			problems = append(problems, problem)
		}
		return problems
	}
	return []string{fmt.Sprintf("services are not translated by the vswitch, as service.conf wants it: found %s; stop kube-proxy and run kube-proxy --cleanup, or set services: auto", t.Others)}
}

func (s *Service) lostClaims() []string {
	const most = 3
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.translates() {
		return nil
	}
	var texts []string
	lost := s.services.Lost()
	for _, l := range lost[:min(len(lost), most)] {
		texts = append(texts, fmt.Sprintf("%v/%s of %s is one of %s", l.Addr, l.Protocol, l.ID, l.HeldBy))
	}
	switch more := len(lost) - most; {
	case len(lost) == 0:
		return nil
	case more > 0:
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return []string{"services request addresses and ports in use and do not get them: " + strings.Join(texts, ", ")}
}

func (s *Service) tooLarge() (texts []string) {
	const most = 3
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.translates() {
		return nil
	}
	ids := s.services.AllTooLarge()
	for _, id := range ids[:min(len(ids), most)] {
		texts = append(texts, fmt.Sprintf("service %s is not translated: %s", id, s.services.TooLarge(id)))
	}
	if more := len(ids) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more services are not translated, because they come to too much", more))
	}
	return texts
}
