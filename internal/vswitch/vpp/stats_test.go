package vpp

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/prometheus/client_golang/prometheus"
)

// gather returns the metrics of VPP by name.
func gather(t testing.TB, v *VSwitch) map[string]int {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(v)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range families {
		found[f.GetName()] = len(f.GetMetric())
	}
	return found
}

func TestStatisticsOfARealVPP(t *testing.T) {
	p := vpptest.NewProcess(t, "/proc/self/ns/net")
	v := open(t, p)
	changes := reasons(t, v)
	for round := range 2 { // the second one with another VPP
		p.CLI("create loopback interface")
		p.CLI("set interface state loop0 up")
		p.CLI("set interface ip address loop0 10.77.0.1/24")
		p.CLI("ping 10.77.0.9 repeat 2 interval 0.01") // no such host: ARP requests are sent
		all, err := v.stats.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		if s := all[1]; s.GetOutPackets() == 0 || s.GetOutBytes() == 0 {
			t.Errorf("round %d: loop0 has counted %v, want that it has sent something", round, s)
		}
		found := gather(t, v)
		for _, name := range []string{"vpp_up", "vpp_buffers", "vpp_memory_bytes", "vpp_vector_rate", "vpp_worker_threads", "vpp_errors_total", "vpp_node_total"} {
			if found[name] == 0 {
				t.Errorf("round %d: no %s", round, name)
			}
		}
		if round == 0 {
			p.Restart()
			<-changes
		}
	}
}

func TestStatisticsThatAreNotThere(t *testing.T) {
	s := vpptest.New(t)
	v := open(t, s)
	if _, err := v.stats.Interfaces(); err == nil || !strings.Contains(err.Error(), "statseg") {
		t.Errorf("got %v, want an error that names the section of the configuration", err)
	}
	if found := gather(t, v); len(found) != 1 || found["vpp_up"] != 1 {
		t.Errorf("got %v, want only vpp_up", found)
	}
}

func TestCommandLine(t *testing.T) {
	v := open(t, vpptest.NewProcess(t, "/proc/self/ns/net"))
	out, err := v.vpp.CLI(t.Context(), "show version")
	if err != nil || !strings.Contains(out, "vpp v25.10") {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestCommandThatFailsSaysWhy(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		out, err := open(t, s).CLI(t.Context(), "shwo version")
		if err == nil || !strings.Contains(err.Error(), "unknown input `shwo version'") {
			t.Errorf("got %q, %v, want an error with what VPP says", out, err)
		}
	})
}
