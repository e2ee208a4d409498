package house

import (
	"os/exec"
	"strings"
	"testing"
)

// contivctl is started for each question that somebody has. The generated clients of Kubernetes take as long to initialise as
// everything else that it is made of, and almost half of its size: it asks the API server by package ctl/kube.
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
