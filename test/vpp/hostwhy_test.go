package vpp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// wantWhy checks the output of contivctl why for node ports at host addresses. open is a port with
// endpoints, closed one without.
func wantWhy(t *testing.T, l *lab.Lab, host []netip.Addr, pod, outside string, open, closed served) {
	t.Helper()
	for _, addr := range host {
		port := func(s served) string { return fmt.Sprint(s.nodePort(addr).Port()) }
		for _, test := range []struct {
			from, port string
			code       int
			verdict    string
			want       []string
		}{
			{pod, port(open), 0, why.Reached, []string{"its kernel sends connections to", fmt.Sprintf("see %v, not", seenThroughHost(addr.Is6(), false)), open.addrs[0].String()}},
			{"node1", port(open), 0, why.Reached, []string{"its kernel sends connections to", fmt.Sprintf("see %v, not", seenThroughHost(addr.Is6(), true))}},
			{pod, port(closed), 1, why.NotReached, []string{"has no endpoint, so that it is left to the host", "refused"}},
			{pod, "23", 1, why.NotReached, []string{"it is the host's own"}},
		} {
			a, code := labtest.AskWhy(t, l, binaries, test.from, addr.String(), test.port)
			text := fmt.Sprintf("%+v", a)
			if code != test.code || a.Verdict != test.verdict {
				t.Errorf("why from %s to port %s of %v ends with %d, want %d %s: %s", test.from, test.port, addr, code, test.code, test.verdict, text)
			}
			for _, want := range test.want {
				if addr.Is6() && want == open.addrs[0].String() {
					continue
				}
				if !strings.Contains(text, want) {
					t.Errorf("why from %s to port %s of %v: no %q in %s", test.from, test.port, addr, want, text)
				}
			}
		}
	}
	a, code := labtest.AskWhy(t, l, binaries, outside, host[0].String(), fmt.Sprint(open.nodePort(host[0]).Port()))
	if text := fmt.Sprintf("%+v", a); code != 2 || !strings.Contains(text, "its kernel sends connections to") || !strings.Contains(text, "see 172.30.1.3, not "+outside) {
		t.Errorf("why from outside ends with %d: %s", code, text)
	}
}
