package why

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/ctl/text"
)

// No line exceeds the terminal, and nothing is missing.
func TestAnswersFitATerminal(t *testing.T) {
	pod := Place{Name: "pod shopping/frontend-of-the-shop-7d8f9c", Address: "10.1.1.2", Node: "worker-1.example.org"}
	a := Answer{
		From: pod, To: Place{Name: "service shopping/cart", Address: "10.96.0.11"}, Protocol: "tcp", Port: 80, Verdict: SomeStopped,
		Findings: []pathexplain.Finding{{Where: "node worker-1.example.org", Text: "packets from 10.1.1.2 to 10.1.2.2 are dropped: a rule of chain forward in table inet foreign drops the packet"}},
		Probes: []pathexplain.Probe{
			{From: pod.Name, To: "10.1.2.2 of the pods of node worker-2.example.org, port 8080/tcp", Kind: "icmp", Answered: true, RoundTripSeconds: 0.0001, Size: 1450, Wanted: 1450},
			{From: pod.Name, To: "10.1.2.3 of the pods of node worker-2.example.org, port 8080/tcp", Kind: "tcp", Error: pathexplain.Refused},
			{From: pod.Name, To: "10.1.2.4 of the pods", Kind: "tcp", Error: "network is unreachable"},
		},
		Way:     []string{"node worker-1.example.org: 10.96.0.11:80/TCP (ClusterIP of service shopping/cart): connections go to 10.1.2.2:8080, 10.1.2.3:8080, 10.1.2.4:8080"},
		Untried: "no probe was sent, because no agent can send from 203.0.113.77; try it there: `nc -vz 192.168.16.1 30080`",
	}
	var out bytes.Buffer
	Write(text.Printer{Writer: &out, Terminal: true, Width: 80}, a)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"not all endpoints are reached", "in table inet foreign drops the packet", "10.1.2.4:8080", "refused", "failed", "network is unreachable", "No probe was sent", "nc -vz 192.168.16.1 30080"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// A datagram to a closed port causes an ICMP error, which filters accept as related. It reaches the
// end although pings do not.
func TestAKnockPastRulesOfOthers(t *testing.T) {
	knock := pathexplain.Probe{From: "pod a/web", To: "pod a/db", Kind: "udp", Answered: true, Size: 1450, Wanted: 1450, End: true}
	dropped := pathexplain.Finding{Where: "node n", Text: "answers from 10.1.2.2 to 10.1.1.2 are dropped: a rule of chain theirs in table inet foreign drops the packet"}
	connection := pathexplain.Probe{From: "pod a/web", To: "pod a/db", Kind: "tcp", Answered: true, End: true}
	for name, c := range map[string]struct {
		answer Answer
		want   string
	}{
		"dropped":          {Answer{Findings: []pathexplain.Finding{dropped}, Probes: []pathexplain.Probe{knock}}, NotReached},
		"echo is ignored":  {Answer{Findings: []pathexplain.Finding{{Where: "node n", Text: "something else"}}, Probes: []pathexplain.Probe{knock}}, Reached},
		"the port answers": {Answer{Protocol: "tcp", Findings: []pathexplain.Finding{dropped}, Probes: []pathexplain.Probe{knock, connection}}, Reached},
	} {
		c.answer.Verdict = NotProbed
		if c.answer.judge(false); c.answer.Verdict != c.want {
			t.Errorf("%s: %s, want %s", name, c.answer.Verdict, c.want)
		}
	}
}

// Possible causes are listed unless a certain cause is known.
func TestPossibleCausesBelowACause(t *testing.T) {
	dropped := pathexplain.Finding{Where: "node n", Text: "packets from 10.1.1.2 to 10.1.2.2 are dropped: a rule of chain theirs in table inet foreign drops the packet"}
	doubts := []pathexplain.Finding{{Where: "node n", Text: "packets may be dropped by an XDP program at device eth0"}, {Where: "node m", Text: "packets may be dropped by a filter"}}
	for name, c := range map[string]struct {
		answer    Answer
		want, not string
	}{
		"nothing is sure":   {Answer{Verdict: NotReached, PossibleCauses: doubts}, "an XDP program at device eth0", "more rules"},
		"another finding":   {Answer{Verdict: NotReached, Findings: []pathexplain.Finding{{Where: "pod a/db", Text: "nobody listens"}}, PossibleCauses: doubts}, "an XDP program at device eth0", "more rules"},
		"a rule drops them": {Answer{Verdict: NotReached, Findings: []pathexplain.Finding{dropped}, PossibleCauses: doubts}, "2 more rules or programs may drop packets and are not evaluated: see `-o json`.", "XDP"},
		"and one doubt":     {Answer{Verdict: NotReached, Findings: []pathexplain.Finding{dropped}, PossibleCauses: doubts[:1]}, "1 more rule or program may drop packets", "XDP"},
	} {
		var out bytes.Buffer
		Write(text.Printer{Writer: &out}, c.answer)
		if got := out.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// Of many endpoints, some are judged, spread over the list.
func TestSomeEndpointsStandForAll(t *testing.T) {
	var all []netip.AddrPort
	for i := range 100 {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 2}), 80))
	}
	if some := spread(all); len(some) != judged || some[0] != all[0] || some[judged-1] != all[80] {
		t.Errorf("%v", some)
	}
	if some := spread(all[:2]); len(some) != 2 {
		t.Errorf("%v", some)
	}
}

// A reason that prevents connections to a service is a finding if nothing answers although an
// endpoint is reached, a possible cause if that is unknown, and ignored if another cause stops the
// packets to all endpoints.
func TestSuspects(t *testing.T) {
	suspect := pathexplain.Finding{Where: "node n", Text: "services on this node are left to kube-proxy"}
	reports := []pathexplain.Report{{Suspects: []pathexplain.Finding{suspect}}}
	connection := pathexplain.Probe{Kind: "tcp", Answered: true, End: true}
	for name, c := range map[string]struct {
		answer           Answer
		findings, doubts int
	}{
		"nothing answers":         {Answer{Verdict: NotReached, Endpoints: []Endpoint{{Verdict: NotReached}, {Verdict: Reached}}}, 1, 0},
		"no endpoint is known":    {Answer{Verdict: NotReached}, 1, 0},
		"no endpoint is reached":  {Answer{Verdict: NotReached, Endpoints: []Endpoint{{Verdict: NotReached}}}, 0, 0},
		"a datagram":              {Answer{Verdict: Pinged, Endpoints: []Endpoint{{Verdict: Pinged}}}, 0, 1},
		"a denied datagram":       {Answer{Verdict: Pinged, Endpoints: []Endpoint{{Verdict: Pinged, wrong: true}}}, 0, 0},
		"one of two is denied":    {Answer{Verdict: Pinged, Endpoints: []Endpoint{{Verdict: Pinged, wrong: true}, {Verdict: Pinged}}}, 0, 1},
		"reached, with a finding": {Answer{Verdict: NotReached, Endpoints: []Endpoint{{Verdict: Reached, wrong: true}}}, 1, 0},
		"a connection was opened": {Answer{Verdict: Reached, Probes: []pathexplain.Probe{connection}}, 0, 0},
		"some endpoints are open": {Answer{Verdict: SomeStopped, Probes: []pathexplain.Probe{{Kind: "tcp", End: true}}, Endpoints: []Endpoint{{Verdict: NotReached}, {Verdict: Reached}}}, 1, 0},
	} {
		if c.answer.suspect(reports); len(c.answer.Findings) != c.findings || len(c.answer.PossibleCauses) != c.doubts {
			t.Errorf("%s: %+v", name, c.answer)
		}
	}
}

// The port of a service may be omitted if it has only one; protocols are TCP, UDP or SCTP.
func TestPortsOfServices(t *testing.T) {
	one, two := []servicePort{{"", "3868/sctp"}}, []servicePort{{"http", "80/tcp"}, {"", "53/udp"}, {"m3ua", "2905/sctp"}}
	for _, c := range []struct {
		ports         []servicePort
		word          string
		protocol      string
		port          uint16
		wantedRefusal string
	}{
		{nil, "", "", 0, ""},
		{one, "", "sctp", 3868, ""},
		{two, "m3ua", "sctp", 2905, ""},
		{nil, "3868/SCTP", "sctp", 3868, ""},
		{two, "", "", 0, "service a/b (10.96.0.1) has several ports: use one of http (80/tcp), 53/udp or m3ua (2905/sctp)"},
		{nil, "80/dccp", "", 0, "is not a port: use 80, 80/tcp, 53/udp or 3868/sctp"},
	} {
		protocol, port, err := Place{Name: "service a/b", Address: "10.96.0.1", ports: c.ports}.Port(c.word)
		if protocol != c.protocol || port != c.port || (err != nil) != (c.wantedRefusal != "") || err != nil && !strings.Contains(err.Error(), c.wantedRefusal) {
			t.Errorf("%+v: %s, %d, %v", c, protocol, port, err)
		}
	}
}

// A dual-stack service is judged for one IP version, with a note on how to ask for the other.
func TestTheOtherIPVersion(t *testing.T) {
	six := []netip.Addr{netip.MustParseAddr("fd00::2")}
	service := Place{Name: "service a/b", Address: "10.96.0.1", others: []netip.Addr{netip.MustParseAddr("fd96::1")}, ports: []servicePort{{"", "80/tcp"}}}
	for name, c := range map[string]struct {
		from, to Place
		want     string
	}{
		"both":          {Place{Address: "10.1.1.2", others: six}, service, "[checked: IPv4; for IPv6, use fd96::1 with the port]"},
		"a pod of IPv4": {Place{Address: "10.1.1.2"}, service, "[]"},
		"not a service": {Place{Address: "10.1.1.2", others: six}, Place{Address: "10.1.2.2", others: six}, "[]"},
		"a pod of IPv6": {Place{Address: "fd00::2"}, service, "[]"},
	} {
		places := []Place{c.from, c.to}
		if err := sameVersion(places); err != nil {
			t.Fatal(err)
		}
		a := Answer{From: places[0], To: places[1]}
		if a.otherVersion(); fmt.Sprint(a.Way) != c.want {
			t.Errorf("%s: %v", name, a.Way)
		}
	}
}

// Addresses are read as in Kubernetes objects, from which they may be copied.
func TestTextsOfAddresses(t *testing.T) {
	known := Places{"default/web": podPlace("default/web", "node1", parse([]string{"010.001.1.2", "fd10:1::2/128"}))}
	for word, want := range map[string]string{
		"10.1.1.2": "default/web", "::ffff:10.1.1.2": "default/web", "010.1.1.2": "default/web", "FD10:1:0::2": "default/web",
		"010.1.1.3": "10.1.1.3", "10.1.1.2/32": "", "fe80::1%eth0": "",
	} {
		if got, found, err := known.find("", word, false); err != nil || found != (want != "") || !strings.Contains(got.Name, want) {
			t.Errorf("%s: %+v, %v, %v, want %q", word, got, found, err, want)
		}
	}
}
