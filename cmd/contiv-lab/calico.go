package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// calicoNodes suffices for a pod to move between two nodes that others watch.
const calicoNodes = 3

// upCalico creates a Calico cluster with one pod per node and prints examples.
func (c *cli) upCalico(ctx context.Context, nodesGiven bool) error {
	if !nodesGiven {
		c.opts.Nodes = calicoNodes
	}
	var l *lab.Lab
	var pods []lab.Pod
	err := c.guarded(func() error {
		var err error
		if l, err = lab.Up(ctx, c.opts); err != nil {
			return err
		}
		nodes, err := l.Nodes()
		if err == nil {
			var specs []lab.PodSpec
			for i, n := range nodes {
				specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("pod%d", i+1), Node: n.Name})
			}
			pods, err = l.AddPods(ctx, 4, specs...)
		}
		if err != nil {
			return errors.Join(err, l.Down(context.WithoutCancel(ctx)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	name := ""
	if c.opts.Name != lab.DefaultName {
		name = " --name " + c.opts.Name
	}
	fmt.Printf("Lab %s is up after %s: a Calico cluster without BGP.\n\n", c.opts.Name, time.Since(c.began).Round(10*time.Millisecond))
	nodes, err := l.Nodes()
	if err != nil {
		return err
	}
	for i, n := range nodes {
		fmt.Printf("  %s  %s  block %s  %s %s\n", n.Name, n.Address.Addr(), n.CalicoBlock(), pods[i].Name, pods[i].Address)
		if n.Address6.IsValid() {
			fmt.Printf("  %*s  %s  block %s  %*s %s\n", len(n.Name), "", n.Address6.Addr(), n.CalicoBlock6(), len(pods[i].Name), "", pods[i].Address6)
		}
	}
	fmt.Print("\nAll pods reach each other, by routes of contiv-calico-routes alone. Next:\n\n")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	for _, try := range [][2]string{
		{"matrix", "measure connectivity"},
		{"exec node1 -- ip route", "blackhole: the node's own block; via: blocks of others; ip -6 route for IPv6"},
		{"ctl txns", "transactions with times and reasons"},
		{"exec node1 -- ip route del " + nodes[len(nodes)-1].CalicoBlock().String(), "the route comes back at once"},
		{"node add node4", "the others have a route to its block"},
		{"node kill node2", fmt.Sprintf("it keeps its routes; the others remove their routes to it after %s", lab.CalicoTTL)},
		{"etcd stop", "routes stay"},
		{"down", ""},
	} {
		fmt.Fprintf(w, "  contiv-lab%s %s\t%s\n", name, try[0], try[1])
	}
	return w.Flush()
}
