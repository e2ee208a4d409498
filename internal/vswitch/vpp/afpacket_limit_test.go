package vpp

import (
	"fmt"
	"strings"
	"testing"
)

func TestManyAFPacketsAreWarnedOf(t *testing.T) {
	const perThread = 15 // that a VPP thread can serve
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		for n := range perThread + 1 {
			if warnings, err := v.Warnings(t.Context()); err != nil || len(warnings) > 0 {
				t.Fatalf("with %d: %v, %v", n, warnings, err)
			}
			device := fmt.Sprintf("v1many%d", n)
			s.addDevice(t, device)
			create(t, v, afPacket(fmt.Sprintf("port%d", n), device))
		}
		warnings, err := v.Warnings(t.Context())
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "thread 0 of VPP serves 16 AF_PACKET interfaces") {
			t.Errorf("got %v, %v", warnings, err)
		}
	})
}
