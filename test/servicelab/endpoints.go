package servicelab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const (
	refused = "refused" // with an error at once
	ignored = "ignored"
)

// endpointCase is a service with the endpoints that answer: for clients of node1 and of node2
// at its cluster IP, and for clients of node1 and all other clients at its node port on node1.
type endpointCase struct {
	what            string
	spec            string
	ends            []end
	node1, node2    string
	inside, outside string
}

func everywhere(what, spec, answer string, ends ...end) endpointCase {
	return endpointCase{what, spec, ends, answer, answer, answer, answer}
}

func endpointCases() []endpointCase {
	return []endpointCase{
		everywhere("target ports that differ by pod", "", "near far:8081", end{pod: "near"}, end{pod: "far", port: 8081}),
		everywhere("an endpoint that is not ready", "", "near", end{pod: "near"}, end{pod: "far", conditions: notReady}),
		everywhere("none ready: endpoints that serve while they terminate", "", "near", end{pod: "near", conditions: terminating}, end{pod: "far", conditions: ended}),
		everywhere("one ready: none that terminates", "", "far", end{pod: "near", conditions: terminating}, end{pod: "far"}),
		everywhere("none that serves", "", refused, end{pod: "near", conditions: notReady}, end{pod: "far", conditions: ended}),
		everywhere("publishNotReadyAddresses", "publishNotReadyAddresses: true", "near far", end{pod: "near", conditions: notReady}, end{pod: "far"}),
		everywhere("an endpoint in two slices", "", "near far", ready("near", "near", "far")...),
		{"hints for zones", "trafficDistribution: PreferSameZone", []end{{pod: "near", hints: forZones("east")}, {pod: "near2", hints: forZones("east")}, {pod: "far", hints: forZones("west")}},
			"near near2", "far", "near near2", "near near2"},
		everywhere("a ready endpoint without hint", "trafficDistribution: PreferClose", "near far", end{pod: "near", hints: forZones("east")}, end{pod: "far"}),
		{"an endpoint without hint that is not ready", "", []end{{pod: "near", hints: forZones("east")}, {pod: "far", hints: forZones("west")}, {pod: "near2", conditions: notReady}},
			"near", "far", "near", "near"},
		{"no hint for the node's zone", "", []end{{pod: "near", hints: forZones("west")}, {pod: "far", hints: forZones("north")}},
			"near far", "near", "near far", "near far"},
		{"hints for nodes", "trafficDistribution: PreferSameNode", []end{{pod: "near", hints: forNodes("node1")}, {pod: "near2", hints: forNodes("node1")}, {pod: "far", hints: forNodes("node2")}},
			"near near2", "far", "near near2", "near near2"},
		{"no hint for the node: hints for its zone", "", []end{{pod: "near", hints: forNodes("node1") + ", " + forZones("west")}, {pod: "far", hints: forNodes("node1") + ", " + forZones("east")}},
			"near far", "near", "near far", "near far"},
		{"internalTrafficPolicy Local", "internalTrafficPolicy: Local", ready("near", "far"), "near", "far", "near far", "near far"},
		{"internalTrafficPolicy Local, none here", "internalTrafficPolicy: Local", ready("far"), refused, "far", "far", "far"},
		{"internalTrafficPolicy Local, the one here terminates", "internalTrafficPolicy: Local", []end{{pod: "near", conditions: terminating}, {pod: "far"}}, "near", "far", "far", "far"},
		{"externalTrafficPolicy Local", "externalTrafficPolicy: Local", ready("near", "far"), "near far", "near far", "near far", "near"},
		{"externalTrafficPolicy Local, the one here terminates", "externalTrafficPolicy: Local", []end{{pod: "near", conditions: terminating}, {pod: "far"}}, "far", "far", "far", "near"},
		{"externalTrafficPolicy Local, none here", "externalTrafficPolicy: Local", ready("far"), "far", "far", "far", ignored},
		{"both policies Local", "externalTrafficPolicy: Local\ninternalTrafficPolicy: Local", ready("near", "far"), "near", "far", "near far", "near"},
		{"externalTrafficPolicy Local with hints", "externalTrafficPolicy: Local", []end{{pod: "near", hints: forZones("west")}, {pod: "far", hints: forZones("east")}}, "far", "near", "far", "near"},
	}
}

// Endpoints checks the endpoints of each kind of client by conditions, hints and policies, over
// both IP versions, TCP and UDP, at cluster IPs and node ports.
func Endpoints(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	const first = 20
	cases := endpointCases()
	var objects strings.Builder
	for i, c := range cases {
		objects.WriteString(s.service(first+i, c.spec, c.ends...))
	}
	s.apply(t, objects.String())
	for i, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			var all sync.WaitGroup
			for _, from := range s.clients {
				all.Go(func() {
					for _, ipv6 := range []bool{false, true} {
						for _, network := range []string{"tcp", "udp"} {
							s.require(t, c, first+i, from, network, ipv6)
						}
					}
				})
			}
			all.Wait()
		})
	}
	second := netip.AddrPortFrom(clusterIP(first, false), 81)
	if err := s.answers(s.clients[0].netns, "tcp", second, "near:8082 far:8082"); err != nil {
		t.Errorf("the second port of a service: %v", err)
	}
	labtest.RequireQuietRestart(t, l, "node1")
}

// require checks the endpoints of a service for a client.
func (s *serviceLab) require(t *testing.T, c endpointCase, number int, from client, network string, ipv6 bool) {
	t.Helper()
	check := func(to netip.AddrPort, want string) {
		t.Helper()
		if s.vpp && want == refused && network == "udp" {
			want = "" // VPP refuses some connections
		}
		if err := s.answers(from.netns, network, to, want); err != nil {
			t.Errorf("%s by %s to %v: %v", from.who, network, to, err)
		}
	}
	at := netip.AddrPortFrom(clusterIP(number, ipv6), 80)
	switch from.node {
	case "node1":
		check(at, c.node1)
	case "node2":
		check(at, c.node2)
	}
	at = netip.AddrPortFrom(s.nodeIP(ipv6), uint16(30000+number))
	switch {
	case !s.vpp && from.node == "node1":
		check(at, c.inside)
	case s.vpp && unserved(c, from, network, ipv6):
	default:
		check(at, c.outside)
	}
}

// unserved reports whether VPP does not serve the client at a node port: docs/user/vpp-limits.md.
func unserved(c endpointCase, from client, network string, ipv6 bool) bool {
	noEndpoint := c.outside == refused || c.outside == ignored
	return noEndpoint && network == "udp" || // follows the routes
		from.who == "a process of the node" && ipv6 // the host's only IPv6 address is the one towards VPP
}

// answers returns an error unless exactly the named endpoints answer connections from a namespace.
// want may also be refused, ignored, or "" for either of them.
func (s *serviceLab) answers(netns, network string, to netip.AddrPort, want string) error {
	if want == refused || want == ignored || want == "" {
		return unanswered(netns, network, to, want)
	}
	const few, many = 6, 100 // with two endpoints, 100 connections miss one of them once in 2^100
	names := strings.Fields(want)
	seen := map[string]bool{}
	for n := 0; n < few || n < many && len(seen) < len(names); n++ {
		h, err := s.ask(netns, network, to)
		if err != nil {
			return fmt.Errorf("connection %d: %w", n+1, err)
		}
		if !slices.Contains(names, h.Name) {
			return fmt.Errorf("%s answers, want %s", h.Name, want)
		}
		seen[h.Name] = true
	}
	if len(seen) < len(names) {
		return fmt.Errorf("only %v answer, want %s", slices.Sorted(maps.Keys(seen)), want)
	}
	return nil
}

func unanswered(netns, network string, to netip.AddrPort, want string) error {
	var err error
	var took time.Duration
	for range 2 { // the kernel limits ICMP errors
		begun := time.Now()
		if _, err = labtest.AskName(netns, network, to); err == nil {
			return fmt.Errorf("answered, want it %s", want)
		}
		if want == "" {
			return nil
		}
		if took = time.Since(begun); want == ignored || !timedOut(err) {
			break
		}
	}
	if want == ignored && errors.Is(err, syscall.EPERM) {
		return nil // dropped on the node of the process; the kernel reports an error
	}
	told := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
	if told != (want == refused) || told && took > 2*time.Second {
		return fmt.Errorf("%w after %v, want it %s", err, took, want)
	}
	return nil
}
