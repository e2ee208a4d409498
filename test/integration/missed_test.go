package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
)

// The runtime deletes a container while the agent is down and keeps the network namespace for some
// time. The agent must still disconnect the container when it returns.
func TestDELWithoutAgentOfANamespaceThatStays(t *testing.T) {
	l := require(t)
	p := pod(t, l, "lingering", "node2")
	if err := l.StopAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	defer l.StartAgent(context.Background(), "node2")
	if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	var report ipnet.PodsReport
	if err := l.Agent("node2").Get(t.Context(), ipnet.PodsURL, &report); err != nil {
		t.Fatal(err)
	}
	for _, wired := range report.Pods {
		if wired.ContainerID == p.ContainerID {
			t.Error("the agent has the pod wired")
		}
	}
	if out := command.In(t, p.Netns, "ip -br link"); strings.Contains(out, "eth0") {
		t.Errorf("the pod's interface is left:\n%s", out)
	}
	labtest.RequireQuiet(t, l)
}
