package acl

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
)

func TestSourceRangesThatCannotBe(t *testing.T) {
	type frontend = guard.SourceRanges_Frontend
	good := &frontend{Address: "203.0.113.1", Port: 80, Sources: []string{"192.0.2.0/24"}}
	for want, frontends := range map[string][]*frontend{
		"":                          {good, {Address: "203.0.113.1", Port: 80, Protocol: guard.SourceRanges_UDP}, {Address: "fd99::1", Port: 65535, Sources: []string{"::/0"}}},
		"restricts nothing":         {},
		"frontends.address":         {{Address: "203.0.113.1/32", Port: 80}},
		"write it as 203.0.113.1":   {{Address: "::ffff:203.0.113.1", Port: 80}},
		"use 1 to 65535":            {{Address: "203.0.113.1"}},
		"use TCP, UDP or SCTP":      {{Address: "203.0.113.1", Port: 80, Protocol: 3}},
		"is listed twice":           {good, good},
		"no prefix such as":         {{Address: "203.0.113.1", Port: 80, Sources: []string{"192.0.2.1"}}},
		"of another IP version":     {{Address: "203.0.113.1", Port: 80, Sources: []string{"fd98::/64"}}},
		"\"nonsense\" is no prefix": {{Address: "203.0.113.1", Port: 80, Sources: []string{"nonsense"}}},
	} {
		err := validateSourceRanges(&guard.SourceRanges{Frontends: frontends})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", frontends, err, want)
		}
	}
}

func TestEquivalentSourceRanges(t *testing.T) {
	type frontend = guard.SourceRanges_Frontend
	value := func(iface string, frontends ...*frontend) *guard.SourceRanges {
		return &guard.SourceRanges{Interface: iface, Frontends: frontends}
	}
	a, b := &frontend{Address: "203.0.113.1", Port: 80, Sources: []string{"192.0.2.0/24", "10.0.0.0/8"}}, &frontend{Address: "fd99::1", Port: 80}
	same := &frontend{Address: "203.0.113.1", Port: 80, Sources: []string{"10.0.0.0/8", "192.0.2.7/24", "10.0.0.0/8"}}
	equivalent := sourceRangesDescriptor().Equivalent
	if !equivalent("", value("host", a, b), value("host", b, same)) {
		t.Error("the order matters, or how prefixes are written")
	}
	for what, other := range map[string]*guard.SourceRanges{"interface": value("", a, b), "fewer": value("host", a), "protocol": value("host", a, &frontend{Address: "fd99::1", Port: 80, Protocol: guard.SourceRanges_UDP})} {
		if equivalent("", value("host", a, b), other) {
			t.Errorf("%s: equivalent to %v", what, other)
		}
	}
}
