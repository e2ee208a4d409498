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
	"plugins/contivconf/config.go":         "contiv.conf",
	"plugins/contivconf/resolve.go":        "contiv.conf and NodeConfig, which the agent validates itself, and addresses that agents publish",
	"plugins/contivconf/subnets.go":        "contiv.conf",
	"plugins/nodesync/host.go":             "VppNode, which agents write",
	"plugins/nodesync/node.go":             "VppNode, which agents write",
	"plugins/nodesync/twin.go":             "VppNode, which agents write",
	"plugins/podmanager/request.go":        "the result of a CNI plugin",
	"plugins/policy/denials/probes.go":     "a query of contivctl",
	"plugins/policy/oracle/cluster.go":     "objects that tests make",
	"plugins/contivconf/contivconf.go":     "the record of this node, which its agent wrote",
	"plugins/policy/oracle/oracle.go":      "objects that tests make",
	"plugins/policy/policytest/world.go":   "objects that tests make",
	"plugins/service/config/config.go":     "service.conf",
	"plugins/service/connection.go":        "values of the agent",
	"plugins/service/hostconnections.go":   "values of the agent",
	"plugins/service/oracle/oracle.go":     "objects that tests make",
	"plugins/service/renderer/srv6/sid.go": "contiv.conf",
	"plugins/service/rest.go":              "a query of contivctl, and values of the agent",
	"ksr/signer/signer.go":                 "constants",
	"ctl/install/preflight.go":             "contiv.conf",
}

// Only package kubeaddr parses addresses in Kubernetes objects, so that all parts of Contiv agree
// about an object.
func TestAddressesOfKubernetesHaveOneReader(t *testing.T) {
	for _, room := range []string{"ksr", "plugins/contivconf", "plugins/ipam", "plugins/ipnet", "plugins/nodesync", "plugins/podmanager", "plugins/policy", "plugins/service", "ctl/install", "ctl/kube", "cmd/contiv-ksr"} {
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
