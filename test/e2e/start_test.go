package e2e_test

import "testing"

func needCluster(t *testing.T) {
	t.Helper()
	if cluster == nil {
		t.Skip("needs a Kubernetes cluster: run make e2e")
	}
}

func TestNodesBecomeReadyThroughContivsCNI(t *testing.T) {
	needCluster(t)
}
