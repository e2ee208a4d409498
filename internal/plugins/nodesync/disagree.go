package nodesync

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/plugins/contivconf"
)

const maxNamed = 3

// Disagreement returns an error if this node's addressing options differ from those of at least
// half of the nodes. Packets to and from pods of the other nodes are then lost. Nodes of the
// majority report nothing.
func (n *NodeSync) Disagreement() error {
	agreeing, changes := 1, []string(nil)
	var names []string
	for _, node := range n.GetAllNodes().sorted() {
		if node.Name == n.nodeName || len(node.IPAMOptions) == 0 {
			continue
		}
		if differences := contivconf.ChangedOptions(n.self.IPAMOptions, node.IPAMOptions); len(differences) > 0 {
			changes, names = differences, append(names, node.Name)
		} else {
			agreeing++
		}
	}
	if len(names) < agreeing {
		return nil
	}
	named := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("the addressing of this node disagrees with %s: %s; all nodes must have the same options", named, strings.Join(changes, "; "))
}
