package conntrack_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"testing"

	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/vishvananda/netns"
)

// Only the bits of the mask go, only of stale marks, of connections of both IP versions and in zones.
func TestClearMarks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	name := fmt.Sprintf("marks%d", os.Getpid())
	run := func(command string) {
		t.Helper()
		if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	run("ip netns add " + name)
	t.Cleanup(func() { run("ip netns delete " + name) })
	run(fmt.Sprintf(`ip -netns %[1]s link set lo up; ip netns exec %[1]s nft 'table inet t {
		chain fresh { ct mark set 0x12000734; }
		chain stale { ct mark set 0x12000834; }
		chain zones { type filter hook output priority raw; udp dport 1003 ct zone set 5; }
		chain marks { type filter hook output priority filter; udp dport vmap { 1001: jump fresh, 1002: jump stale, 1003: jump stale }; }
	}'`, name))
	for _, to := range []string{"127.0.0.1", "::1"} {
		for _, port := range []string{"1001", "1002", "1003", "1004"} {
			run(fmt.Sprintf("ip netns exec %s bash -ec 'echo x > /dev/udp/%s/%s'", name, to, port))
		}
	}
	ns, err := netns.GetFromName(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	marks := func() map[string]int {
		seen := map[string]int{}
		if err := conntrack.ClearMarks(ns, 0, func(mark uint32) bool {
			seen[fmt.Sprintf("%#x", mark)]++
			return false
		}); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if got, want := marks(), map[string]int{"0x12000734": 2, "0x12000834": 4, "0x0": 2}; !maps.Equal(got, want) {
		t.Fatalf("before: %v, want %v", got, want)
	}
	if err := conntrack.ClearMarks(ns, 0x00ffff00, func(mark uint32) bool { return mark&0x00ffff00 == 0x800 }); err != nil {
		t.Fatal(err)
	}
	if got, want := marks(), map[string]int{"0x12000734": 2, "0x12000034": 4, "0x0": 2}; !maps.Equal(got, want) {
		t.Errorf("afterwards: %v, want %v", got, want)
	}
}
