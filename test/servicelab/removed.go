package servicelab

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// RemovedEndpoints removes endpoints from services while their pods keep running. For each kind of
// client, established TCP connections to all endpoints continue and new ones reach the remaining
// endpoint, also after other services and pods are added.
func RemovedEndpoints(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	const near, far, local, fewer = 10, 11, 12, 13
	const keepSource = "externalTrafficPolicy: Local"
	before := s.service(near, "", ready("near")...) + s.service(far, "", ready("far")...) + s.service(local, keepSource, ready("near")...) + s.service(fewer, "", ready("near", "near2", "far")...)
	after := s.service(near, "", ready("near2")...) + s.service(far, "", ready("near2")...) + s.service(local, keepSource, ready("near2")...)
	s.apply(t, before)
	one := s.service(fewer, "", ready("near")...)
	gone := strings.TrimPrefix(s.service(fewer, "", ready("near", "near2", "far")...), one)
	type open struct {
		who, name string
		to        netip.AddrPort
		c         net.Conn
	}
	var connections []open
	for _, from := range s.clients {
		for _, ipv6 := range []bool{false, true} {
			for number, name := range map[int]string{near: "near", far: "far", local: "near", fewer: ""} {
				at := []netip.AddrPort{netip.AddrPortFrom(clusterIP(number, ipv6), 80), netip.AddrPortFrom(s.nodeIP(ipv6), uint16(30000+number))}
				if from.node == "" {
					at = at[1:]
				} else if s.vpp && ipv6 && from.who == "a process of the node" {
					at = at[:1] // the host's only IPv6 address is the one towards VPP
				}
				for _, to := range at {
					c, err := labtest.Dial(from.netns, "tcp", to)
					if err != nil {
						t.Errorf("%s to %v: %v", from.who, to, err)
						continue
					}
					defer c.Close()
					connections = append(connections, open{from.who, name, to, c})
				}
			}
		}
	}
	require := func(when string) {
		t.Helper()
		for i, o := range connections {
			h, err := labtest.Say(o.c)
			if o.name == "" {
				connections[i].name, o.name = h.Name, h.Name
			}
			if err != nil || h.Name != o.name {
				t.Errorf("%s, %s to %v: %q answers (%v), want %q", when, o.who, o.to, h.Name, err, o.name)
			}
		}
	}
	require("at first")
	labtest.Apply(t, l, after)
	labtest.Delete(t, l, gone)
	s.settle(t)
	if err := s.answers(s.clients[0].netns, "tcp", netip.AddrPortFrom(clusterIP(near, false), 80), "near2"); err != nil {
		t.Errorf("new connections: %v", err)
	}
	require("without the endpoint")
	var more string
	for number := 40; number < 60; number++ {
		more += s.service(number, "", ready("near2", "far")...)
	}
	labtest.AddPods(t, l, lab.PodSpec{Name: "more", Node: "node1"}, lab.PodSpec{Name: "more2", Node: "node1"})
	s.apply(t, more)
	require("with more services and pods")
}
