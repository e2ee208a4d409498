package cni

import (
	"maps"
	"slices"
	"strings"
)

// usePodCIDR stands, as a subnet of the delegated IPAM plugin, for the pod subnets that Kubernetes
// assigned to the node. Its case is ignored.
const usePodCIDR = "usePodCidr"

func isPodCIDR(key string, value any) bool {
	text, ok := value.(string)
	return ok && key == "subnet" && strings.EqualFold(text, usePodCIDR)
}

func asksForPodCIDR(config any) bool {
	switch config := config.(type) {
	case map[string]any:
		for key, value := range config {
			if isPodCIDR(key, value) || asksForPodCIDR(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(config, asksForPodCIDR)
	}
	return false
}

// withPodCIDRs returns a copy of an IPAM configuration with the subnets in place of usePodCIDR.
// Several subnets become separate range sets, from each of which host-local takes one address:
//
//	"subnet": "usePodCidr"                   "ranges": [[{"subnet": A}], [{"subnet": B}]]
//	"ranges": [[{"subnet": "usePodCidr"}]]   the same
func withPodCIDRs(ipam any, subnets []string) any {
	config, ok := ipam.(map[string]any)
	if !ok || len(subnets) == 1 {
		return withPodCIDR(ipam, subnets[0])
	}
	config = maps.Clone(config)
	var sets []any
	if isPodCIDR("subnet", config["subnet"]) {
		delete(config, "subnet")
		sets = rangeSets([]any{map[string]any{"subnet": usePodCIDR}}, subnets)
	}
	ranges, _ := config["ranges"].([]any)
	for _, set := range ranges {
		sets = append(sets, rangeSets(set, subnets)...)
	}
	if len(sets) > 0 {
		config["ranges"] = sets
	}
	return withPodCIDR(config, subnets[0])
}

// rangeSets returns a range set for each subnet, or the unchanged set if it does not use
// usePodCIDR.
func rangeSets(set any, subnets []string) []any {
	if !asksForPodCIDR(set) {
		return []any{set}
	}
	var sets []any
	for _, subnet := range subnets {
		sets = append(sets, withPodCIDR(set, subnet))
	}
	return sets
}

func withPodCIDR(config any, subnet string) any {
	switch config := config.(type) {
	case map[string]any:
		copied := make(map[string]any, len(config))
		for key, value := range config {
			if isPodCIDR(key, value) {
				copied[key] = subnet
				continue
			}
			copied[key] = withPodCIDR(value, subnet)
		}
		return copied
	case []any:
		copied := make([]any, len(config))
		for i, value := range config {
			copied[i] = withPodCIDR(value, subnet)
		}
		return copied
	}
	return config
}
