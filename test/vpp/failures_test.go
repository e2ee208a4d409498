package vpp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// traffic sends datagrams from a pod on node1 to a local pod, to a pod on the other node and to the
// host. flow waits for n more answers per stream, end returns the reports.
func traffic(t *testing.T, l *lab.Lab) (flow func(n int), end func() map[string]lab.StreamReport) {
	t.Helper()
	pods := addPods(t, l, fourPods...)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	host, err := st.Endpoint("node1")
	if err != nil {
		t.Fatal(err)
	}
	var streams []*lab.Stream
	for _, to := range []lab.Endpoint{pods[1].Endpoint(), pods[2].Endpoint(), host} {
		s, err := lab.StartStream(pods[0].Endpoint(), to, 5*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	flow = func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, s := range streams {
			if err := s.Await(ctx, n); err != nil {
				t.Error(err)
			}
		}
	}
	flow(20)
	return flow, func() map[string]lab.StreamReport {
		reports := map[string]lab.StreamReport{}
		for _, s := range streams {
			reports[s.Path] = s.Stop()
			t.Logf("%s: %v", s.Path, reports[s.Path])
		}
		return reports
	}
}

func TestAgentRestartsUnderTraffic(t *testing.T) {
	l := up(t, "vpp")
	flow, end := traffic(t, l)
	for name, restart := range map[string]func(context.Context, string) error{
		"restart": l.RestartAgent,
		"crash": func(ctx context.Context, node string) error {
			if err := l.KillAgent(ctx, node); err != nil {
				return err
			}
			return l.StartAgent(ctx, node)
		},
	} {
		if err := restart(t.Context(), "node1"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		flow(50)
		txns, err := l.Agent("node1").Transactions(t.Context(), time.Time{})
		if err != nil || len(txns) == 0 {
			t.Fatalf("%s: %d transactions, %v", name, len(txns), err)
		}
		for _, txn := range txns {
			if len(lab.Operations(txn)) > 0 {
				t.Errorf("%s: the agent changed something afterwards:\n%s", name, txn)
			}
		}
	}
	for path, r := range end() {
		if r.Lost > 0 {
			t.Errorf("%s: %v", path, r)
		}
	}
	labtest.RequireQuiet(t, l)
}

// After a crash or restart, VPP gets its whole configuration back.
func TestVPPEndsUnderTraffic(t *testing.T) {
	for name, end := range map[string]func(*lab.Lab) error{
		"SIGKILL": func(l *lab.Lab) error { return l.KillVPP(t.Context(), "node1") },
		"SIGTERM": func(l *lab.Lab) error { return l.RestartVPP(t.Context(), "node1") },
	} {
		t.Run(name, func(t *testing.T) {
			l := up(t, "vpp")
			flow, stop := traffic(t, l)
			begun := time.Now()
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			t.Logf("VPP has all of its configuration %v later", time.Since(begun).Round(time.Millisecond))
			flow(50)
			for path, r := range stop() {
				if r.LongestGap == 0 {
					t.Errorf("%s: nothing was lost: VPP cannot have ended", path)
				}
				if r.LongestGap > 10*time.Second {
					t.Errorf("%s: %v", path, r)
				}
			}
			requireConnected(t, l)
			labtest.RequireQuiet(t, l)
		})
	}
}

func TestChangesByOthersAreUndone(t *testing.T) {
	l := up(t, "vpp", "kernel")
	pods := addPods(t, l, fourPods...)
	a, c := pods[0], pods[2]
	for _, command := range []string{
		"set interface state vxlan_tunnel0 down",
		"set interface l2 bridge vxlan_tunnel0 4095",
		"set ip neighbor del loop1 192.168.30.2 12:2b:00:00:00:02 static",
	} {
		begun := time.Now()
		out, err := l.VPPCommand(t.Context(), "node1", strings.Fields(command)...)
		if err != nil || strings.TrimSpace(out) != "" {
			t.Fatalf("%s: %v %s", command, err, out)
		}
		// The agent may have repaired it already.
		if _, err := l.Agent("node1").Drift(t.Context()); err != nil {
			t.Fatal(err)
		}
		txns, err := l.Agent("node1").Transactions(t.Context(), begun)
		if ops := lab.Operations(txns...); err != nil || len(ops) == 0 {
			t.Errorf("%s: undone by %d operations, %v", command, len(ops), err)
		}
		if _, err := lab.Ping(t.Context(), a.Endpoint(), c.Endpoint()); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	requireConnected(t, l)
	labtest.RequireQuiet(t, l)
}
