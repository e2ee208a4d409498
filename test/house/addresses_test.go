package house

import (
	"go/ast"
	"slices"
	"testing"
)

// addressParsers lists functions that parse addresses differently from Kubernetes.
var addressParsers = map[string][]string{
	"netip": {"ParseAddr", "ParsePrefix", "MustParseAddr", "MustParsePrefix"},
	"net":   {"ParseIP", "ParseCIDR"},
}

// otherTexts lists files that use Kubernetes objects but parse addresses from elsewhere, with their
// origin.
var otherTexts = map[string]string{
	"internal/plugins/contivconf/config.go":         "contiv.conf",
	"internal/plugins/contivconf/resolve.go":        "contiv.conf and NodeConfig, which the agent validates itself, and addresses that agents publish",
	"internal/plugins/contivconf/subnets.go":        "contiv.conf",
	"internal/plugins/nodesync/host.go":             "VppNode, which agents write",
	"internal/plugins/nodesync/node.go":             "VppNode, which agents write",
	"internal/plugins/nodesync/twin.go":             "VppNode, which agents write",
	"internal/plugins/podmanager/request.go":        "the result of a CNI plugin",
	"internal/plugins/policy/denials/probes.go":     "a query of contivctl",
	"internal/plugins/policy/oracle/cluster.go":     "objects that tests make",
	"internal/plugins/contivconf/contivconf.go":     "the record of this node, which its agent wrote",
	"internal/plugins/policy/oracle/oracle.go":      "objects that tests make",
	"internal/plugins/policy/policytest/world.go":   "objects that tests make",
	"internal/plugins/service/config/config.go":     "service.conf",
	"internal/plugins/service/explain.go":           "values of the agent",
	"internal/plugins/service/explainhost.go":       "values of the agent",
	"internal/plugins/service/oracle/oracle.go":     "objects that tests make",
	"internal/plugins/service/renderer/srv6/sid.go": "contiv.conf",
	"internal/plugins/service/report.go":            "a query of contivctl, and values of the agent",
	"internal/kubernetes/ksr/signer/signer.go":      "constants",
	"internal/ctl/install/preflight.go":             "contiv.conf",
}

// Only package kubeaddr parses addresses in Kubernetes objects, so that all parts of Contiv agree
// about an object.
func TestAddressesOfKubernetesHaveOneReader(t *testing.T) {
	for _, room := range []string{"internal/kubernetes/ksr", "internal/plugins/contivconf", "internal/plugins/ipam", "internal/plugins/ipnet", "internal/plugins/nodesync", "internal/plugins/podmanager", "internal/plugins/policy", "internal/plugins/service", "internal/ctl/install", "internal/ctl/kube", "cmd/contiv-ksr"} {
		forEachFile(t, room, func(path string, file *ast.File) {
			if otherTexts[path] != "" {
				return
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if f, ok := n.(*ast.SelectorExpr); ok {
					if from, ok := f.X.(*ast.Ident); ok && slices.Contains(addressParsers[from.Name], f.Sel.Name) {
						t.Errorf("%s uses %s.%s: read texts of Kubernetes with the package kubeaddr, or add the origin of the text to otherTexts", path, from.Name, f.Sel.Name)
					}
				}
				return true
			})
		})
	}
}
