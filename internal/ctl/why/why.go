package why

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
)

// Verdicts on a path.
const (
	Reached    = "reached"
	Narrow     = "large packets are lost"
	NotReached = "not reached"
	// SomeStopped: paths to some endpoints of a service do not work.
	SomeStopped = "not all endpoints are reached"
	// NoOverlay: the end is reached, perhaps around the tunnel that pods' packets take.
	NoOverlay = "the destination is reached, but the overlay between the nodes does not answer"
	// AnsweredByNode: a node answers instead of the end.
	AnsweredByNode = "not reached: a node with the same address answers instead"
	NotProbed      = "not probed" // no agent is at the source
	// Pinged is the best verdict for UDP and SCTP: only the server could answer on the port.
	Pinged = "the destination answers pings; the port is not probed"
)

// Answer holds the findings about a path.
type Answer struct {
	From     Place  `json:"from"`
	To       Place  `json:"to"`
	Protocol string `json:"protocol,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Verdict  string `json:"verdict"`
	// Last is the last hop that answered, if the end did not.
	Last     string                `json:"last,omitempty"`
	Findings []pathexplain.Finding `json:"findings"`
	// PossibleCauses lists filters and programs with an unknown effect.
	PossibleCauses []pathexplain.Finding `json:"doubts,omitempty"`
	Probes         []pathexplain.Probe   `json:"probes"`
	Way            []string              `json:"way"`
	// Endpoints of a service with judged paths.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Stale lists the nodes with outdated views of the cluster, with reasons.
	Stale []string `json:"stale,omitempty"`
	// Untried explains how to try the path if no agent could.
	Untried string `json:"untried,omitempty"`
}

// Ask asks all agents and compares their answers. Agents at the ends know the path; a service also
// has a path to each endpoint.
func Ask(ctx context.Context, agents []*target.Agent, known Places, from, to Place, protocol string, port uint16) Answer {
	carried, changed := from.carriedTo(ctx, agents, to, protocol, port)
	from = carried
	a, reports := ask(ctx, agents, from, to, nil, protocol, port, false)
	if changed {
		a.Way = append([]string{fmt.Sprintf("node %s: its own processes send to %s from %s, as the route says", from.Node, to.Address, from.Address)}, a.Way...)
	}
	var entrances, endpoints []netip.AddrPort
	seen := map[netip.AddrPort][]netip.Addr{}
	var interfaces []pathexplain.PodInterface
	for _, r := range reports {
		entrances, endpoints = append(entrances, r.Entrances...), append(endpoints, r.Endpoints...)
		interfaces = append(interfaces, r.Interfaces...)
		for _, s := range r.Sightings {
			seen[s.Endpoint] = append(seen[s.Endpoint], s.Source)
		}
	}
	a.endpoints(ctx, agents, known.with(interfaces), endpoints, seen)
	a.suspect(reports)
	a.otherVersion()
	a.onHost()
	if to.isService() && from.Node == "" && len(reports) > 0 && len(endpoints) == 0 && len(a.Findings) == 0 {
		a.Findings = append(a.Findings, pathexplain.Finding{Where: to.Name, Text: "no node has an endpoint for connections of this client"})
	}
	if a.Verdict == NotProbed && to.isService() && from.Node != "" && len(endpoints) == 0 && len(a.Findings) > 0 {
		a.Verdict = NotReached
	}
	if a.Verdict == NotProbed && (!to.isService() || len(entrances)+len(a.Probes) > 0) {
		at := netip.AddrPortFrom(to.addr(), port)
		if len(entrances) > 0 {
			at = a.enter(ctx, agents, known, entrances)
		}
		a.Untried = fmt.Sprintf("no probe was sent, because no agent can send from %s; try it there: `%s`", from.Address, trial(protocol, at))
		if len(a.Probes) > 0 {
			a.Untried = fmt.Sprintf("only pings were sent, which do not test the port; try it from %s: `%s`", from.Address, trial(protocol, at))
		}
	}
	return a
}

// carriedTo returns the place with the source address of its packets to another place, and whether
// that differs from its own. For processes of a node, its agent asks the kernel, which follows
// policy rules.
func (p Place) carriedTo(ctx context.Context, agents []*target.Agent, to Place, protocol string, port uint16) (Place, bool) {
	i := slices.IndexFunc(agents, func(a *target.Agent) bool { return a.Name == p.Node })
	if !p.process || i < 0 || to.process && to.Node == p.Node {
		return p, false
	}
	query := url.Values{"from": {p.Address}, "to": {to.Address}, pathexplain.SourceOnly: {"true"}}
	setPort(query, protocol, port)
	var answer pathexplain.Report
	err := agents[i].Get(ctx, pathexplain.URL, query, &answer)
	if err != nil || !answer.Sends.IsValid() || answer.Sends == p.addr() {
		return p, false
	}
	p.others = append(slices.Clone(p.others), p.addr())
	p.Address = answer.Sends.String()
	return p, true
}

// otherVersion adds a note if the ends also have addresses of the other IP version and the end is a
// service.
func (a *Answer) otherVersion() {
	version, other := 4, 6
	if a.To.addr().Is6() {
		version, other = 6, 4
	}
	differs := func(addr netip.Addr) bool { return addr.Is4() != a.To.addr().Is4() }
	if i := slices.IndexFunc(a.To.others, differs); i >= 0 && a.To.isService() && slices.ContainsFunc(a.From.others, differs) {
		a.Way = append(a.Way, fmt.Sprintf("checked: IPv%d; for IPv%d, use %v with the port", version, other, a.To.others[i]))
	}
}

// onHost adds a note that policies do not apply to pods on their node's network.
func (a *Answer) onHost() {
	for _, end := range []Place{a.From, a.To} {
		if end.onHost {
			a.Way = append(a.Way, fmt.Sprintf("%s uses the network of node %s (hostNetwork): network policies match it by its address %s (ipBlock), not by its labels", end.Name, end.Node, end.Address))
		}
	}
}

// suspect adds the reasons why connections fail although paths to endpoints work. If no path works,
// they are not needed.
func (a *Answer) suspect(reports []pathexplain.Report) {
	silent := slices.ContainsFunc(a.Probes, func(p pathexplain.Probe) bool { return p.End && p.Kind == "tcp" && !p.Answered })
	open := len(a.Endpoints) == 0 || slices.ContainsFunc(a.Endpoints, func(e Endpoint) bool { return !e.stopped() })
	explained := len(a.Endpoints) > 0 && !slices.ContainsFunc(a.Endpoints, func(e Endpoint) bool { return !e.stopped() && !e.wrong })
	for _, r := range reports {
		switch {
		case a.connected():
		case (a.Verdict == NotReached || silent) && open:
			a.Findings = append(a.Findings, r.Suspects...)
		case explained:
		default:
			a.PossibleCauses = append(a.PossibleCauses, r.Suspects...)
		}
	}
}

// enter judges an external client's paths to the entrances, or to some of many. It returns one
// entrance, preferably one without findings.
func (a *Answer) enter(ctx context.Context, agents []*target.Agent, known Places, entrances []netip.AddrPort) netip.AddrPort {
	slices.SortFunc(entrances, netip.AddrPort.Compare)
	entrances = slices.Compact(entrances)
	chosen := spread(entrances)
	paths := each(chosen, func(at netip.AddrPort) (one Answer) {
		if place := known.at(at.Addr()); place.Node != "" { // else the client's network leads there
			one, _ = ask(ctx, agents, a.From, place, nil, a.Protocol, at.Port(), false)
		}
		return one
	})
	for _, one := range paths {
		a.addFindings(one)
	}
	if open := slices.IndexFunc(paths, func(one Answer) bool { return len(one.Findings) == 0 }); open >= 0 {
		return chosen[open]
	}
	return chosen[0]
}

func setPort(query url.Values, protocol string, port uint16) {
	if protocol != "" {
		query.Set("protocol", protocol)
		query.Set("port", strconv.Itoa(int(port)))
	}
}

// trial returns a command that sends the packets of contivctl why.
func trial(protocol string, to netip.AddrPort) string {
	switch protocol {
	case "tcp":
		return fmt.Sprintf("nc -vz %v %d", to.Addr(), to.Port())
	case "udp":
		return fmt.Sprintf("nc -vzu %v %d", to.Addr(), to.Port())
	case "sctp":
		return fmt.Sprintf("ncat --sctp -v %v %d", to.Addr(), to.Port())
	}
	return fmt.Sprintf("ping %v", to.Addr())
}

// ask asks all agents about the path to an address. seen lists the source addresses that policies
// see, if different; ofService marks a path from a service to To.
func ask(ctx context.Context, agents []*target.Agent, from, to Place, seen []netip.Addr, protocol string, port uint16, ofService bool) (Answer, []pathexplain.Report) {
	query := url.Values{"from": {from.Address}, "to": {to.Address}}
	if ofService {
		query.Set("ofService", "true")
	}
	if from.process {
		query.Set("fromNode", from.Node)
	}
	slices.SortFunc(seen, netip.Addr.Compare)
	for _, addr := range slices.Compact(seen) {
		query.Add("seen", addr.String())
	}
	setPort(query, protocol, port)
	a := Answer{From: from, To: to, Protocol: protocol, Port: port, Verdict: NotProbed}
	var reports []pathexplain.Report
	for _, r := range target.GetAll[pathexplain.Report](ctx, agents, pathexplain.URL, query) {
		switch {
		case r.Err == nil:
			reports = append(reports, r.Value)
		case errors.Is(r.Err, target.ErrNotServed):
			a.Findings = append(a.Findings, pathexplain.Finding{Where: "node " + r.Agent.Name,
				Text: "its agent does not report pods and paths: it runs without Kubernetes (--standalone) or is older than contivctl"})
		case concerned(r.Agent.Name, from, to):
			a.Findings = append(a.Findings, pathexplain.Finding{Where: "node " + r.Agent.Name,
				Text: fmt.Sprintf("its agent does not answer (%v): drift is not repaired, and new pods get no network", r.Err)})
		}
	}
	slices.SortStableFunc(reports, func(x, y pathexplain.Report) int { return order(x) - order(y) })
	var others []pathexplain.Report
	for _, r := range reports {
		if !r.Source && !r.Destination {
			others = append(others, r)
			continue
		}
		a.Findings = append(a.Findings, r.Findings...)
		a.PossibleCauses = append(a.PossibleCauses, r.Unjudged...)
		a.Way = append(a.Way, r.Way...)
		a.Probes = append(a.Probes, r.Probes...)
	}
	a.anyNode(others)
	a.Stale = stale(reports)
	a.Findings = append(a.Findings, wrongNeighbours(reports)...)
	for _, r := range reports {
		if r.Unheard != nil && !a.connected() {
			a.Findings = append(a.Findings, *r.Unheard)
		}
	}
	a.judge(slices.ContainsFunc(reports, func(r pathexplain.Report) bool { return r.NoEcho }))
	if slices.ContainsFunc(reports, func(r pathexplain.Report) bool { return r.LocalConflict }) && a.Verdict != NotReached && a.Verdict != NotProbed {
		a.Verdict = AnsweredByNode
	}
	return a, reports
}

// stale lists the nodes that do not follow changes, one line per reason.
func stale(reports []pathexplain.Report) (lines []string) {
	nodes := map[string][]string{}
	for _, r := range reports {
		if r.Stale != "" {
			nodes[r.Stale] = append(nodes[r.Stale], r.Node)
		}
	}
	return text.Stale(nodes)
}

// concerned reports whether a node may affect a path. The client's node translates services.
func concerned(node string, from, to Place) bool {
	switch {
	case node == from.Node || node == to.Node, from.Node == "":
		return true
	case to.isService():
		return false
	}
	return to.Node == ""
}

// anyNode adds the answers of nodes at which external clients may enter. A problem counts for the
// client only if all nodes have it.
func (a *Answer) anyNode(reports []pathexplain.Report) {
	const shown = 5
	open := slices.ContainsFunc(reports, func(r pathexplain.Report) bool { return len(r.Endpoints) > 0 })
	var texts []string
	nodes := map[string][]string{}
	for i, r := range reports {
		for _, f := range r.Findings {
			if nodes[f.Text] == nil {
				texts = append(texts, f.Text)
			}
			nodes[f.Text] = append(nodes[f.Text], r.Node)
		}
		if i < shown {
			a.Way = append(a.Way, r.Way...)
		}
	}
	for _, text := range texts {
		where := "node " + nodes[text][0]
		if more := len(nodes[text]) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		if open {
			a.Way = append(a.Way, where+": "+text)
		} else {
			a.Findings = append(a.Findings, pathexplain.Finding{Where: where, Text: text})
		}
	}
	if more := len(reports) - shown; more > 0 && len(a.Way) > 0 {
		a.Way = append(a.Way, fmt.Sprintf("%d more nodes: see `contivctl services`", more))
	}
}

// order sorts reports from the source to the destination.
func order(r pathexplain.Report) int {
	if r.Source {
		return 0
	}
	return 1
}

// wrongNeighbours compares the nodes' neighbour entries for each other with their real addresses.
func wrongNeighbours(reports []pathexplain.Report) (findings []pathexplain.Finding) {
	for _, r := range reports {
		for _, n := range r.Neighbours {
			for _, other := range reports {
				for _, link := range other.Links {
					if other.Node == r.Node || link.Address != n.Address || link.MAC == n.MAC {
						continue
					}
					kind := "a neighbour"
					if n.Permanent {
						kind = "a permanent neighbour, added manually"
					}
					findings = append(findings, pathexplain.Finding{Where: "node " + r.Node, Text: fmt.Sprintf(
						"its neighbour entry for %s of node %s is %s (%s on %s), but the node has %s: run `ip neigh del %s dev %s`", n.Address, other.Node, n.MAC, kind, n.Device, link.MAC, n.Address, n.Device)})
				}
			}
		}
	}
	return findings
}

// judge derives the verdict from probes. ICMP probes to the end count unless they are refused or
// the port answers.
func (a *Answer) judge(noEcho bool) {
	connected := a.connected()
	arrived := Reached
	if a.Protocol == "udp" || a.Protocol == "sctp" {
		arrived = Pinged
	}
	// If a connection works but pings do not, pings are filtered. Then a failed ping of the overlay
	// proves nothing.
	pinged := slices.ContainsFunc(a.Probes, func(p pathexplain.Probe) bool { return p.End && p.Kind != "tcp" && p.Answered })
	overlay := true
	for _, p := range a.Probes {
		if p.Overlay && !p.Answered && (pinged || !connected) {
			overlay = false
		}
		switch {
		case p.End && p.Kind == "icmp" && !p.Answered && (noEcho || connected):
		case p.End && !p.Answered, p.End && p.Kind == "udp" && !connected && a.dropped(): // the answer to a knock may pass
			a.Verdict = NotReached
		case (p.End || p.Overlay) && p.Wanted > 0 && p.Size < p.Wanted && a.Verdict != NotReached && a.Verdict != Narrow:
			a.Verdict = Narrow
			lost := fmt.Sprintf("packets larger than %d bytes are lost, but pods send up to %d", p.Size, p.Wanted)
			if p.Kind == "udp" {
				lost = fmt.Sprintf("packets of %d bytes are lost, but pods send such packets", p.Wanted)
			}
			a.Findings = append(a.Findings, pathexplain.Finding{Where: "path", Text: lost + ": raise the MTU of the network between the nodes, or set mtuSize"})
		case p.End && a.Verdict == NotProbed:
			a.Verdict = arrived
		}
		if !p.End && p.Answered {
			a.Last = p.To
		}
	}
	if !overlay && (a.Verdict == Reached || a.Verdict == Pinged) {
		a.Verdict = NoOverlay
	}
	if a.Verdict != NotReached || a.refused() {
		a.Last = ""
	}
}

// connected reports whether the end accepted a connection.
func (a *Answer) connected() bool {
	return slices.ContainsFunc(a.Probes, func(p pathexplain.Probe) bool { return p.End && p.Kind == "tcp" && p.Answered })
}

// dropped reports whether packets or replies are known to be dropped.
func (a *Answer) dropped() bool {
	return slices.ContainsFunc(a.Findings, func(f pathexplain.Finding) bool { return strings.Contains(f.Text, "are dropped") })
}

// refused reports whether a connection was rejected.
func (a *Answer) refused() bool {
	return slices.ContainsFunc(a.Probes, func(p pathexplain.Probe) bool { return p.End && p.Error == pathexplain.Refused })
}

// Good reports whether packets arrive without findings.
func (a Answer) Good() bool {
	return (a.Verdict == Reached || a.Verdict == Pinged) && len(a.Findings) == 0
}

// Unknown reports whether no problem is known and nothing was sent.
func (a Answer) Unknown() bool { return a.Verdict == NotProbed && len(a.Findings) == 0 }

// Write prints an answer for people.
func Write(p text.Printer, a Answer) {
	port := ""
	if a.Port > 0 {
		port = fmt.Sprintf(", port %d/%s", a.Port, a.Protocol)
	}
	verdict := a.Verdict
	switch {
	case a.refused():
		verdict += "; the connection is refused"
	case a.Last != "":
		verdict += "; the last that answers is " + a.Last
	}
	write(p, fmt.Sprintf("%v → %v%s: %s", a.From, a.To, port, verdict))
	if len(a.Stale) > 0 {
		write(p, a.Stale...)
	}
	if len(a.Findings) > 0 {
		p.Printf("\n")
		t := p.Table("WHERE", "FINDING")
		for _, f := range a.Findings {
			t.Add(f.Where, f.Text)
		}
		t.Print()
	} else if text := a.hint(); text != "" {
		p.Printf("\n")
		write(p, text)
	}
	way := slices.Clone(a.Way)
	switch {
	case len(a.PossibleCauses) == 0:
	case a.Verdict == Reached: // past them
		for _, d := range a.PossibleCauses {
			way = append(way, d.Where+": "+d.Text)
		}
	case a.dropped(): // for sure
		p.Printf("\n")
		write(p, a.morePossibleCauses())
	default:
		p.Printf("\n")
		t := p.Table("WHERE", "POSSIBLE CAUSE")
		for _, d := range a.PossibleCauses {
			t.Add(d.Where, d.Text)
		}
		t.Print()
	}
	if a.Untried != "" {
		p.Printf("\n")
		write(p, strings.ToUpper(a.Untried[:1])+a.Untried[1:]+".")
	}
	if len(a.Probes) > 0 {
		p.Printf("\n")
		t := p.Table("PROBE FROM", "KIND", "ROUND-TRIP", "LARGEST", "TO")
		for _, probe := range a.Probes {
			took, largest := "no answer", ""
			switch {
			case probe.Answered:
				took = time.Duration(probe.RoundTripSeconds * float64(time.Second)).Round(time.Microsecond).String()
			case probe.Error == pathexplain.Refused:
				took = "refused"
			case probe.Error != "" && probe.Error != took:
				took, probe.To = "failed", probe.To+": "+probe.Error
			}
			if probe.Kind == "udp" {
				probe.To += ", which answers no pings"
			}
			if probe.Wanted > 0 {
				largest = fmt.Sprintf("%d of %d", probe.Size, probe.Wanted)
			}
			t.Add(probe.From, probe.Kind, took, largest, probe.To)
		}
		t.Print()
	}
	if len(way) > 0 {
		p.Printf("\n")
		write(p, way...)
	}
}

// morePossibleCauses returns a line about possible causes in addition to a certain one.
func (a Answer) morePossibleCauses() string {
	if n := len(a.PossibleCauses); n > 1 {
		return fmt.Sprintf("%d more rules or programs may drop packets and are not evaluated: see `-o json`.", n)
	}
	return "1 more rule or program may drop packets and is not evaluated: see `-o json`."
}

// hint names where to look if no problem was found.
func (a Answer) hint() string {
	switch {
	case len(a.PossibleCauses) > 0 && (a.Verdict == NotReached || a.Verdict == NoOverlay):
		return "No certain cause was found on the nodes, but these may stop the packets:"
	case a.refused():
		return "No problem was found on the nodes: no process listens on the port, or the destination rejects connections."
	case a.Verdict == NotReached:
		return "No problem was found on the nodes: check the path from the last hop that answers to the destination, and the destination itself."
	case a.Verdict == NoOverlay:
		return "No problem was found on the nodes: check that the network between them passes tunnel packets (VXLAN, UDP port 4789)."
	}
	return ""
}

// write prints lines, wrapped on a narrow terminal.
func write(p text.Printer, lines ...string) {
	if !p.Terminal {
		p.Printf("%s\n", strings.Join(lines, "\n"))
		return
	}
	t := p.Table("")
	for _, line := range lines {
		t.Add(line)
	}
	t.Print()
}
