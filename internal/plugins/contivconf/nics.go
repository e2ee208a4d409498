package contivconf

import (
	"fmt"
	"slices"
	"sync"
)

type nics struct {
	list func() ([]string, error) // nil without its own stack

	mu   sync.Mutex
	last []string // the last list, or nil
}

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
		return "", fmt.Errorf("find the main interface, because nodeConfig.mainVPPInterface.interfaceName is not set: %w", err)
	}
	for _, name := range n.last {
		if !slices.ContainsFunc(others, func(o Interface) bool { return o.Name == name }) {
			return name, nil
		}
	}
	return "", nil
}
