package house

import (
	"os/exec"
	"strings"
	"testing"
)

// contivctl starts for each question. The generated Kubernetes clients would double its start time
// and almost double its size, so it calls the API server with package ctl/kube.
func TestContivctlStartsWithoutClientsOfKubernetes(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/contivctl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("contivctl has %d packages", len(packages))
	}
	for _, p := range packages {
		for _, slow := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery"} {
			if p == slow || strings.HasPrefix(p, slow+"/") {
				t.Errorf("contivctl links %s", p)
			}
		}
	}
}
