package kvscheduler

import (
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// Unmet returns the dependencies that a PENDING value waits for, those that the details
// of its status name. Explain tells more of them, and takes longer. Never waits for a
// transaction.
func (s *Scheduler) Unmet(key string) (needs []Need) {
	n, ok := s.view().Get(key)
	if !ok || n.State() != pb.ValueState_PENDING {
		return nil
	}
	for i := range n.deps {
		if label := n.depLabel(i); slices.Contains(n.details(), label) {
			needs = append(needs, Need{label, n.deps[i].target()})
		}
	}
	return needs
}
