package namespaces

import (
	"errors"
	"fmt"
	"sync"
)

// numbers are the numbers of namespaces. The kernel names namespaces in events by numbers that belong
// to the listener's namespace.
type numbers struct {
	mu    sync.Mutex
	byNum map[int]ID
}

// Track makes the kernel deliver the events of a namespace to listeners in the
// agent's own.
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

// TrackOwn is called when the agent's own namespace may have got a number in itself: then its events have that.
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

// assignNumber returns the number of a namespace, a new one if it has none.
func (s *Set) assignNumber(ns *Namespace) (num int, err error) {
	num = -1
	if s.numbers.has(ns.ID) { // or one that is gone had the same identity
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

// Number returns the number of a namespace in the agent's own, negative if it has none. It keeps
// its number as long as it exists, and it exists as long as it is open.
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

// has reports whether a namespace with the identity had a number when it was last asked for.
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

// ByNumber returns the namespace with the number.
func (s *Set) ByNumber(num int) (ID, bool) {
	s.numbers.mu.Lock()
	defer s.numbers.mu.Unlock()
	id, ok := s.numbers.byNum[num]
	return id, ok
}

// ForgetNumber is called when the namespace with the number has ceased to exist. It returns that.
func (s *Set) ForgetNumber(num int) (ID, bool) {
	s.numbers.mu.Lock()
	defer s.numbers.mu.Unlock()
	id, ok := s.numbers.byNum[num]
	delete(s.numbers.byNum, num)
	return id, ok
}
