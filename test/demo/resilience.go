package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sync/errgroup"
)

// healLimit bounds the repair of a deleted route.
const healLimit = 10 * time.Second

// showDrift deletes the route to a pod on its node, then the default route in the pod.
func (d *demo) showDrift(ctx context.Context) error {
	pod, err := d.pod(0)
	if err != nil {
		return err
	}
	toPod := netip.PrefixFrom(pod.Address, pod.Address.BitLen())
	return errors.Join(
		d.repair(ctx, pod, pod.Node, toPod, "/"+toPod.String()),
		d.repair(ctx, pod, pod.ID(), netip.MustParsePrefix("0.0.0.0/0"), "config/linux/l3/v2/route/0.0.0.0/0/"),
	)
}

// repair deletes a route, waits for its return, and prints the transaction with an operation on a
// key that contains keyPart.
func (d *demo) repair(ctx context.Context, pod lab.Pod, where string, dst netip.Prefix, keyPart string) error {
	before := time.Now()
	limited, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	damage, err := d.lab.DeleteRoute(limited, where, dst)
	d.printf("  # %s\n", damage.Command)
	if err != nil {
		return err
	}
	txn, err := repairOf(ctx, d.lab.Agent(pod.Node), before, keyPart)
	if err != nil {
		return fmt.Errorf("the route is back, but %w", err)
	}
	d.printTxn(txn)
	d.fact("the route was back %s after the kernel reported its deletion", ms(damage.Restored.Sub(damage.Deleted)))
	return nil
}

// repairOf finds the transaction since a time with an operation on such a key.
func repairOf(ctx context.Context, agent *lab.REST, since time.Time, keyPart string) (*kvscheduler.RecordedTxn, error) {
	var found *kvscheduler.RecordedTxn
	err := poll(ctx, 5*time.Second, func() (bool, error) {
		txns, err := agent.Transactions(ctx, since)
		for _, txn := range txns {
			for _, op := range lab.Operations(txn) {
				if strings.Contains(op.Key, keyPart) {
					found = txn
				}
			}
		}
		return found != nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("no recorded transaction repaired it: %w", err)
	}
	return found, nil
}

// showKill kills an agent and restarts it while pods on its node exchange packets with a pod of
// another node, a pod of the same node, and the outside host.
func (d *demo) showKill(ctx context.Context) error {
	pod, err := d.pod(0)
	if err != nil {
		return err
	}
	streams, err := d.startStreams(pod)
	if err != nil {
		return err
	}
	stopped := false
	stop := func() []lab.StreamReport {
		stopped = true
		var reports []lab.StreamReport
		for _, s := range streams {
			reports = append(reports, s.Stop())
		}
		return reports
	}
	defer func() {
		if !stopped {
			stop()
		}
	}()
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	killed, down, err := d.crash(limited, pod.Node, streams)
	if err != nil {
		return err
	}
	d.printf("  agent of %s: killed with SIGKILL (process %d), ready again %s after its start, gone for %s\n",
		pod.Node, killed, ms(down.start), ms(down.total))
	lost := 0
	for i, r := range stop() {
		d.printf("  %s: %s\n", streams[i].Path, r)
		lost += r.Lost
	}
	txns, err := d.lab.Agent(pod.Node).Transactions(ctx, time.Time{})
	if err != nil {
		return err
	}
	ops := lab.Operations(txns...)
	for _, txn := range txns {
		if len(lab.Operations(txn)) > 0 {
			d.printTxn(txn)
		}
	}
	if lost > 0 || len(ops) > 0 {
		return fmt.Errorf("%d packets were lost, and the resync executed %d operations; both should be 0", lost, len(ops))
	}
	d.fact("packets lost: 0; operations executed by the resync: 0 (%d transactions)", len(txns))
	return nil
}

func (d *demo) startStreams(pod lab.Pod) ([]*lab.Stream, error) {
	st, err := d.lab.State()
	if err != nil {
		return nil, err
	}
	outside, err := st.Endpoint(lab.OutsideName)
	if err != nil {
		return nil, err
	}
	targets := []lab.Endpoint{outside}
	for _, other := range d.pods {
		if other.ContainerID != pod.ContainerID {
			targets = append(targets, other.Endpoint())
		}
	}
	var streams []*lab.Stream
	for _, to := range targets {
		s, err := lab.StartStream(pod.Endpoint(), to, 10*time.Millisecond)
		if err != nil {
			for _, s := range streams {
				s.Stop()
			}
			return nil, err
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// downtime is the time until the agent was ready, since its start and since its kill.
type downtime struct{ start, total time.Duration }

func (d *demo) crash(ctx context.Context, node string, streams []*lab.Stream) (killed int, down downtime, err error) {
	st, err := d.lab.State()
	if err != nil {
		return 0, down, err
	}
	flow := func(n int) error {
		var all errgroup.Group
		for _, s := range streams {
			all.Go(func() error { return s.Await(ctx, n) })
		}
		return all.Wait()
	}
	if err := flow(20); err != nil {
		return 0, down, err
	}
	kill := time.Now()
	if err := d.lab.KillAgent(ctx, node); err != nil {
		return 0, down, err
	}
	if err := flow(50); err != nil {
		return 0, down, err
	}
	start := time.Now()
	if err := d.lab.StartAgent(ctx, node); err != nil {
		return 0, down, err
	}
	down = downtime{time.Since(start), time.Since(kill)}
	return st.Processes["agent/"+node].PID, down, flow(100)
}
