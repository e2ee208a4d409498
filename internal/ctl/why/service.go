package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// findService returns a service's cluster IPs as a place without a node.
func findService(ctx context.Context, agents []*target.Agent, namespace, word string) (Place, error) {
	if before, name, ok := strings.Cut(word, "/"); ok {
		namespace, word = before, name
	}
	name := cmp.Or(namespace, "default") + "/" + word
	var refused *target.StatusError
	var silent []string
	answered := false
	for _, a := range target.GetAll[service.Report](ctx, agents, service.URL, url.Values{"service": {name}}) {
		switch {
		case a.Err == nil, errors.Is(a.Err, target.ErrNotServed):
			answered = true
		case refused == nil && errors.As(a.Err, &refused): // and says why
		default:
			silent = append(silent, a.Agent.Name)
		}
		for _, s := range a.Value.Services {
			place := Place{Name: "service " + name}
			for _, f := range s.Frontends {
				addr, err := netip.ParseAddrPort(f.Address)
				if err != nil || f.Kind != processor.ClusterIP {
					continue
				}
				if port := (servicePort{f.Port, fmt.Sprintf("%d/%s", addr.Port(), strings.ToLower(string(f.Protocol)))}); !slices.Contains(place.ports, port) {
					place.ports = append(place.ports, port)
				}
				switch {
				case place.Address == "":
					place.Address = addr.Addr().String()
				default:
					place.others = append(place.others, addr.Addr())
				}
			}
			if place.Address != "" {
				return place, nil
			}
		}
	}
	switch {
	case refused != nil:
		return Place{}, refused
	case !answered && len(silent) > 0:
		return Place{}, fmt.Errorf("service %q is unknown, because no agent answers (%s): use its address", name, strings.Join(silent, ", "))
	}
	return Place{}, fmt.Errorf("no node implements service %q: use its address, or see `contivctl services`", name)
}

// servicePort is a port of a service, as in "80/tcp", with its optional name.
type servicePort struct{ name, port string }

// Port parses a port of the place: PORT[/PROTOCOL] or the name of a service's port. Without a word,
// it returns the only port of a service, and 0 for other places.
func (p Place) Port(word string) (protocol string, port uint16, err error) {
	switch {
	case word != "":
	case len(p.ports) == 0:
		return "", 0, nil
	case len(p.ports) > 1:
		return "", 0, fmt.Errorf("%v has several ports: use one of %s", p, p.portList())
	default:
		return parsePort(p.ports[0].port)
	}
	var names []string
	for _, one := range p.ports {
		if one.name == word {
			return parsePort(one.port)
		}
		if one.name != "" {
			names = append(names, one.name)
		}
	}
	protocol, port, err = parsePort(word)
	if err != nil && p.isService() && !strings.ContainsAny(word[:1], "0123456789") {
		return "", 0, text.Hinted(fmt.Errorf("%v has no port %q", p, word), word, names)
	}
	return protocol, port, err
}

// portList lists the ports of a service, such as "http (80/tcp) or 53/udp".
func (p Place) portList() string {
	var texts []string
	for _, one := range p.ports {
		text := one.port
		if one.name != "" {
			text = fmt.Sprintf("%s (%s)", one.name, one.port)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " or " + texts[len(texts)-1]
}

func (p Place) isService() bool { return len(p.ports) > 0 }

// Endpoint is the end of a path to a service.
type Endpoint struct {
	To      Place  `json:"to"`
	Port    uint16 `json:"port"`
	Verdict string `json:"verdict"`
	Last    string `json:"last,omitempty"`
	// wrong: something is on the way.
	wrong bool
}

func (e Endpoint) String() string {
	return "endpoint " + netip.AddrPortFrom(e.To.addr(), e.Port).String()
}

func (e Endpoint) stopped() bool {
	return e.Verdict == NotReached || e.Verdict == AnsweredByNode || e.Verdict == NoOverlay
}

// judged is the maximum number of endpoints whose paths are judged.
const judged = 5

// spread selects some of many endpoints, evenly over the list, because neighbours are often on the
// same node.
func spread(all []netip.AddrPort) (some []netip.AddrPort) {
	n := min(len(all), judged)
	for i := range n {
		some = append(some, all[i*len(all)/n])
	}
	return some
}

// endpoints judges the paths from the client to the endpoints.
func (a *Answer) endpoints(ctx context.Context, agents []*target.Agent, known Places, to []netip.AddrPort, seen map[netip.AddrPort][]netip.Addr) {
	slices.SortFunc(to, netip.AddrPort.Compare)
	to = slices.Compact(to)
	if len(to) == 0 {
		return
	}
	chosen := spread(to)
	if len(chosen) < len(to) {
		a.Way = append(a.Way, fmt.Sprintf("checked: the paths to %d of %d endpoints; check another one by its address", len(chosen), len(to)))
	}
	for _, one := range each(chosen, func(endpoint netip.AddrPort) Answer {
		one, _ := ask(ctx, agents, a.From, known.at(endpoint.Addr()), seen[endpoint], a.Protocol, endpoint.Port(), true)
		return one
	}) {
		a.add(one)
	}
	a.judgeEndpoints()
}

// each judges the paths to several places concurrently and keeps their order.
func each(places []netip.AddrPort, judge func(netip.AddrPort) Answer) []Answer {
	paths := make([]Answer, len(places))
	var all sync.WaitGroup
	for i, at := range places {
		all.Go(func() { paths[i] = judge(at) })
	}
	all.Wait()
	return paths
}

// addFindings adds the problems of a path.
func (a *Answer) addFindings(one Answer) {
	a.Findings, a.PossibleCauses = addNew(a.Findings, one.Findings), addNew(a.PossibleCauses, one.PossibleCauses)
}

// addNew appends the elements that the list lacks.
func addNew[T comparable](list, more []T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// add adds the path to an endpoint.
func (a *Answer) add(one Answer) {
	end := Endpoint{one.To, one.Port, one.Verdict, one.Last, len(one.Findings) > 0}
	a.Endpoints = append(a.Endpoints, end)
	a.addFindings(one)
	a.Way = addNew(a.Way, one.Way)
	for _, p := range one.Probes {
		p.End = false // the end is the service
		if !slices.ContainsFunc(a.Probes, func(o pathexplain.Probe) bool { return o.From == p.From && o.To == p.To && o.Kind == p.Kind }) {
			a.Probes = append(a.Probes, p)
		}
	}
	if end.stopped() {
		text := fmt.Sprintf("%v: %s", end.To, end.Verdict)
		if end.Last != "" {
			text += "; the last that answers is " + end.Last
		}
		a.Findings = append(a.Findings, pathexplain.Finding{Where: end.String(), Text: text})
	}
}

// judgeEndpoints derives the verdict on a service from its endpoints'. A connection to the service
// itself tests only one of them.
func (a *Answer) judgeEndpoints() {
	stopped := 0
	for _, e := range a.Endpoints {
		if e.stopped() {
			stopped++
		}
	}
	is := func(verdict string) bool {
		return slices.ContainsFunc(a.Endpoints, func(e Endpoint) bool { return e.Verdict == verdict })
	}
	switch {
	case stopped == len(a.Endpoints):
		a.Verdict, a.Last = NotReached, a.Endpoints[0].Last
	case stopped > 0:
		a.Verdict, a.Last = SomeStopped, ""
	case a.Verdict == NotReached:
	case is(Narrow):
		a.Verdict = Narrow
	case a.Verdict == NotProbed && !is(NotProbed):
		a.Verdict = a.Endpoints[0].Verdict
	}
}
