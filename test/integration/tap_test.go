package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
)

// If another process moves a pod's TAP, the agent restores it, even without a notification.
func TestPodInterfaceIsMovedAway(t *testing.T) {
	l := require(t)
	p, peer, thief := pod(t, l, "robbed", "node1"), pod(t, l, "peer", "node2"), pod(t, l, "thief", "node1")
	before := deviceCount(t, l, "node1")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, to, netns string
		agentDown       bool
	}{
		{"to another pod", thief.ID(), thief.Netns, false},
		{"to the node", "node1", node.Netns, false},
		{"to another pod, unseen", thief.ID(), thief.Netns, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.agentDown {
				if err := l.KillAgent(t.Context(), "node1"); err != nil {
					t.Fatal(err)
				}
				defer l.StartAgent(context.Background(), "node1")
			}
			if _, err := l.Exec(t.Context(), p.ID(), "ip", "link", "set", "eth0", "name", "loot", "netns", test.netns); err != nil {
				t.Fatal(err)
			}
			if test.agentDown {
				if err := l.StartAgent(t.Context(), "node1"); err != nil {
					t.Fatal(err)
				}
			}
			await.That(t, "repaired", func() error {
				_, check := l.CNI(t.Context(), "CHECK", p.ID())
				return errors.Join(check, ping(t, p, peer))
			})
			out, err := l.Exec(t.Context(), test.to, "ip", "-o", "link")
			if err != nil || strings.Contains(out, "loot") {
				t.Errorf("the removed interface still exists: %s %v", out, err)
			}
			if after := deviceCount(t, l, "node1"); after != before {
				t.Errorf("node1 has %d devices, %d before", after, before)
			}
			labtest.RequireQuiet(t, l)
		})
	}
}
