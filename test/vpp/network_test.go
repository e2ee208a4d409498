package vpp

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var fourPods = []lab.PodSpec{{Name: "a", Node: "node1"}, {Name: "b", Node: "node1"}, {Name: "c", Node: "node2"}, {Name: "d", Node: "node2"}}

// Connectivity between all pods, hosts and the outside, with VPP and kernel nodes.
func TestWhoReachesWhom(t *testing.T) {
	for _, vswitches := range [][]string{{"vpp"}, {"vpp", "kernel"}} {
		t.Run(strings.Join(vswitches, " and "), func(t *testing.T) {
			l := up(t, vswitches...)
			addPods(t, l, fourPods...)
			requireConnected(t, l)
			labtest.RequireQuiet(t, l)
			// Overlay traffic must not use NAT sessions, because their number is limited.
			if out, err := l.VPPCommand(t.Context(), "node1", "show", "nat44", "sessions"); err != nil || strings.Contains(out, ":4789") || strings.Contains(out, "port 4789") {
				t.Errorf("packets of the overlay meet NAT: %v\n%s", err, out)
			}
			if err := l.DelPods(t.Context(), "a", "b", "c", "d"); err != nil {
				t.Fatal(err)
			}
			labtest.RequireQuiet(t, l)
			if out, err := l.VPPCommand(t.Context(), "node1", "show", "interface"); err != nil || strings.Count(out, "\nhost-")+strings.Count(out, "\ntap") != 2 {
				t.Errorf("VPP has interfaces of pods that are gone: %v\n%s", err, out)
			}
		})
	}
}

// VPP would attribute packets of the host's stack on pod interfaces to the pods, and count them as
// drops (`contivctl drops`).
func TestHostIsSilentTowardsPods(t *testing.T) {
	l := up(t, "vpp")
	addPods(t, l, fourPods[:2]...)
	links, err := l.Exec(t.Context(), "node1", "ip", "-o", "link", "show", "type", "veth")
	if err != nil {
		t.Fatal(err)
	}
	devices := 0
	for line := range strings.Lines(links) {
		device, _, _ := strings.Cut(strings.Fields(line)[1], "@")
		if !strings.Contains(line, "alias contiv:linux/veth2-") {
			continue
		}
		devices++
		if out, err := l.Exec(t.Context(), "node1", "ip", "-6", "addr", "show", "dev", device); err != nil || strings.Contains(out, "inet6") {
			t.Errorf("the host has an address on %s: %v\n%s", device, err, out)
		}
	}
	if devices != 2 {
		t.Errorf("%d devices lead to the two pods:\n%s", devices, links)
	}
}

// VPP and kernel nodes use the same overlay: the same packet sizes in the same tunnel.
func TestVPPAndTheKernelSpeakTheSameOverlay(t *testing.T) {
	l := up(t, "vpp", "kernel")
	pods := addPods(t, l, fourPods...)
	a, c := pods[0], pods[2]
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	packets := sniff(t, st.Underlay(), "port2", func() {
		for _, pair := range [][2]lab.Pod{{a, c}, {c, a}} {
			if _, err := lab.Ping(t.Context(), pair[0].Endpoint(), pair[1].Endpoint()); err != nil {
				t.Error(err)
			}
		}
	})
	const mac1, mac2 = "12:2b:00:00:00:01", "12:2b:00:00:00:02"
	for _, want := range []overlayPacket{
		{"192.168.16.101", "192.168.16.2", 4789, 10, mac1, mac2, a.Address.String(), c.Address.String()},
		{"192.168.16.2", "192.168.16.101", 4789, 10, mac2, mac1, c.Address.String(), a.Address.String()},
	} {
		if packets[want] == 0 {
			t.Errorf("no packet %+v, but %+v", want, packets)
		}
	}
	// 1500 bytes minus the headers of VXLAN (50), IP (20) and ICMP (8).
	for _, pair := range [][2]lab.Pod{{a, c}, {c, a}} {
		for size, fits := range map[int]bool{1422: true, 1423: false} {
			out, err := l.Exec(t.Context(), pair[0].ID(), "ping", "-n", "-c1", "-W2", "-M", "do", "-s", fmt.Sprint(size), pair[1].Address.String())
			if (err == nil) != fits {
				t.Errorf("%s to %s, %d bytes: %v\n%s", pair[0].Name, pair[1].Name, size, err, out)
			}
		}
	}
}

// manyPods returns the number of pods on a node: the maximum with TAPs. With AF_PACKET, the pods,
// the NIC and the host must be fewer than 16, because otherwise a thread of VPP 25.10 polls forever
// (docs/design/vpp.md). CONTIV_VPP_PODS overrides the number for other versions.
func manyPods(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("CONTIV_VPP_PODS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("CONTIV_VPP_PODS: %v", err)
		}
		return n
	}
	if _, err := os.Stat("/dev/vhost-net"); err != nil {
		t.Log("no /dev/vhost-net: 12 pods instead of 250")
		return 12
	}
	return 250
}

func TestManyPods(t *testing.T) {
	count := manyPods(t)
	l := up(t, "vpp", "kernel")
	far := addPods(t, l, lab.PodSpec{Name: "far", Node: "node2"})[0]
	specs := make([]lab.PodSpec, count)
	for i := range specs {
		specs[i] = lab.PodSpec{Name: fmt.Sprintf("p%d", i), Node: "node1"}
	}
	begun := time.Now()
	pods := addPods(t, l, specs...)
	t.Logf("%d pods were added within %v", count, time.Since(begun).Round(time.Millisecond))
	reachable := func() {
		t.Helper()
		for _, p := range pods {
			if _, err := lab.Ping(t.Context(), far.Endpoint(), p.Endpoint()); err != nil {
				t.Errorf("%s: %v", p.ID(), err)
			}
		}
	}
	reachable()
	labtest.RequireQuiet(t, l)
	begun = time.Now()
	if err := l.KillVPP(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	t.Logf("VPP forwards for %d pods %v after it was killed", count, time.Since(begun).Round(time.Millisecond))
	reachable()
}
