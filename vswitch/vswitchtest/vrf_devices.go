package vswitchtest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func runVRFDevices(t *testing.T, c Config) {
	t.Run("are used by tools of the host", func(t *testing.T) { testVRFTools(t, newVRFBench(t, c)) })
	t.Run("take over from rules", func(t *testing.T) { testVRFUpgrade(t, c) })
	t.Run("no packet leaks when they take over", func(t *testing.T) { testUpgradeLeaksNothing(t, c) })
}

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

// testVRFUpgrade: the driver replaces the leftovers of a version without VRF devices.
func testVRFUpgrade(t *testing.T, c Config) {
	for _, keep := range []bool{true, false} {
		t.Run(map[bool]string{true: "the same values", false: "no values"}[keep], func(t *testing.T) {
			site := c.NewSite(t).(VRFDeviceSite)
			values := VRFValues(site.NIC())
			old := startAgentOn(t, site.OpenWithoutVRFDevices(t))
			old.resync(values...)
			old.wantConfigured(values)
			if site.Emulation(t) == "" {
				t.Fatal("nothing to take over")
			}
			old.stop()
			if !keep {
				values = nil
			}
			a := startAgent(t, site)
			wantSomethingExecuted(t, "resync after the upgrade", a.resync(values...))
			a.wantConfigured(values)
			if left := site.Emulation(t); left != "" {
				t.Errorf("left: %s", left)
			}
			a.stop()
			b := startAgent(t, site)
			wantNothingExecuted(t, "resync after a restart", b.resync(values...))
			b.wantConfigured(values)
		})
	}
}

// testUpgradeLeaksNothing: during the upgrade to VRF devices, hosts in VRFs send to destinations
// that only VRF 0 has.
func testUpgradeLeaksNothing(t *testing.T, c Config) {
	site := c.NewSite(t).(VRFDeviceSite)
	values := []proto.Message{
		vrfTable(5, false), vrfTable(5, true), vrfTable(6, false), vrfTable(6, true),
		inVRF(5, tap("a", "10.50.0.9/24", "fd00:50::9/64")), inVRF(6, tap("b", "10.51.0.9/24")), tap("m", "10.60.0.9/24", "fd00:60::9/64"),
		interVRF(5, "10.0.0.0/8", 6), // not into VRF 0
	}
	old := &vrfBench{bench: &bench{startAgentOn(t, site.OpenWithoutVRFDevices(t)), t, site}, ports: map[int]bool{}}
	old.resync(values...)
	old.wantConfigured(values)
	host, outside := old.routed("a", "50", "2"), old.routed("m", "60", "2")
	// With a return route, one leaked packet gets a reply.
	outside.Exec(t, "ip route replace default via 10.60.0.9 dev eth0")
	old.stop()

	var asking []*exec.Cmd
	answers := map[string]*strings.Builder{}
	for _, addr := range append(both("60", "2"), both("60", "9")...) {
		cmd := exec.Command("nsenter", "--net="+host.NetNS, "--", "ping", "-n", "-i", "0.002", addr)
		answers[addr] = &strings.Builder{}
		cmd.Stdout = answers[addr]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		asking = append(asking, cmd)
	}
	a := startAgent(t, site)
	a.resync(values...)
	for _, cmd := range asking {
		_ = cmd.Process.Signal(os.Interrupt) // ping prints its statistics
		_ = cmd.Wait()
	}
	a.wantConfigured(values)
	for addr, out := range answers {
		if !strings.Contains(out.String(), " packets transmitted, 0 received") {
			t.Errorf("%s was not asked, or answered VRF 5: %s", addr, out)
		}
	}
}
