package pods

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// settleTime is how long Kubernetes may take to report a pod's new address or its end.
const settleTime = 30 * time.Second

// Connected returns a check that compares the node's pods in Kubernetes with the connected ones. Without etcd, the
// Kubernetes state may be outdated, so the check finds nothing.
func Connected(node string, known func() podmanager.Pods, wired func() (ipnet.PodsReport, error), connected func() error) health.Check {
	c := health.Lasting(settleTime, health.Check{Name: "pods", Look: func(context.Context) (problems []string) {
		report, err := wired()
		if err != nil || connected() != nil {
			return nil
		}
		addresses := map[podmanager.PodID][]netip.Addr{}
		for _, p := range report.Pods {
			addresses[podmanager.PodID{Namespace: p.Namespace, Name: p.Name}] = Addresses(p)
			for _, i := range p.CustomInterfaces {
				if i.Problem != "" {
					problems = append(problems, fmt.Sprintf("pod %s/%s lacks its interface %s: %s", p.Namespace, p.Name, i.Name, i.Problem))
				}
			}
		}
		for id, p := range known() {
			if p.NodeName != node || p.HostNetwork || p.Finished || len(p.IPs) == 0 {
				continue
			}
			has, isWired := addresses[id]
			switch {
			case !isWired:
				problems = append(problems, fmt.Sprintf("pod %s/%s has the address %v in Kubernetes, but Contiv did not connect it: delete the pod to recreate it", id.Namespace, id.Name, p.IPs[0]))
			case !slices.ContainsFunc(p.IPs, func(ip netip.Addr) bool { return slices.Contains(has, ip) }):
				problems = append(problems, fmt.Sprintf("pod %s/%s has the address %v in Kubernetes, but %s on this node: delete the pod to recreate it", id.Namespace, id.Name, p.IPs[0], texts(has)))
			}
		}
		slices.Sort(problems)
		return problems
	}})
	return health.Check{Name: c.Name, Look: func(ctx context.Context) []string { return firstThree(c.Look(ctx)) }}
}

// firstThree returns the first three problems and the number of the others.
func firstThree(problems []string) []string {
	const most = 3
	if more := len(problems) - most; more > 0 {
		return append(problems[:most:most], fmt.Sprintf("%d more pods have the same problem: see contivctl pods and kubectl get pods -o wide", more))
	}
	return problems
}

// Addresses returns the addresses of a pod in a report.
func Addresses(p ipnet.PodReport) (list []netip.Addr) {
	for _, text := range p.IPs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			list = append(list, prefix.Addr())
		}
	}
	return list
}

func texts(list []netip.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
