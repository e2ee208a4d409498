package vswitchtest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// testVRFTools checks that tools of the host use VRF devices.
func testVRFTools(t *testing.T, v *vrfBench) {
	site, self := v.site.(VRFDeviceSite), v.site.Self()
	shown := self.Exec(t, "ip vrf show")
	for _, vrf := range []uint32{5, 6} {
		name, table := site.VRFDevice(vrf)
		if line := fmt.Sprintf(`(?m)^%s\s+%d\s*$`, regexp.QuoteMeta(name), table); !regexp.MustCompile(line).MatchString(shown) {
			t.Errorf("`ip vrf show` says\n%s\nwithout a line that matches %s", shown, line)
		}
	}
	five, _ := site.VRFDevice(5)
	six, _ := site.VRFDevice(6)
	if routes := self.Exec(t, "ip route show vrf "+five); !strings.Contains(routes, "10.50.0.0/24 dev c-a") || strings.Contains(routes, "c-b") {
		t.Errorf("the routes of %s are\n%s", five, routes)
	}
	ask := func(device, addr string, at *Host) error {
		_, err := self.AskFrom(device, addr, v.serve(t, at, addr))
		return err
	}
	for _, addr := range both("51", "2") {
		if err := ask(five, addr, v.c); err != nil {
			t.Errorf("a socket in VRF 5 asks %s: %v", addr, err)
		}
		if err := ask(six, addr, v.d); err != nil {
			t.Errorf("a socket in VRF 6 asks %s: %v", addr, err)
		}
		if ask(five, addr, v.d) == nil {
			t.Errorf("a socket in VRF 5 asks %s: the host of VRF 6 answered", addr)
		}
	}
	for _, addr := range append(both("60", "2"), both("60", "9")...) {
		at := v.m
		if strings.HasSuffix(addr, "9") {
			at = self
		}
		if ask(five, addr, at) == nil {
			t.Errorf("a socket in VRF 5 reached %s, which is in VRF 0", addr)
		}
		if err := ask("", addr, at); err != nil {
			t.Errorf("a socket in VRF 0 asks %s: %v", addr, err)
		}
	}
	v.with(interVRF(5, "10.60.0.0/24", 0), interVRF(0, "10.50.0.0/24", 5), interVRF(0, "10.51.0.0/24", 5))
	if err := ask(five, "10.60.0.2", v.m); err != nil {
		t.Errorf("a socket in VRF 5 reaches VRF 0 by a route: %v", err)
	}
	if err := ask("", "10.51.0.2", v.c); err != nil {
		t.Errorf("a socket in VRF 0 reaches VRF 5 by a route: %v", err)
	}
	if ask(six, "10.60.0.2", v.m) == nil {
		t.Error("a socket in VRF 6 reached VRF 0, to which only VRF 5 has a route")
	}
}
