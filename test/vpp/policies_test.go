package vpp

import (
	"testing"

	"github.com/contiv/contiv/test/policylab"
)

func TestPolicies(t *testing.T) {
	l := upServices(t, policylab.Config, policylab.ServiceConfig, "vpp", "kernel")
	t.Run("network policies", func(t *testing.T) { policylab.NetworkPolicies(t, l, "node2") })
	t.Run("cluster network policies", func(t *testing.T) { policylab.ClusterNetworkPolicies(t, l, "node2") })
	t.Run("semantics", func(t *testing.T) { policylab.Semantics(t, l) })
	t.Run("random tables", func(t *testing.T) { policylab.RandomTables(t, l) })
	t.Run("new pods", func(t *testing.T) { policylab.NewPods(t, l) })
	t.Run("disruptions", func(t *testing.T) { policylab.Disruptions(t, l) })
	t.Run("why", func(t *testing.T) { policylab.Why(t, l, binaries) })
}
