package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
)

// warnings reports deviations from service.conf. It changes nothing.
type warnings struct{ view }

// all returns deviations from service.conf, failed health check ports, and pods without host ports.
func (w *warnings) all() []string { return append(w.proxyWarnings(), w.closedHostPorts()...) }

// notes returns limits that cannot be fixed on the node, and whether services are left to
// kube-proxy.
func (w *warnings) notes() []string {
	notes := w.translators.notes()
	if w.proxy == nil {
		return notes
	}
	if text := w.closedNodePorts(); text != "" {
		notes = append(notes, text)
	}
	if text := w.externalIPs(); text != "" {
		notes = append(notes, text)
	}
	if text := w.proxy.Tracking.Problem(); text != "" {
		notes = append(notes, text)
	}
	return append(notes, w.limits(func(limit string) bool { return limit != proxy.LimitNoResets })...)
}

func (w *warnings) limits(selected func(limit string) bool) []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.proxy.Limits(selected)
}

func (w *warnings) proxyWarnings() []string {
	if w.proxy == nil {
		return nil
	}
	t := w.translators.translator()
	if t.Setting != config.VSwitch || t.OtherProxy == "" {
		problems := slices.Concat(w.proxy.Health.PortProblems(), w.limits(func(limit string) bool { return limit == proxy.LimitNoResets }), w.lostClaims(), w.refusedServices(), w.tooLarge())
		if off := w.segmentsOff(); off != "" {
			problems = append(problems, "useSRv6ForServices has no effect at present: "+off)
		}
		if problem := w.proxy.Health.NodeProblem(); problem != "" {
			problems = append(problems, problem)
		}
		return problems
	}
	return []string{fmt.Sprintf("services are not translated by the vswitch, as service.conf wants it: found %s; stop kube-proxy and run kube-proxy --cleanup, or set services: auto", t.OtherProxy)}
}

func (w *warnings) segmentsOff() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.proxy.SegmentsOff()
}

func (w *warnings) lostClaims() []string {
	const most = 3
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.proxy.Translates() {
		return nil
	}
	var texts []string
	lost := w.proxy.Services.Explainer().Lost()
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

func (w *warnings) refusedServices() []string {
	const most = 3
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.proxy.Translates() {
		return nil
	}
	var texts []string
	refused := w.proxy.Services.Explainer().Refused()
	for _, r := range refused[:min(len(refused), most)] {
		texts = append(texts, fmt.Sprintf("%v: %s", r.ID, refusal(w.node, r)))
	}
	switch more := len(refused) - most; {
	case len(refused) == 0:
		return nil
	case more > 0:
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return []string{"services request addresses and ports reserved for nodes and do not get them (see `contivctl services NAMESPACE/NAME`): " + strings.Join(texts, "; ")}
}

func (w *warnings) tooLarge() (texts []string) {
	const most = 3
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.proxy.Translates() {
		return nil
	}
	ids := w.proxy.Services.Explainer().AllTooLarge()
	for _, id := range ids[:min(len(ids), most)] {
		texts = append(texts, notTranslated(id, w.proxy.Services.Explainer().TooLarge(id)))
	}
	if more := len(ids) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more services are not translated, because they come to too much", more))
	}
	return texts
}

func (w *warnings) closedNodePorts() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	if !slices.ContainsFunc(w.proxy.Services.IDs(), w.proxy.Services.HasNodePorts) {
		return ""
	}
	return w.proxy.ClosedNodePorts()
}

func (w *warnings) externalIPs() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.proxy.Translates() {
		return ""
	}
	return w.proxy.ExternalIPs.Note()
}

func (w *warnings) closedHostPorts() (texts []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, text := range w.hostPorts.Problems() {
		texts = append(texts, strings.ReplaceAll(text, "\n", "; "))
	}
	const most = 3
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("%d more pods are without host ports: `contivctl explain POD` says why", more))
	}
	return texts
}
