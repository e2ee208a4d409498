package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
)

// A pod that keeps changing its own network must not delay repairs elsewhere or keep the agent
// busy.
func TestPodThatChangesItsNetworkWithoutEnd(t *testing.T) {
	require(t)
	l := labtest.Up(t, options("fl")) // a separate lab, because other tests check that nodes have no repeated repairs
	evil, near := pod(t, l, "flapping", "node1"), pod(t, l, "steady", "node1")
	agent := l.Agent("node1")
	ctx, cancel := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	defer storm.Wait()
	defer cancel()
	script := fmt.Sprintf("while :; do ip address del %[1]s dev eth0; ip link set eth0 mtu 1200; ip address add %[1]s dev eth0; done 2>/dev/null", addressIn(t, evil.Netns))
	storm.Go(func() { exec.CommandContext(ctx, "ip", "netns", "exec", evil.Netns, "sh", "-c", script).Run() })

	repairs := func() (n int) {
		t.Helper()
		var txns []*record.Txn
		if err := agent.Get(t.Context(), "/scheduler/txn-history", &txns); err != nil {
			t.Fatal(err)
		}
		for _, txn := range txns {
			if strings.Contains(fmt.Sprint(txn), evil.Name) && strings.HasPrefix(txn.Description, "drift:") {
				n++
			}
		}
		return n
	}
	await.That(t, "the storm is noticed", func() error {
		if n := repairs(); n < 5 {
			return fmt.Errorf("%d repairs", n)
		}
		return nil
	})
	address := addressIn(t, near.Netns)
	for range 3 {
		command.In(t, near.Netns, "ip address del "+address+" dev eth0")
		await.That(t, "the other pod has its address again", func() error {
			if out := command.In(t, near.Netns, "ip -4 -o address show dev eth0"); !strings.Contains(out, address) {
				return fmt.Errorf("it has %q", out)
			}
			return nil
		})
	}
	before, start := repairs(), time.Now()
	await.That(t, "fifteen seconds of the storm", func() error {
		if left := 15*time.Second - time.Since(start); left > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	if n := repairs() - before; n > 10 {
		t.Errorf("%d transactions in 15s for a pod that changes its network all the time, want one in 5s", n)
	}
	cancel()
	storm.Wait()
	await.That(t, "the pod has its MTU again", func() error {
		if out := command.In(t, evil.Netns, "ip -o link show dev eth0"); strings.Contains(out, "mtu 1200") {
			return fmt.Errorf("it has %q", out)
		}
		return nil
	})
}

func addressIn(t *testing.T, netns string) string {
	t.Helper()
	fields := strings.Fields(command.In(t, netns, "ip -4 -o address show dev eth0"))
	if len(fields) < 4 {
		t.Fatalf("eth0 has no address: %q", fields)
	}
	return fields[3]
}
