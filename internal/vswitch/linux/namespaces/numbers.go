package namespaces

import (
	"errors"
	"fmt"
	"sync"
)

// numbers maps namespaces to their numbers (NSID) in the agent's namespace, which the kernel uses
// in events.
type numbers struct {
	mu    sync.Mutex
	byNum map[int]ID
}

// Track makes the kernel deliver the events of a namespace to listeners in the agent's namespace.
func (s *Set) Track(ns *Namespace) error {
	if ns == s.Own {
		return nil
	}
	num, known := ns.knownNumber()
	if !known {
		var err error
		if num, err = s.assignNumber(ns); err != nil {
			return fmt.Errorf("assign a number to %s: %w", ns.Name, err)
		}
	}
	s.numbers.put(num, ns.ID)
	return nil
}

// TrackOwn updates the number that the agent's own namespace may have got in itself. Its events
// then carry it.
func (s *Set) TrackOwn() {
	if num, err := s.Number(s.Own); err == nil && num >= 0 {
		s.numbers.put(num, s.Own.ID)
	}
}

func (n *numbers) put(num int, ns ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byNum == nil {
		n.byNum = map[int]ID{}
	}
	n.byNum[num] = ns
}

// assignNumber returns the number of a namespace and assigns one if needed.
func (s *Set) assignNumber(ns *Namespace) (num int, err error) {
	num = -1
	if s.numbers.has(ns.ID) { // or an earlier namespace had the same identity
		num, err = s.Number(ns)
	}
	if err == nil && num < 0 {
		num, err = s.Own.AssignNetNsIdByFd(ns.fd)
	}
	if err == nil && num < 0 {
		err = errors.New("it has none afterwards")
	}
	if err == nil {
		ns.number.Store(int64(num) + 1)
	}
	return num, err
}

// Number returns the number of a namespace in the agent's namespace, negative if none. A namespace
// keeps its number while it exists, and it exists while it is open.
func (s *Set) Number(ns *Namespace) (int, error) {
	if num, known := ns.knownNumber(); known {
		return num, nil
	}
	num, err := s.Own.GetNetNsIdByFd(ns.fd)
	if err == nil && num >= 0 && ns != s.Own {
		ns.number.Store(int64(num) + 1)
	}
	return num, err
}

func (ns *Namespace) knownNumber() (num int, known bool) {
	stored := ns.number.Load()
	return int(stored - 1), stored > 0
}

// has reports whether the namespace had a number at the last query.
func (n *numbers) has(id ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, tracked := range n.byNum {
		if tracked == id {
			return true
		}
	}
	return false
}

func (s *Set) ByNumber(num int) (ID, bool) {
	s.numbers.mu.Lock()
	defer s.numbers.mu.Unlock()
	id, ok := s.numbers.byNum[num]
	return id, ok
}

// ForgetNumber removes the number of a deleted namespace and returns its identity.
func (s *Set) ForgetNumber(num int) (ID, bool) {
	s.numbers.mu.Lock()
	defer s.numbers.mu.Unlock()
	id, ok := s.numbers.byNum[num]
	delete(s.numbers.byNum, num)
	return id, ok
}
