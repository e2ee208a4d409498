package linux

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// nsids tells which network namespace an event comes from. The kernel names
// namespaces in events by numbers that belong to the listener's namespace.
type nsids struct {
	mu    sync.Mutex
	byNum map[int]nsID
}

func newNSIDs() *nsids { return &nsids{byNum: map[int]nsID{}} }

// track makes the kernel deliver the events of a namespace to listeners in the
// agent's own.
func (n *nsids) track(own, ns *netNS) error {
	if ns == own {
		return nil
	}
	if num, known := ns.knownNumber(); known {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.byNum[num] = ns.id
		return nil
	}
	num, err := -1, error(nil)
	if n.has(ns.id) { // or one that is gone had the same identity
		num, err = ns.numberIn(own)
	}
	if err == nil && num < 0 {
		if err = own.SetNetNsIdByFd(ns.fd, -1); err == nil || errors.Is(err, unix.EEXIST) {
			num, err = ns.numberIn(own)
		}
	}
	if err != nil || num < 0 {
		return fmt.Errorf("assign a number to %s: %w", ns.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byNum[num] = ns.id
	return nil
}

// numberIn returns the number of the namespace in the agent's own, negative if it has none. It keeps
// its number as long as it exists, and it exists as long as it is open.
func (ns *netNS) numberIn(own *netNS) (int, error) {
	if num, known := ns.knownNumber(); known {
		return num, nil
	}
	num, err := own.GetNetNsIdByFd(ns.fd)
	if err == nil && num >= 0 {
		ns.number.Store(int64(num) + 1)
	}
	return num, err
}

func (ns *netNS) knownNumber() (num int, known bool) {
	stored := ns.number.Load()
	return int(stored - 1), stored > 0
}

// has reports whether a namespace with the identity had a number when it was last asked for.
func (n *nsids) has(id nsID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, tracked := range n.byNum {
		if tracked == id {
			return true
		}
	}
	return false
}

// lookup returns the namespace with the number.
func (n *nsids) lookup(num int) (nsID, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.byNum[num]
	return id, ok
}

// forget is called when the namespace with the number has ceased to exist.
func (n *nsids) forget(num int) (nsID, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.byNum[num]
	delete(n.byNum, num)
	return id, ok
}
