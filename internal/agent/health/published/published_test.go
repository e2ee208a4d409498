package published_test

import (
	"testing"

	"github.com/contiv/contiv/internal/agent/health/published"
)

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"5 more pods have the same problem", "12 more pods have the same problem", true},
		{"no answer for 35s, 2 of 10 probes", "no answer for 1m20.5s, 3 of 10 probes", true},
		{"the disk is 95% full: 12.5GB", "the disk is 96% full: 12.6GB", true},
		{"lost 5/10.", "lost 6/10.", true},
		{"transaction #42 failed", "transaction #43 failed", true},
		{"read tcp 192.168.16.1:51234->192.168.16.254:32379: reset", "read tcp 192.168.16.1:40000->192.168.16.254:32379: reset", true},
		{"dial tcp [fd16::1]:51234: refused", "dial tcp [fd16::1]:40000: refused", true},
		{"pod default/web-1 has a problem", "pod default/web-2 has a problem", false},
		{"default/m3, default/m4 all claim the address 10.1.7.8, which", "default/m5, default/m6 all claim the address 10.1.7.8, which", false},
		{"address 10.1.7.8, which", "address 10.1.7.9, which", false},
		{"address fd10:1::8 is", "address fd10:1::9 is", false},
		{"network 10.1.0.0/16 overlaps", "network 10.1.0.0/24 overlaps", false},
		{"node node1 does not answer (10.1.1.1)", "node node2 does not answer (10.1.1.1)", false},
		{"device eth0: down", "device eth1: down", false},
		{`policy rule "77: from all" is`, `policy rule "78: from all" is`, true}, // too short to tell from a count
	} {
		if same := published.Identity(c.a) == published.Identity(c.b); same != c.same {
			t.Errorf("%q and %q: %v, want %v (%q, %q)", c.a, c.b, same, c.same, published.Identity(c.a), published.Identity(c.b))
		}
	}
}
