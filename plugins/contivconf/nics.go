package contivconf

import (
	"fmt"
	"slices"
	"sync"
)

// nics are the network cards of a vswitch with a network stack of its own.
type nics struct {
	list func() ([]string, error) // nil: it has none of its own

	mu   sync.Mutex
	last []string // what was listed last; nil: nothing ever was
}

// first returns the first one that is none of the others; "" if there is none.
func (n *nics) first(others []Interface) (string, error) {
	if n.list == nil {
		return "", nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	names, err := n.list()
	if err == nil {
		n.last = append([]string{}, names...) // not nil
	} else if n.last == nil {
		return "", fmt.Errorf("find the main interface, which nodeConfig.mainVPPInterface.interfaceName does not name: %w", err)
	}
	for _, name := range n.last {
		if !slices.ContainsFunc(others, func(o Interface) bool { return o.Name == name }) {
			return name, nil
		}
	}
	return "", nil
}
