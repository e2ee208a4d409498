package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/podmanager"
)

// podsSettle is how long Kubernetes may take to learn the address of a pod, or of its end.
const podsSettle = 30 * time.Second

// checkPods compares Kubernetes' pods of this node with the wired ones. Without etcd, Kubernetes'
// view may be outdated.
func checkPods(node string, known func() podmanager.Pods, wired func() (ipnet.PodsReport, error), connected func() error) health.Check {
	c := health.Lasting(podsSettle, health.Check{Name: "pods", Look: func(context.Context) (problems []string) {
		report, err := wired()
		if err != nil || connected() != nil {
			return nil
		}
		addresses := map[podmanager.PodID][]netip.Addr{}
		for _, p := range report.Pods {
			addresses[podmanager.PodID{Namespace: p.Namespace, Name: p.Name}] = addressesOf(p)
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
				problems = append(problems, fmt.Sprintf("pod %s/%s has the address %v in Kubernetes, and Contiv did not wire it: delete the pod, so that it starts anew", id.Namespace, id.Name, p.IPs[0]))
			case !slices.ContainsFunc(p.IPs, func(ip netip.Addr) bool { return slices.Contains(has, ip) }):
				problems = append(problems, fmt.Sprintf("pod %s/%s has the address %v in Kubernetes, and %s on this node: delete the pod, so that it starts anew", id.Namespace, id.Name, p.IPs[0], texts(has)))
			}
		}
		slices.Sort(problems)
		return problems
	}})
	return health.Check{Name: c.Name, Look: func(ctx context.Context) []string { return few(c.Look(ctx)) }}
}

// few leaves the first three, and says how many more there are.
func few(problems []string) []string {
	const most = 3
	if more := len(problems) - most; more > 0 {
		return append(problems[:most:most], fmt.Sprintf("so it is with %d more pods: contivctl pods, and kubectl get pods -o wide", more))
	}
	return problems
}

func addressesOf(p ipnet.PodReport) (list []netip.Addr) {
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
