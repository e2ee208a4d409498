package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// openCNI opens the server for requests of contiv-cni, which adds and deletes pods.
func openCNI(o options, ready func() error, history *activityHistory, southbound *southboundComponent, events *eventLoop, nodes *nodes, pods *podList, podNetwork *podNetwork, log *slog.Logger) (component, error) {
	socket, err := listener.Unix(filepath.Join(o.runDir, "cni.sock"))
	if err != nil {
		return component{}, fmt.Errorf("serve CNI requests: %w", err)
	}
	server := podmanager.NewServer(pods.PodManager, events.loop, podmanager.NodeView{
		Connected: events.connected,
		Ready:     ready,
		Called:    history.counts.CNI,
		PodCIDRs:  func() []string { return podCIDRs(nodes.GetAllNodes()[o.nodeName]) },
		Device: func(pod podmanager.PodID) (name, mac string, ok bool) {
			logical, _, _, _ := podNetwork.GetPodIfNames(pod)
			return southbound.Device(logical)
		},
	}, log)
	return component{
		name:  "CNI server",
		tasks: []task{func(context.Context) error { return server.Serve(socket) }},
		stop: func(ctx context.Context) error {
			server.Stop(ctx)
			return nil
		},
		close: func() { socket.Close() }, // for an agent that ends before it serves
	}, nil
}

// podCIDRs returns the subnets that Kubernetes assigned to a node.
func podCIDRs(n *nodesync.Node) []string {
	if n == nil {
		return nil
	}
	return n.PodCIDRs
}
