package main

import (
	"cmp"
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

// podsSettle is how long Kubernetes may take to report a pod's new address or its end.
const podsSettle = 30 * time.Second

// checkPods compares the node's pods in Kubernetes with the connected ones. Without etcd, the
// Kubernetes state may be outdated.
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

// identities are what says which pod a sandbox and an address belong to.
type identities struct {
	known func() podmanager.Pods
	wired func() podmanager.LocalPods
	// podOf returns the pod of a sandbox.
	podOf     func(*podmanager.LocalPod) (*podmanager.Pod, bool)
	addresses func(podmanager.PodID) []netip.Addr
	// refused says which sandboxes were refused.
	refused   func() []string
	connected func() error
}

// sandboxes reports those that claim the name of a pod and are not the pod.
func (i identities) sandboxes(context.Context) []string {
	problems := i.refused()
	if i.connected() != nil {
		return firstThree(problems)
	}
	known := i.known()
	var former []string
	for id, local := range i.wired() {
		p := known[id]
		if _, current := i.podOf(local); p != nil && !current {
			former = append(former, fmt.Sprintf("sandbox %s on this node is no longer pod %v, which is on node %s, UID %s: policies treat the sandbox like an unknown pod; remove it (crictl stopp, crictl rmp)",
				local.ContainerID, id, p.NodeName, cmp.Or(p.UID, "unknown")))
		}
	}
	slices.Sort(former)
	return firstThree(append(problems, former...))
}

// claims reports addresses that two pods claim, which both run.
func (i identities) claims(context.Context) (problems []string) {
	if i.connected() != nil {
		return nil
	}
	owners := map[netip.Addr][]string{}
	wired := i.wired()
	for id, p := range i.known() {
		if p.HostNetwork || p.Finished || p.Terminating {
			continue
		}
		addrs := slices.Clone(p.IPs)
		if local := wired[id]; local != nil {
			if _, current := i.podOf(local); current {
				addrs = append(addrs, i.addresses(id)...)
			}
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		for _, addr := range slices.Compact(addrs) {
			owners[addr] = append(owners[addr], id.String())
		}
	}
	for addr, pods := range owners {
		if len(pods) > 1 {
			slices.Sort(pods)
			problems = append(problems, fmt.Sprintf("%s claim the same address %v, so policies assign it to none of them: delete all but one of these pods", strings.Join(pods, ", "), addr))
		}
	}
	slices.Sort(problems)
	return firstThree(problems)
}

// firstThree returns the first three problems and the number of the others.
func firstThree(problems []string) []string {
	const most = 3
	if more := len(problems) - most; more > 0 {
		return append(problems[:most:most], fmt.Sprintf("%d more pods have the same problem: see contivctl pods and kubectl get pods -o wide", more))
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
