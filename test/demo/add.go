package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// showADD adds pods one by one and prints the time shares.
func (d *demo) showADD(ctx context.Context) error {
	pod, err := d.pod(0)
	if err != nil {
		return err
	}
	var specs []lab.PodSpec
	var ids []string
	for i := range d.opts.BatchPods {
		specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("batch%d", i+1), Node: pod.Node})
		ids = append(ids, specs[i].Name)
	}
	added, err := d.lab.AddPods(ctx, 1, specs...)
	if err != nil {
		return err
	}
	timings, err := d.lab.CNITimings(pod.Node)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, p := range added {
		ours[p.ContainerID] = true
	}
	var measured []lab.CNITiming
	for _, t := range timings {
		if t.Command == "ADD" && ours[t.Container] {
			measured = append(measured, t)
		}
	}
	if len(measured) != len(added) {
		return fmt.Errorf("contiv-cni reported the timing of %d of %d calls", len(measured), len(added))
	}
	d.printf("  %d pods on %s, one after the other:\n", len(measured), pod.Node)
	w := d.table()
	fmt.Fprintln(w, "  \tp50\tp90\tmax")
	for _, share := range []struct {
		name string
		of   func(lab.CNITiming) time.Duration
	}{
		{"whole call, as the runtime sees it", func(t lab.CNITiming) time.Duration { return t.Exec + t.Total }},
		{"  kernel: netlink and nftables calls of the agent", func(t lab.CNITiming) time.Duration { return t.Southbound }},
		{"  agent: event, plan, record, persist", func(t lab.CNITiming) time.Duration { return t.Agent - t.Southbound }},
		{"  calls between contiv-cni and agent", func(t lab.CNITiming) time.Duration { return t.RPC - t.Agent }},
		{"  contiv-cni itself", func(t lab.CNITiming) time.Duration { return t.Total - t.RPC }},
		{"  starting and ending the process contiv-cni", func(t lab.CNITiming) time.Duration { return t.Exec }},
	} {
		var times []time.Duration
		for _, t := range measured {
			times = append(times, share.of(t))
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", share.name, ms(lab.Percentile(times, 50)), ms(lab.Percentile(times, 90)), ms(lab.Percentile(times, 100)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := d.lab.DelPods(ctx, ids...); err != nil {
		return err
	}
	d.fact("the %d pods are removed again", len(ids))
	return nil
}
