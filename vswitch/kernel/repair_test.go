package kernel

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch/descriptors"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/contiv/contiv/vswitch/vswitchtest"
)

// A port that somebody takes out of its bridge is put back by the first attempt.
func TestPortsAreBoundAgain(t *testing.T) {
	n := newNode(t)
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 1}
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	check(t, descriptors.Register(s, v))
	check(t, v.Watch(t.Context(), func(reason string, keys ...string) { _ = s.ReportDrift(reason, keys...) }))
	txn := s.NewTransaction()
	for _, value := range topo.Values() {
		txn.Put(models.Key(value), value)
	}
	_, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDefaultRetry())
	check(t, err)
	bridge := own.DeviceName(own.DevBridge, vswitchtest.Bridge)
	var ports []string
	for line := range strings.Lines(n.Exec(t, "ip -o link show master "+bridge)) {
		name, _, _ := strings.Cut(strings.TrimSuffix(strings.Fields(line)[1], ":"), "@")
		ports = append(ports, name)
	}
	if len(ports) < 2 {
		t.Fatalf("ports of the bridge: %v", ports)
	}
	for _, port := range ports {
		check(t, s.Barrier(t.Context()))
		start := time.Now()
		n.Exec(t, "ip link set dev "+port+" nomaster")
		for !strings.Contains(n.Exec(t, "ip -o link show dev "+port), "master "+bridge) {
			if time.Since(start) > time.Minute {
				t.Fatalf("%s is not bound again", port)
			}
		}
		check(t, s.Barrier(t.Context()))
		for _, txn := range s.History(start, time.Time{}) {
			for _, op := range txn.Executed {
				if op.NewErr != nil {
					t.Errorf("%s of %s failed: %v", op.Operation, op.Key, op.NewErr)
				}
			}
		}
	}
}
