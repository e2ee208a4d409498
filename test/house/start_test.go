package house

import (
	"os/exec"
	"strings"
	"testing"
)

// contivctl starts for each question. The generated Kubernetes clients would double its start time
// and almost double its size, so it calls the API server with package internal/ctl/kube. The other
// programs use package internal/kubernetes/kubeapi: the clients were a third of the packages that
// are compiled for them.
func TestProgramsStartWithoutClientsOfKubernetes(t *testing.T) {
	for _, program := range []string{"contivctl", "contiv-ksr", "contiv-calico-routes", "contiv-agent", "contiv-lab"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/"+program).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		packages := strings.Fields(string(out))
		if len(packages) < 100 {
			t.Fatalf("%s has %d packages", program, len(packages))
		}
		for _, p := range packages {
			for _, slow := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery"} {
				if p == slow || strings.HasPrefix(p, slow+"/") {
					t.Errorf("%s links %s", program, p)
				}
			}
		}
	}
}
