package why

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/ctl/text"
	"github.com/contiv/contiv/health/path"
)

// Verdicts on a path.
const (
	Reached    = "reached"
	Narrow     = "large packets are lost"
	NotReached = "not reached"
	NotProbed  = "not probed" // no agent is where the packets come from
	// Pinged is as far as it can be known of UDP: only who serves the port could answer.
	Pinged = "the end answers pings; UDP is not probed"
)

// Answer has the findings about a path.
type Answer struct {
	From     Place  `json:"from"`
	To       Place  `json:"to"`
	Protocol string `json:"protocol,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Verdict  string `json:"verdict"`
	// Last is the last hop that answered, if the end did not.
	Last     string         `json:"last,omitempty"`
	Findings []path.Finding `json:"findings"`
	Probes   []path.Probe   `json:"probes"`
	Way      []string       `json:"way"`
}

// Ask asks all agents and compares their answers. Those at the ends know something about the path.
func Ask(ctx context.Context, agents []*target.Agent, from, to Place, protocol string, port uint16) Answer {
	query := url.Values{"from": {from.Address}, "to": {to.Address}}
	if protocol != "" {
		query.Set("protocol", protocol)
		query.Set("port", strconv.Itoa(int(port)))
	}
	a := Answer{From: from, To: to, Protocol: protocol, Port: port, Verdict: NotProbed}
	var reports []path.Report
	for _, r := range target.GetAll[path.Report](ctx, agents, path.URL, query) {
		switch {
		case r.Err == nil:
			reports = append(reports, r.Value)
		case errors.Is(r.Err, target.ErrNotServed):
			a.Findings = append(a.Findings, path.Finding{Where: "node " + r.Agent.Name,
				Text: "its agent knows no pods and no paths: it runs without Kubernetes (--standalone), or is older than this command"})
		case from.Node == "" || to.Node == "" || r.Agent.Name == from.Node || r.Agent.Name == to.Node:
			a.Findings = append(a.Findings, path.Finding{Where: "node " + r.Agent.Name,
				Text: fmt.Sprintf("its agent does not answer (%v): what is missing there is not repaired, and no pod is wired", r.Err)})
		}
	}
	slices.SortStableFunc(reports, func(x, y path.Report) int { return order(x) - order(y) })
	for _, r := range reports {
		a.Findings = append(a.Findings, r.Findings...)
		a.Way = append(a.Way, r.Way...)
		a.Probes = append(a.Probes, r.Probes...)
	}
	a.Findings = append(a.Findings, wrongNeighbours(reports)...)
	a.judge(slices.ContainsFunc(reports, func(r path.Report) bool { return r.NoEcho }))
	return a
}

// order returns the end that packets come from first.
func order(r path.Report) int {
	if r.Source {
		return 0
	}
	return 1
}

// wrongNeighbours compares the neighbour entries that nodes have for each other with the nodes' own addresses.
func wrongNeighbours(reports []path.Report) (findings []path.Finding) {
	for _, r := range reports {
		for _, n := range r.Neighbours {
			for _, other := range reports {
				for _, link := range other.Links {
					if other.Node == r.Node || link.Address != n.Address || link.MAC == n.MAC {
						continue
					}
					kind := "a neighbour"
					if n.Permanent {
						kind = "a permanent neighbour, which somebody made"
					}
					findings = append(findings, path.Finding{Where: "node " + r.Node, Text: fmt.Sprintf(
						"it sends to %s of node %s at %s (%s on %s), and that is at %s: run `ip neigh del %s dev %s`", n.Address, other.Node, n.MAC, kind, n.Device, link.MAC, n.Address, n.Device)})
				}
			}
		}
	}
	return findings
}

// judge derives the verdict from probes. ICMP probes to the end count unless they are refused, or the
// port answers.
func (a *Answer) judge(noEcho bool) {
	connected := slices.ContainsFunc(a.Probes, func(p path.Probe) bool { return p.End && p.Kind == "tcp" && p.Answered })
	arrived := Reached
	if a.Protocol == "udp" {
		arrived = Pinged
	}
	for _, p := range a.Probes {
		switch {
		case p.End && p.Kind == "icmp" && !p.Answered && (noEcho || connected):
		case p.End && !p.Answered:
			a.Verdict = NotReached
		case p.End && p.Wanted > 0 && p.Size < p.Wanted && a.Verdict != NotReached:
			a.Verdict = Narrow
			a.Findings = append(a.Findings, path.Finding{Where: "path", Text: fmt.Sprintf(
				"packets of more than %d bytes are lost, and pods send up to %d: raise the MTU of the network between the nodes, or set mtuSize", p.Size, p.Wanted)})
		case p.End && a.Verdict == NotProbed:
			a.Verdict = arrived
		case !p.End && p.Answered:
			a.Last = p.To
		}
	}
	if a.Verdict != NotReached || a.refused() {
		a.Last = ""
	}
}

// refused reports whether somebody answered that there is no connection.
func (a *Answer) refused() bool {
	return slices.ContainsFunc(a.Probes, func(p path.Probe) bool { return p.End && p.Error == path.Refused })
}

// Good reports whether packets arrive and there are no findings.
func (a Answer) Good() bool {
	return (a.Verdict == Reached || a.Verdict == Pinged || a.Verdict == NotProbed) && len(a.Findings) == 0
}

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
	p.Printf("%v → %v%s: %s\n", a.From, a.To, port, verdict)
	if len(a.Findings) > 0 {
		p.Printf("\n")
		t := p.Table("WHERE", "WHAT IS WRONG")
		for _, f := range a.Findings {
			t.Add(f.Where, f.Text)
		}
		t.Print()
	} else if a.refused() {
		p.Printf("\nNothing wrong was found on our nodes: nobody listens on the port, or the end rejects connections.\n")
	} else if a.Verdict == NotReached {
		p.Printf("\nNothing wrong was found on our nodes: look at what is between the last that answers and the end, and at the end itself.\n")
	}
	if len(a.Probes) > 0 {
		p.Printf("\n")
		t := p.Table("PROBE FROM", "KIND", "ROUND-TRIP", "LARGEST", "TO")
		for _, probe := range a.Probes {
			took, largest := "no answer", ""
			if probe.Answered {
				took = time.Duration(probe.RoundTripSeconds * float64(time.Second)).Round(time.Microsecond).String()
			} else if probe.Error != "" {
				took = probe.Error
			}
			if probe.Wanted > 0 {
				largest = fmt.Sprintf("%d of %d", probe.Size, probe.Wanted)
			}
			t.Add(probe.From, probe.Kind, took, largest, probe.To)
		}
		t.Print()
	}
	if len(a.Way) > 0 {
		p.Printf("\n")
		for _, line := range a.Way {
			p.Printf("%s\n", line)
		}
	}
}
