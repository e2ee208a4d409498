package pods

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// Identities determines the pod that a sandbox or an address belongs to.
type Identities struct {
	Known func() podmanager.Pods
	Wired func() podmanager.LocalPods
	// PodOf returns the pod of a sandbox.
	PodOf     func(*podmanager.LocalPod) (*podmanager.Pod, bool)
	Addresses func(podmanager.PodID) []netip.Addr
	// Refused describes the sandboxes that were refused.
	Refused   func() []string
	Connected func() error
}

// Sandboxes reports sandboxes that claim the name of a pod and are not the pod.
func (i Identities) Sandboxes(context.Context) []string {
	problems := i.Refused()
	if i.Connected() != nil {
		return firstThree(problems)
	}
	known := i.Known()
	var former []string
	for id, local := range i.Wired() {
		p := known[id]
		if _, current := i.PodOf(local); p != nil && !current {
			former = append(former, fmt.Sprintf("sandbox %s on this node is no longer pod %v, which is on node %s, UID %s: policies treat the sandbox like an unknown pod; remove it (crictl stopp, crictl rmp)",
				local.ContainerID, id, p.NodeName, cmp.Or(p.UID, "unknown")))
		}
	}
	slices.Sort(former)
	return firstThree(append(problems, former...))
}

// AddressConflicts reports addresses that two running pods claim.
func (i Identities) AddressConflicts(context.Context) (problems []string) {
	if i.Connected() != nil {
		return nil
	}
	owners := map[netip.Addr][]string{}
	wired := i.Wired()
	for id, p := range i.Known() {
		if p.HostNetwork || p.Finished || p.Terminating {
			continue
		}
		addrs := slices.Clone(p.IPs)
		if local := wired[id]; local != nil {
			if _, current := i.PodOf(local); current {
				addrs = append(addrs, i.Addresses(id)...)
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
