package integration

import (
	"testing"

	"github.com/contiv/contiv/test/policylab"
)

func TestNetworkPolicies(t *testing.T) { policylab.NetworkPolicies(t, require(t), "node1") }

func TestClusterNetworkPolicies(t *testing.T) {
	policylab.ClusterNetworkPolicies(t, require(t), "node1")
}

func TestNewPodsAreNeverReachableWithoutTheirPolicies(t *testing.T) {
	policylab.NewPods(t, require(t))
}
